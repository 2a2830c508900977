#include "core/train/processes/unheard_stop.hpp"

#include <chrono>

#include <fmt/format.h>
#include <unistd.h>

#include "core/base/last_words.hpp"
#include "core/base/program.hpp"
#include "core/base/thread.hpp"
#include "core/train/processes/signals.hpp"

namespace pipeline::train {
namespace {

constexpr auto kLook = std::chrono::milliseconds(100);
constexpr int kLooks = 15;  // in a row that find it unheard
constexpr int kInterrupted = 75;

}  // namespace

UnheardStop::UnheardStop(observe::Log& log) : log_(log) {
  thread_ = start_thread("pl-unheard", [this] { watch(); });
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
    const bool awaited = Signals::is_awaited();
    looks = Signals::is_unheard() || awaited ? looks + 1 : 0;
    if (looks < kLooks) continue;
    const bool stays = awaited || program().is_shared;
    if (!stays) ::alarm(2);  // the log's disk may hang, too
    log_.console().status({});
    log_.info(
        fmt::format("{}: {}", Signals::name(Signals::received()),
                    awaited ? fmt::format("waiting for the end of {}, to save it; a second signal leaves "
                                          "at once, without a checkpoint",
                                          phase_now())
                    : stays ? "what goes on has not heard of it; a second signal ends the whole process, "
                              "which is a notebook's"
                            : "stopped at once, before what goes on has heard of it; nothing is lost"));
    log_.flush();
    if (!stays) ::_exit(kInterrupted);
    return;
  }
}

}  // namespace pipeline::train
