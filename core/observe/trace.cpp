#include "core/observe/trace.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/fail.hpp"
#include "core/base/files.hpp"

namespace pipeline::observe {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kPerMicrosecond = 1000;

int64_t nanoseconds(const json& microseconds) {
  return std::llround(microseconds.get<double>() * kPerMicrosecond);
}

// A file of events, one a line, that is there once it is finished.
class EventLines {
 public:
  // `head`: members before the events.
  EventLines(fs::path path, const std::string& head)
      : path_(std::move(path)), unfinished_(path_.string() + ".tmp"), out_(unfinished_, std::ios::trunc) {
    out_ << '{' << head << "\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
    check();
  }
  ~EventLines() {
    std::error_code ignored;
    if (!unfinished_.empty()) fs::remove(unfinished_, ignored);
  }
  EventLines(const EventLines&) = delete;
  EventLines& operator=(const EventLines&) = delete;

  void add(std::string_view event) {
    out_ << (std::exchange(any_, true) ? ",\n" : "\n") << event;
    check();
  }
  void finish() {
    out_ << "\n]}\n";
    out_.close();
    check();
    on_disk({}, [&] { fs::rename(unfinished_, path_); });
    unfinished_.clear();
  }

 private:
  void check() const {
    if (!out_) throw write_error(unfinished_, errno);
  }

  const fs::path path_;
  fs::path unfinished_;
  std::ofstream out_;
  bool any_ = false;
};

std::string json_text(std::string_view text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string line_of(const TraceEvent& event, int64_t process, int64_t origin) {
  std::string line = fmt::format("{{\"ph\":\"{}\",\"name\":{},\"pid\":{},\"tid\":{}", event.kind,
                                 json_text(event.name), process, event.track);
  if (!event.category.empty()) line += ",\"cat\":" + json_text(event.category);
  if (event.kind != 'M')
    line += fmt::format(",\"ts\":{:.3f}", static_cast<double>(event.begin - origin) / kPerMicrosecond);
  if (event.kind == 'X')
    line += fmt::format(",\"dur\":{:.3f}", static_cast<double>(event.duration) / kPerMicrosecond);
  if (!event.more.empty()) line += "," + event.more;
  return line + "}";
}

TraceEvent metadata(const char* what, int64_t track, const json& args) {
  return {.name = what, .track = track, .kind = 'M', .more = "\"args\":" + args.dump()};
}

// The further members of an event that Kineto wrote. `id` connects the ends of an arrow.
std::string members(const json& event) {
  std::string more;
  for (const char* key : {"args", "id", "bp", "s"})
    if (const auto found = event.find(key); found != event.end())
      more += fmt::format("{}\"{}\":{}", more.empty() ? "" : ",", key,
                          found->dump(-1, ' ', false, json::error_handler_t::replace));
  return more;
}

// Arrows of several ranks in one file must not have the same id.
std::string with_rank(std::string more, int32_t rank) {
  const size_t at = more.find("\"id\":");
  if (at == std::string::npos || rank == 0) return more;
  const size_t digits = at + 5, end = more.find_first_not_of("0123456789", digits);
  const std::string id = more.substr(digits, end == std::string::npos ? end : end - digits);
  if (id.empty() || id.size() > 15) return more;
  return more.replace(digits, id.size(), std::to_string(std::stoll(id) + (int64_t{rank} << 32)));
}

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

void read_kineto(const fs::path& file, pid_t process, std::vector<TraceEvent>& events) {
  std::ifstream in(file);
  if (!in) fail("{}: the profiler wrote no trace", file.string());
  const size_t first = events.size();
  const auto take = [&](const json& event) {
    const json pid = event.value("pid", json()), tid = event.value("tid", json());
    const std::string kind = event.value("ph", "");
    if (!pid.is_number_integer() || !tid.is_number_integer() || kind.size() != 1) return;
    const std::string name = event.value("name", "");
    if (kind == "M" && !name.starts_with("thread_")) return;  // processes are named anew
    if (kind != "M" && !event.contains("ts")) return;
    TraceEvent taken{.name = name, .category = event.value("cat", ""), .kind = kind.front()};
    const int64_t device = pid.get<int64_t>();
    constexpr int64_t kStreams = 10'000, kDevices = 64;
    taken.track = tid.get<int64_t>();
    if (device != process) {
      if (device < 0 || device >= kDevices) return;
      taken.track = kDeviceTracks + device * kStreams + taken.track % kStreams;
      if (name == "thread_name") {
        const std::string stream = event.value("/args/name"_json_pointer, "");
        events.push_back(
            metadata("thread_name", taken.track, {{"name", fmt::format("device {} {}", device, stream)}}));
        return;
      }
    }
    if (kind != "M") {
      taken.begin = nanoseconds(event["ts"]);
      if (kind == "X") taken.duration = nanoseconds(event.value("dur", json(0.0)));
    }
    taken.more = members(event);
    events.push_back(std::move(taken));
  };
  // Event by event: the whole document would take many times its size in memory.
  const json::parser_callback_t by_event = [&](int depth, json::parse_event_t what, json& parsed) {
    if (what != json::parse_event_t::object_end || depth != 2 || !parsed.contains("ph")) return true;
    take(parsed);
    return false;
  };
  try {
    const json rest = json::parse(in, by_event);
    const auto base = rest.value("baseTimeNanoseconds", int64_t{0});
    for (size_t i = first; i < events.size(); ++i) events[i].begin += base;
  } catch (const json::exception& error) {
    events.resize(first);
    fail("{}: not a trace: {}", file.string(), error.what());
  }
}

void write_trace(const fs::path& path, const TraceOfRank& trace) {
  EventLines lines(
      path, fmt::format("\"baseTimeNanoseconds\":{},\"distributedInfo\":{{\"rank\":{},\"world_size\":{}}},",
                        trace.origin, trace.rank, trace.ranks));
  const int64_t process = trace.rank + 1;  // 0 is the idle process to Perfetto
  const auto add = [&](const TraceEvent& event) { lines.add(line_of(event, process, trace.origin)); };
  add(metadata("process_name", 0, {{"name", fmt::format("rank {}", trace.rank)}}));
  add(metadata("process_labels", 0, {{"labels", trace.host}}));
  add(metadata("process_sort_index", 0, {{"sort_index", trace.rank}}));
  int64_t flights = kInFlightTrack;
  for (const TraceEvent& event : trace.events)
    if (event.category == category::kInFlight) flights = std::max(flights, event.track + 1);
  const auto name_track = [&](int64_t track, const char* name) {
    add(metadata("thread_name", track, {{"name", name}}));
    add(metadata("thread_sort_index", track, {{"sort_index", track - kDeviceTracks}}));  // above the threads
  };
  name_track(kPhaseTrack, "phases");
  name_track(kCollectiveTrack, "collectives");
  for (int64_t track = kInFlightTrack; track < flights; ++track) name_track(track, "collectives in flight");
  for (const TraceEvent& event : trace.events) {
    if (event.kind == 's' || event.kind == 'f') {
      TraceEvent arrow = event;
      arrow.more = with_rank(arrow.more, trace.rank);
      add(arrow);
    } else {
      add(event);
    }
  }
  lines.finish();
}

void merge_traces(const std::vector<fs::path>& ranks, const fs::path& path) {
  std::optional<EventLines> lines;
  for (const fs::path& rank : ranks) {
    std::ifstream in(rank);
    std::string line;
    if (!std::getline(in, line)) fail("{}: cannot be read", rank.string());
    if (!lines) {
      const size_t base = line.find("\"baseTimeNanoseconds\"");
      lines.emplace(path, line.substr(base, line.find(',', base) + 1 - base));
    }
    while (std::getline(in, line)) {
      if (!line.starts_with("{\"ph\"")) continue;
      if (line.ends_with(',')) line.pop_back();
      lines->add(line);
    }
  }
  if (lines) lines->finish();
}

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
