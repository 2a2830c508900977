#include "core/train/processes/unheard_stop.hpp"

#include <chrono>

#include <fmt/format.h>
#include <unistd.h>

#include "core/base/program.hpp"
#include "core/base/thread.hpp"
#include "core/train/processes/signals.hpp"

namespace pipeline::train {
namespace {

constexpr auto kLook = std::chrono::milliseconds(100);
constexpr int kLooks = 15;  // in a row that find it unheard
constexpr int kInterrupted = 75;

}  // namespace

UnheardStop::UnheardStop(const World& world, observe::Log& log) : log_(log) {
  const bool is_ours = world.supervised || program().command.size() == 1;  // others are started by Python
  if (is_ours) thread_ = start_thread("pl-unheard", [this] { watch(); });
}

UnheardStop::~UnheardStop() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void UnheardStop::watch() {
  std::unique_lock lock(mutex_);
  for (int looks = 0; !ended_.wait_for(lock, kLook, [this] { return is_over_; });) {
    looks = Signals::is_unheard() ? looks + 1 : 0;
    if (looks < kLooks) continue;
    ::alarm(2);  // the log's disk may hang, too
    log_.console().status({});
    log_.info(fmt::format("{}: stopped at once, before what goes on has heard of it; nothing is lost",
                          Signals::name(Signals::received())));
    log_.flush();
    ::_exit(kInterrupted);
  }
}

}  // namespace pipeline::train
