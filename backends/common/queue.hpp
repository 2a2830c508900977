// The calls of one rank in one group: started by the caller and executed in the same order by the group's
// own thread, so that they overlap with the caller's computation.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "backends/common/call.hpp"

namespace pipeline::backends {

// How the ranks of a group exchange bytes: what differs between backends that run on a thread of their own.
// All methods except interrupt() are called by one thread at a time: the one that opens the group, then the
// Queue's.
class Transport {
 public:
  virtual ~Transport() = default;

  // Executes the call; throws if it fails, and then no longer touches the call's memory.
  virtual void run(const Call& call, uint64_t sequence) = 0;
  // Makes current and future calls of run() throw soon. [any-thread]
  virtual void interrupt() noexcept = 0;
  // After run() threw: the ranks that had not joined that call, as far as known.
  virtual std::vector<int32_t> absent() const = 0;
  // Call it when the group has failed here. Tells the other ranks why, without waiting for them.
  virtual void leave(const std::string& why) noexcept = 0;

  virtual const std::string& library() const = 0;
  virtual const std::string& mechanism() const = 0;
};

// The first failure ends the group: current and later calls fail with the same reason. [any-thread]
class Queue {
 public:
  Queue(std::unique_ptr<Transport> transport, int32_t rank, double timeout_seconds);
  ~Queue();

  std::unique_ptr<Work> start(Call call);
  void abort(std::string_view reason);
  const Transport& transport() const { return *transport_; }
  // Implements pl_backend_api.observe.
  void observe(pl_collective_ran ran, void* user);

 private:
  struct Item {
    Call call;
    uint64_t sequence;
    bool done = false;
    std::optional<Error> error;
  };
  class Started;

  void wait(Item& item, double timeout_seconds);
  bool is_done(const Item& item);
  void end(const Error& why);
  void work();
  void carry_out(Item& item, std::unique_lock<std::mutex>& lock);
  Error failure(const Item& item, const Error& seen);
  void tell_the_others(std::unique_lock<std::mutex>& lock);

  const std::unique_ptr<Transport> transport_;
  const int32_t rank_;
  const double timeout_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Item>> waiting_;
  uint64_t sequence_ = 0;
  std::optional<Error> ended_;     // what later calls fail with
  std::optional<double> gave_up_;  // the timeout, in seconds, if that ended the group
  bool told_ = false;              // the other ranks know
  bool closing_ = false;
  pl_collective_ran ran_ = nullptr;
  void* ran_user_ = nullptr;
  std::thread thread_;
};

// A backend for host memory: a Transport behind a Queue.
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
