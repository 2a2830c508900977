#include "core/observe/trace.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
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
  return {.name = what, .category = {}, .track = track, .kind = 'M', .more = "\"args\":" + args.dump()};
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

}  // namespace

void read_kineto(const fs::path& file, pid_t process, std::vector<TraceEvent>& events) {
  std::ifstream in(file);
  if (!in) throw Error(fmt::format("{}: the profiler wrote no trace", file.string()));
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
    throw Error(fmt::format("{}: not a trace: {}", file.string(), error.what()));
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
    if (!std::getline(in, line)) throw Error(fmt::format("{}: cannot be read", rank.string()));
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

}  // namespace pipeline::observe
