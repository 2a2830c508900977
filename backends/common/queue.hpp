// The calls of one rank in one group: started by the caller and executed in the same order by the group's
// own thread, so that they overlap with the caller's computation.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include "backends/common/transport.hpp"

namespace pipeline::backends {

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

}  // namespace pipeline::backends
