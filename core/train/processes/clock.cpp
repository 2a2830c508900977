#include "core/train/processes/clock.hpp"

#include <chrono>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace pipeline::train {
namespace {

constexpr int kQuestions = 10;
constexpr std::chrono::duration<double> kPatience{10};

// Called by one rank at a time, so that nobody's question waits behind another's.
std::optional<ClockOffset> ask(peers::Peers& peers, const std::string& key) {
  std::optional<ClockOffset> best;
  for (int i = 0; i < kQuestions; ++i) {
    const int64_t asked = clock_nanoseconds();
    peers.put(fmt::format("{} {} asked", key, i), "");
    const auto answer = peers.get(fmt::format("{} {} answered", key, i), kPatience);
    if (!answer) return std::nullopt;
    const int64_t heard = clock_nanoseconds(), middle = asked + (heard - asked) / 2;
    const ClockOffset offset{std::stoll(*answer) - middle, (heard - asked) / 2 + 1};
    if (!best || offset.error < best->error) best = offset;
  }
  return best;
}

void answer(peers::Peers& peers, const std::string& key) {
  for (int i = 0; i < kQuestions; ++i) {
    if (!peers.get(fmt::format("{} {} asked", key, i), kPatience)) return;
    peers.put(fmt::format("{} {} answered", key, i), std::to_string(clock_nanoseconds()));
  }
}

}  // namespace

int64_t clock_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string this_machine() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

std::optional<ClockOffset> compare_clocks(ProcessGroup& processes, const std::string& machine) {
  const std::vector<nlohmann::json> machines = processes.exchange("machines", machine);
  const std::string name = fmt::format("clock {}", processes.next_group());  // keys are never removed
  const auto mine = static_cast<size_t>(processes.world().rank);
  std::optional<ClockOffset> offset = ClockOffset();
  for (size_t rank = 1; rank < machines.size(); ++rank) {
    if (machines[rank] == machines[0]) continue;
    const std::string key = fmt::format("{} {}", name, rank);
    if (mine == 0) answer(processes.peers(), key);
    if (mine == rank) offset = ask(processes.peers(), key);
    processes.exchange("clock", nullptr);
  }
  return offset;
}

}  // namespace pipeline::train
