#include "core/observe/trace_summary.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace pipeline::observe {
namespace {

struct Interval {
  int64_t begin, end;
};
using Intervals = std::vector<Interval>;

Interval interval_of(const TraceEvent& event) { return {event.begin, event.begin + event.duration}; }

// The intervals sorted and joined, so that none touches another.
Intervals joined(Intervals parts) {
  std::ranges::sort(parts, {}, &Interval::begin);
  Intervals result;
  for (const Interval& part : parts) {
    if (!result.empty() && part.begin <= result.back().end)
      result.back().end = std::max(result.back().end, part.end);
    else if (part.end > part.begin)
      result.push_back(part);
  }
  return result;
}

// The time that is in both `a` and `b`, which are joined().
Intervals common(const Intervals& a, const Intervals& b) {
  Intervals result;
  for (size_t i = 0, k = 0; i < a.size() && k < b.size(); a[i].end < b[k].end ? ++i : ++k) {
    const Interval part{std::max(a[i].begin, b[k].begin), std::min(a[i].end, b[k].end)};
    if (part.begin < part.end) result.push_back(part);
  }
  return result;
}

// The time that is in `a` and not in `b`, which are joined().
Intervals without(const Intervals& a, const Intervals& b) {
  Intervals result;
  size_t first = 0;
  for (Interval part : a) {
    while (first < b.size() && b[first].end <= part.begin) ++first;
    for (size_t i = first; i < b.size() && b[i].begin < part.end; ++i) {
      if (b[i].begin > part.begin) result.push_back({part.begin, b[i].begin});
      part.begin = std::max(part.begin, b[i].end);
    }
    if (part.begin < part.end) result.push_back(part);
  }
  return result;
}

int64_t length(const Intervals& parts) {
  int64_t sum = 0;
  for (const Interval& part : parts) sum += part.end - part.begin;
  return sum;
}

bool is_operation(const TraceEvent& event) {
  static const std::set<std::string_view> kOperations{"cpu_op",     "kernel",       "gpu_memcpy",
                                                      "gpu_memset", "cuda_runtime", "cuda_driver"};
  return kOperations.contains(event.category);
}
bool is_kernel(const TraceEvent& event) { return event.category == "kernel"; }
bool is_nccl(const TraceEvent& event) { return event.name.starts_with("nccl"); }
bool is_phase_of_computing(const TraceEvent& event) {
  return event.category == category::kPhase &&
         (event.name.starts_with("forward") || event.name.starts_with("optimizer"));
}

// "all_reduce #12, bucket 3, 25.0 MB" -> "all_reduce", the name for all of them.
std::string_view name_of_cost(std::string_view name) { return name.substr(0, name.find(" #")); }

template <class Condition>
Intervals intervals(const std::vector<TraceEvent>& events, Condition&& condition) {
  Intervals parts;
  for (const TraceEvent& event : events)
    if (event.kind == 'X' && condition(event)) parts.push_back(interval_of(event));
  return joined(std::move(parts));
}

// A row of the table: an operation, a collective, waiting of any kind; without operations any phase.
bool is_cost(const TraceEvent& event, bool has_operations) {
  if (event.category == category::kPhase) return !has_operations || event.name.starts_with("waiting for");
  return is_operation(event) || event.category == category::kCollective || event.category == category::kWait;
}

// Each event's duration, without those that lie within it on its thread.
std::vector<TraceCost> costs_of(const std::vector<TraceEvent>& events, bool has_operations) {
  struct OnTrack {
    const TraceEvent* event;
    bool counts;  // false: it only lies within others
  };
  std::map<int64_t, std::vector<OnTrack>> tracks;
  for (const TraceEvent& event : events) {
    if (event.kind != 'X' || event.category == category::kInFlight) continue;
    tracks[event.track].push_back({&event, event.waiter == 0 && is_cost(event, has_operations)});
    if (event.waiter != 0) tracks[event.waiter].push_back({&event, true});
  }
  std::map<std::string, TraceCost, std::less<>> by_name;
  for (auto& [track, places] : tracks) {
    std::ranges::stable_sort(places, [](const OnTrack& a, const OnTrack& b) {
      return std::pair(a.event->begin, -a.event->duration) < std::pair(b.event->begin, -b.event->duration);
    });
    struct Open {
      int64_t end;
      TraceCost* cost;  // nullptr: not counted
    };
    std::vector<Open> open;
    for (const OnTrack& place : places) {
      const auto [begin, end] = interval_of(*place.event);
      while (!open.empty() && open.back().end <= begin) open.pop_back();
      if (!open.empty() && open.back().cost != nullptr)
        open.back().cost->self -= std::min(end, open.back().end) - begin;
      TraceCost* cost = nullptr;
      if (place.counts) {
        const std::string_view name = name_of_cost(place.event->name);
        auto found = by_name.find(name);
        if (found == by_name.end()) found = by_name.try_emplace(std::string(name)).first;
        cost = &found->second;
        cost->name = name;
        ++cost->calls;
        cost->self += end - begin;
      }
      open.push_back({end, cost});
    }
  }
  std::vector<TraceCost> costs;
  for (auto& [name, cost] : by_name) costs.push_back(std::move(cost));
  std::ranges::stable_sort(costs, std::greater(), &TraceCost::self);
  return costs;
}

// When the host computed: on the thread that trains and on those of the backward pass, and not waiting.
Intervals computing(const std::vector<TraceEvent>& events, int64_t main_thread, bool has_operations) {
  if (!has_operations)
    return without(intervals(events, is_phase_of_computing),
                   intervals(events, [](const TraceEvent& e) { return e.category == category::kWait; }));
  std::set<int64_t> threads{main_thread};
  for (const TraceEvent& event : events)
    if (event.name.starts_with("autograd::engine")) threads.insert(event.track);
  Intervals all;
  for (const int64_t thread : threads) {
    const auto operations =
        intervals(events, [&](const TraceEvent& e) { return e.track == thread && e.category == "cpu_op"; });
    const auto waits = intervals(events, [&](const TraceEvent& e) { return e.waiter == thread; });
    std::ranges::copy(without(operations, waits), std::back_inserter(all));
  }
  return joined(std::move(all));
}

}  // namespace

TraceSummary summarize(const std::vector<TraceEvent>& events, int64_t main_thread) {
  TraceSummary summary;
  summary.has_operations = std::ranges::any_of(events, is_operation);
  summary.costs = costs_of(events, summary.has_operations);
  Intervals communication, computation;
  if (std::ranges::any_of(events, is_kernel)) {
    communication = intervals(events, [](const TraceEvent& e) { return is_kernel(e) && is_nccl(e); });
    computation = intervals(events, [](const TraceEvent& e) { return is_kernel(e) && !is_nccl(e); });
  } else {
    const auto of = [](std::string_view wanted) {
      return [wanted](const TraceEvent& e) { return e.category == wanted; };
    };
    communication = intervals(events, of(category::kCollective));
    if (communication.empty()) {
      communication = intervals(events, of(category::kInFlight));
      summary.at_most = !communication.empty();
    }
    computation = computing(events, main_thread, summary.has_operations);
  }
  // What began in the step before or goes on after the last one is not of these steps.
  const Intervals steps =
      intervals(events, [](const TraceEvent& e) { return e.category == category::kStep; });
  if (!steps.empty()) communication = common(communication, {{steps.front().begin, steps.back().end}});
  summary.communication = length(communication);
  summary.hidden = length(common(communication, computation));
  return summary;
}

}  // namespace pipeline::observe
