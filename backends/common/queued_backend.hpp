// A backend for host memory: a Transport behind a Queue.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "backends/common/call.hpp"
#include "backends/common/queue.hpp"

namespace pipeline::backends {

template <class ConfigT>
class QueuedBackend : public Backend<ConfigT> {
 public:
  using typename Backend<ConfigT>::Setup;
  using typename Backend<ConfigT>::Started;

  QueuedBackend(const Setup& setup, std::unique_ptr<Transport> transport)
      : Backend<ConfigT>(setup),
        calls_(setup.args.rank, setup.args.world_size, PL_DEVICE_CPU),
        queue_(std::move(transport), setup.args.rank, setup.args.timeout_seconds) {}

  const std::string& library() const override { return queue_.transport().library(); }
  const std::string& transport() const override { return queue_.transport().mechanism(); }

  Started all_reduce(const pl_buffer& in_out, uint32_t reduce) override {
    return queue_.start(calls_.all_reduce(in_out, reduce));
  }
  Started reduce_scatter(const pl_buffer& in, const pl_buffer& out_shard, Counts counts,
                         uint32_t reduce) override {
    return queue_.start(calls_.reduce_scatter(in, out_shard, counts, reduce));
  }
  Started all_gather(const pl_buffer& in_shard, const pl_buffer& out_full, Counts counts) override {
    return queue_.start(calls_.all_gather(in_shard, out_full, counts));
  }
  Started broadcast(const pl_buffer& in_out, int32_t root) override {
    return queue_.start(calls_.broadcast(in_out, root));
  }
  Started all_to_all(const pl_buffer& in, const pl_buffer& out, Counts send_counts,
                     Counts receive_counts) override {
    return queue_.start(calls_.all_to_all(in, out, send_counts, receive_counts));
  }
  Started barrier() override { return queue_.start(calls_.barrier()); }
  void abort(std::string_view reason) override { queue_.abort(reason); }
  void observe(pl_collective_ran ran, void* user) override { queue_.observe(ran, user); }

 private:
  Calls calls_;
  Queue queue_;
};

}  // namespace pipeline::backends
