#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "core/plugins/call.hpp"

namespace pipeline::plugins {

// A collective that this rank called.
struct Flight {
  uint64_t sequence = 0;       // 1-based, the same on all ranks
  const char* operation = "";  // "all_reduce"
  uint64_t count = 0;          // elements of the first buffer; of all_gather, the gathered one
  pl_dtype dtype{};
  std::chrono::steady_clock::time_point started{};
  std::chrono::steady_clock::time_point finished{};  // end of its wait; `started` while in progress
  bool done = false;
  bool failed = false;
  std::optional<std::chrono::steady_clock::time_point> waited{};  // when this rank began to block on it
  std::array<char, 64> label{};  // what it is for, as its caller says: "bucket 3"; ends with a zero
  pid_t waiter = 0;              // the thread that waited; only while flights are kept
};

// "all_reduce #12 (4096 x float32, bucket 3)"
std::string describe(const Flight& flight);

// The last collectives of one group, for when a rank hangs or fails. [any-thread]
class FlightRecord {
 public:
  static constexpr size_t kCapacity = 64;

  void begin(const char* operation, const pl_buffer* full, const pl_buffer* first, const pl_work* work);
  void wait(const pl_work* work);
  void end(const pl_work* work, bool failed);
  std::optional<Flight> find(const pl_work* work) const;  // nullopt: not in progress, or long ago

  std::vector<Flight> recent() const;  // oldest first

  // For a profile: all flights that end between keep() and stop_keeping(), or are still under way at the
  // latter, which is their `finished` then, and when the backend says that they ran.
  struct Ran {
    uint64_t sequence = 0;
    std::chrono::steady_clock::time_point began{}, ended{};
  };
  struct Kept {
    std::vector<Flight> flights;
    std::vector<Ran> ran;
    bool has_times;  // the backend gives them for all that it ends in this time
  };
  void keep();
  void ran(const Ran& times);
  Kept stop_keeping();

  // Seconds so far: that this process was blocked in waits, and that at least one collective was between its
  // call and the end of its wait.
  struct Times {
    double blocked = 0, in_flight = 0;
  };
  Times times() const;

 private:
  struct Entry {
    Flight flight;
    const pl_work* work;
  };
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  // a ring: the flight with sequence s is at (s - 1) % kCapacity
  uint64_t next_ = 1;
  std::optional<Kept> kept_;
  Times times_;
  uint64_t under_way_ = 0;
  std::chrono::steady_clock::time_point first_began_{};  // of the flights under way
};

struct OpenArgs {
  std::string address;                     // host name or IP of rank 0
  std::string group;                       // its name, unique in the run
  std::vector<std::int32_t> members = {};  // ranks in the run, by rank in the group; empty: all
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
  // Work queued on `stream` from now on sees the result; without a stream, this thread does when it returns.
  // The host does not wait for a device. Throws Error.
  void wait_on(pl_stream stream);
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
  // Keep flights as FlightRecord does: between the two calls, every collective of the group. [main]
  void keep_flights();
  FlightRecord::Kept stop_keeping_flights();

  // The state behind the forwarding table.
  struct Channel;

 private:
  template <auto slot>
  Work start(const auto&... args);
  void observe(pl_collective_ran ran);  // nullptr: no more

  std::unique_ptr<Channel> channel_;
  pl_communicator view_{};
};

// A buffer in host memory.
pl_buffer host_buffer(void* data, std::uint64_t count, pl_dtype dtype);
template <class T>
pl_buffer host_buffer(T* data, std::uint64_t count) {
  constexpr uint8_t kCode = std::is_floating_point_v<T> ? PL_DTYPE_FLOAT
                            : std::is_signed_v<T>       ? PL_DTYPE_INT
                                                        : PL_DTYPE_UINT;
  return host_buffer(data, count, pl_dtype{kCode, 8 * sizeof(T), 1});
}

// What `comm` of the forwarding table points to: the backend's own group and the record of its calls.
struct Communicator::Channel {
  Channel(const Plugin& plugin, const pl_context& context) : api(plugin.backend()), call(plugin, context) {}

  const pl_backend_api& api;
  Caller call;
  pl_comm* comm = nullptr;
  FlightRecord record;
  SerialCheck serial;
  std::string of_some;  // of a group of some ranks: which, for messages
};

// The table that strategies and Communicator's methods call; `comm` is a Channel.
const pl_backend_api& forwarding_table();

}  // namespace pipeline::plugins
