#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/plugins/flight_record.hpp"
#include "core/plugins/host.hpp"
#include "core/plugins/plugin.hpp"
#include "core/plugins/thread_check.hpp"

namespace pipeline::plugins {

struct OpenArgs {
  std::string address;  // host name or IP of rank 0
  std::string group;    // its name, unique in the run
  std::int32_t rank = 0;
  std::int32_t world_size = 1;
  std::int32_t local_rank = 0;
  std::int32_t local_world_size = 1;
  pl_device device{PL_DEVICE_CPU, 0};
  std::chrono::duration<double> timeout{600};
};

// A collective in progress. Wait for it once, before freeing its buffers. The destructor waits for a Work
// that nobody waited for; its failure is then lost.
class Work {
 public:
  Work(const pl_communicator& communicator, pl_work* handle)
      : communicator_(&communicator), handle_(handle) {}
  Work(Work&& other) noexcept
      : communicator_(other.communicator_), handle_(std::exchange(other.handle_, nullptr)) {}
  Work& operator=(Work&&) = delete;
  ~Work();

  // Blocks until the work is done. Zero timeout: the group's. Throws Error. [any-thread]
  void wait(std::chrono::duration<double> timeout = {});
  // False while wait() would block; true where the backend cannot tell. [any-thread]
  bool is_done() const;

 private:
  const pl_communicator* communicator_;
  pl_work* handle_;
};

// A group of ranks on a backend plugin. Every call, by the core and by strategies, goes through one
// forwarding table that checks thread tags, names the plugin in errors and keeps the flight record.
// Collectives are [collective].
class Communicator {
 public:
  // Blocks until all ranks have connected. `context` and `config` must outlive this object.
  Communicator(const Plugin& backend, const pl_context& context, const pl_config* config,
               const OpenArgs& args);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  std::int32_t rank() const { return view_.rank; }
  std::int32_t world_size() const { return view_.world_size; }
  const Plugin& plugin() const;
  std::string library() const;    // "NCCL 2.27.3"
  std::string transport() const;  // interface or mechanism

  Work all_reduce(const pl_buffer& in_out, std::uint32_t reduce = PL_REDUCE_SUM);
  // `counts`: elements per rank; empty: split evenly.
  Work reduce_scatter(const pl_buffer& in, const pl_buffer& out_shard,
                      std::span<const std::uint64_t> counts = {}, std::uint32_t reduce = PL_REDUCE_SUM);
  Work all_gather(const pl_buffer& in_shard, const pl_buffer& out_full,
                  std::span<const std::uint64_t> counts = {});
  Work broadcast(const pl_buffer& in_out, std::int32_t root);
  Work all_to_all(const pl_buffer& in, const pl_buffer& out, std::span<const std::uint64_t> send_counts = {},
                  std::span<const std::uint64_t> receive_counts = {});
  Work barrier();
  // Makes pending and later calls fail. May run concurrently with everything. [any-thread]
  void abort(std::string_view reason);

  // The group as passed to a strategy.
  const pl_communicator& view() const { return view_; }
  const FlightRecord& record() const;

  // The state behind the forwarding table.
  struct Channel;

 private:
  std::unique_ptr<Channel> channel_;
  pl_communicator view_{};
};

// A buffer in host memory.
pl_buffer host_buffer(float* data, std::uint64_t count);
pl_buffer host_buffer(double* data, std::uint64_t count);
pl_buffer host_buffer(std::int64_t* data, std::uint64_t count);
pl_buffer host_buffer(std::uint8_t* data, std::uint64_t count);
pl_buffer host_buffer(void* data, std::uint64_t count, pl_dtype dtype);

}  // namespace pipeline::plugins
