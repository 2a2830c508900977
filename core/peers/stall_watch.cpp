#include "core/peers/server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/peers/join.hpp"

namespace pipeline::peers {
namespace {

std::string place(const State& state) { return fmt::format("{}, step {}", state.phase, state.step); }

// "all_reduce #12 (4096 x float32) for 3 s" without how long: that differs between ranks that are alike.
std::string without_duration(const std::string& collective) {
  const std::size_t at = collective.rfind(" for ");
  return at != std::string::npos && collective.ends_with(" s") ? collective.substr(0, at) : collective;
}

}  // namespace

StallWatch::StallWatch(std::vector<std::string> hosts, Seconds stall)
    : hosts_(std::move(hosts)), stall_(stall), members_(hosts_.size()) {}

void StallWatch::heard(int32_t rank, State state, Seconds now) {
  Member& member = members_[static_cast<std::size_t>(rank)];
  if (state.moves != member.state.moves) moved(now);
  member.state = std::move(state);
  member.heard_at = now;
}

void StallWatch::left(int32_t rank) { members_[static_cast<std::size_t>(rank)].left = true; }

std::string StallWatch::last_seen(int32_t rank) const {
  return place(members_[static_cast<std::size_t>(rank)].state);
}

StallWatch::Condition StallWatch::condition_of(const Member& member, Seconds now,
                                               const std::string& exchange) const {
  const State& state = member.state;
  const Seconds silence = now - member.heard_at;
  if (silence > std::min(stall_ / 2, Seconds(5))) {
    const std::string text = fmt::format("no sign of life for {} (stopped, or its machine hangs), last in {}",
                                         seconds_text(silence), place(state));
    return {2, "silent in " + place(state), "gives " + text, "give " + text};
  }
  if (!state.collective.empty()) {
    const std::string text = fmt::format(" in {} ({})", state.collective, place(state));
    return {0, fmt::format("{} ({})", without_duration(state.collective), place(state)), "waits" + text,
            "wait" + text};
  }
  if (!exchange.empty()) {
    const std::string text = fmt::format(" in {} ({})", exchange, place(state));
    return {0, text, "waits" + text, "wait" + text};
  }
  const std::string text =
      fmt::format("in {}, for {}", place(state), seconds_text(Seconds(state.seconds) + silence));
  return {1, "in " + place(state), text, text};
}

std::optional<Stall> StallWatch::check(Seconds now,
                                       const std::function<std::string(int32_t)>& waits_in) const {
  if (stall_ <= Seconds(0) || now - moved_at_ < stall_) return std::nullopt;
  std::vector<std::pair<Condition, std::vector<int32_t>>> groups;
  for (int32_t rank = 0; rank < static_cast<int32_t>(members_.size()); ++rank) {
    const Member& member = members_[static_cast<std::size_t>(rank)];
    if (member.left) continue;
    const Condition condition = condition_of(member, now, waits_in(rank));
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& g) { return g.first.key == condition.key; });
    if (group == groups.end()) group = groups.insert(groups.end(), {condition, {}});
    group->second.push_back(rank);
  }
  if (groups.empty()) return std::nullopt;
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.first.suspicion > b.first.suspicion; });

  std::string text = fmt::format("no progress for {}", seconds_text(now - moved_at_));
  const char* between = ": ";
  for (const auto& [condition, ranks] : groups) {
    text += fmt::format("{}{} {}", between, list_of(ranks, hosts_),
                        ranks.size() == 1 ? condition.one : condition.many);
    between = "; ";
  }
  return Stall{groups.front().second.front(), std::move(text)};
}

}  // namespace pipeline::peers
