#include "core/train/telemetry/profile.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/base/files.hpp"
#include "core/base/socket.hpp"
#include "core/observe/format.hpp"
#include "core/plugins/call.hpp"
#include "core/plugins/host.hpp"
#include "core/train/processes/process_group.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;
using observe::TraceEvent;
namespace category = observe::category;

constexpr size_t kRows = 10;
constexpr double kPerMillisecond = 1e6;

// "#12, bucket 3, 25.0 MB"
std::string details_of(const plugins::Flight& flight, uint64_t bytes) {
  const std::string_view label = flight.label.data();
  return fmt::format("#{}{}{}{}{}", flight.sequence, label.empty() ? "" : ", ", label, bytes > 0 ? ", " : "",
                     bytes > 0 ? observe::human_bytes(bytes) : "");
}

}  // namespace

// What a rank has to say of its part.
struct Profile::Report {
  int64_t origin = 0, seconds = 0;  // nanoseconds: when it began, by rank 0's clock; how long its steps took
  std::optional<ClockOffset> clock;
  observe::TraceSummary summary;
  std::vector<std::string> problems;

  nlohmann::json to_json() const {
    nlohmann::json costs = nlohmann::json::array();
    for (const observe::TraceCost& cost : summary.costs) costs.push_back({cost.name, cost.calls, cost.self});
    return {{"origin", origin},
            {"seconds", seconds},
            {"clock", clock ? nlohmann::json({clock->nanoseconds, clock->error}) : nlohmann::json()},
            {"costs", costs},
            {"has_operations", summary.has_operations},
            {"communication", summary.communication},
            {"hidden", summary.hidden},
            {"at_most", summary.at_most}};
  }
  static Report from_json(const nlohmann::json& from) {
    Report report{.origin = from["origin"], .seconds = from["seconds"]};
    if (!from["clock"].is_null()) report.clock = ClockOffset{from["clock"][0], from["clock"][1]};
    for (const nlohmann::json& cost : from["costs"])
      report.summary.costs.push_back({cost[0], cost[1], cost[2]});
    report.summary.has_operations = from["has_operations"];
    report.summary.communication = from["communication"];
    report.summary.hidden = from["hidden"];
    report.summary.at_most = from["at_most"];
    return report;
  }
};

Profile::Profile(Session& session, const RunFolder& folder, ProfiledSteps steps, uint64_t next_step,
                 uint64_t total_steps)
    : session_(session),
      folder_(folder.path() / "profile"),
      steps_(steps),
      setting_("observe.profile = " + session.config().show("observe.profile")) {
  if (next_step > steps.last)
    session.log().info(
        fmt::format("{}: this run continues with step {}: nothing is recorded", setting_, next_step));
  else if (total_steps > 0)
    warn_if_before_all(total_steps);
}

void Profile::end(uint64_t step) {
  if (!has_warned_) warn_if_before_all(step);
}

void Profile::warn_if_before_all(uint64_t last) {
  if (last >= steps_.first) return;
  has_warned_ = true;
  session_.log().warning(fmt::format("{} has no effect: the run ends after step {}", setting_, last));
}

Profile::~Profile() {
  if (!recording_) return;
  stop_operations({});
  attempt("collectives", [&] {
    for (plugins::Communicator* group : session_.groups()) group->stop_keeping_flights();
  });
}

template <class Work>
void Profile::attempt(std::string_view what, Work&& work) {
  try {
    std::forward<Work>(work)();
  } catch (const std::exception& error) {
    problems_.push_back(fmt::format("{}: {}", what, error.what()));
  }
}

fs::path Profile::file_of(int32_t rank) const { return folder_ / fmt::format("rank{}.json", rank); }

void Profile::before_step(uint64_t step) {
  if (!recording_ && steps_done_ == 0 && step >= steps_.first && step <= steps_.last) start();
  step_began_ = clock_nanoseconds();
}

void Profile::after_step(uint64_t step) {
  if (!recording_) return;
  const int64_t now = clock_nanoseconds();
  events_.push_back({.name = fmt::format("step {}", step),
                     .category = std::string(category::kStep),
                     .track = observe::kPhaseTrack,
                     .begin = step_began_,
                     .duration = now - step_began_});
  ++steps_done_;
  last_done_ = step;
  seconds_ = now - steps_began_;
}

void Profile::add_time(std::string_view phase) {
  if (!recording_) return;
  constexpr int64_t kShortest = 2000;  // nanoseconds; between two calls in a row there is nothing to show
  const int64_t now = clock_nanoseconds();
  if (now - phase_began_ < kShortest) return;
  events_.push_back({.name = std::string(phase),
                     .category = std::string(category::kPhase),
                     .track = observe::kPhaseTrack,
                     .begin = phase_began_,
                     .duration = now - phase_began_});
  phase_began_ = now;
}

void Profile::start() {
  recording_ = true;
  began_ = clock_nanoseconds();
  attempt("operations", [&] { start_operations(); });
  attempt("collectives", [&] {
    for (plugins::Communicator* group : session_.groups()) group->keep_flights();
  });
  steps_began_ = phase_began_ = clock_nanoseconds();
}

void Profile::start_operations() {
  for (const plugins::Plugin* plugin : {&session_.task_plugin(), &session_.strategy_plugin()}) {
    const pl_runtime runtime = plugin->runtime_extension();
    if (!runtime.start_profile) continue;
    check(plugins::contain(*plugin, "start_profile", [&] {
      return runtime.start_profile(&plugins::host_table(), &session_.run_info());
    }));
    profiler_ = plugin;
    return;
  }
  session_.log().info(fmt::format("profile    without operations: neither {} nor {} records them",
                                  session_.task_plugin().label(), session_.strategy_plugin().label()));
}

void Profile::stop_operations(const fs::path& to) {
  if (profiler_ == nullptr) return;
  const plugins::Plugin& plugin = *std::exchange(profiler_, nullptr);
  attempt("operations", [&] {
    check(plugins::contain(plugin, "stop_profile", [&] {
      return plugin.runtime_extension().stop_profile(&plugins::host_table(), to_pl(to.native()));
    }));
    if (!to.empty()) observe::read_kineto(to, ::getpid(), events_);
  });
  std::error_code ignored;
  if (!to.empty()) fs::remove(to, ignored);
}

// The collectives' times are those of another clock, which runs alike.
void Profile::add_collectives() {
  for (plugins::Communicator* group : session_.groups()) add_collectives(*group);
}

void Profile::add_collectives(plugins::Communicator& group) {
  using Time = std::chrono::steady_clock::time_point;
  const int64_t since_boot = Time::clock::now().time_since_epoch().count(), since_1970 = clock_nanoseconds();
  const auto at = [&](Time time) { return time.time_since_epoch().count() - since_boot + since_1970; };
  const plugins::FlightRecord::Kept kept = group.stop_keeping_flights();
  std::map<uint64_t, plugins::FlightRecord::Ran> ran;
  for (const auto& times : kept.ran) ran.emplace(times.sequence, times);
  std::vector<int64_t> tracks;  // of collectives in flight: when the last one on each ended
  for (const plugins::Flight& flight : kept.flights) {
    const uint64_t bytes = flight.count * flight.dtype.bits / 8;
    const std::string details = details_of(flight, bytes);
    const std::string more =
        "\"args\":" +
        nlohmann::json({{"bytes", bytes}, {"sequence", flight.sequence}, {"label", flight.label.data()}})
            .dump();
    const auto add = [&](std::string_view what, std::string_view kind, int64_t track, Time began, Time end,
                         int64_t waiter) {
      const int64_t begin = std::max(began_, at(began));  // it may have been called before
      events_.push_back({.name = fmt::format("{} {}", what, details),
                         .category = std::string(kind),
                         .track = track,
                         .begin = begin,
                         .duration = std::max<int64_t>(0, at(end) - begin),
                         .waiter = waiter,
                         .more = more});
    };
    if (flight.waited && flight.done)
      add(fmt::format("wait for {}", flight.operation), category::kWait, observe::kPhaseTrack, *flight.waited,
          flight.finished, flight.waiter);
    if (const auto times = ran.find(flight.sequence); times != ran.end()) {
      add(flight.operation, category::kCollective, observe::kCollectiveTrack, times->second.began,
          times->second.ended, 0);
      continue;
    }
    if (kept.has_times) continue;  // it ran before the recording, or had not ended with it
    const auto idle =
        std::ranges::find_if(tracks, [&](int64_t until) { return until <= at(flight.started); });
    const auto track = idle - tracks.begin();
    if (idle == tracks.end()) tracks.push_back(0);
    tracks[static_cast<size_t>(track)] = at(flight.finished);
    add(flight.operation, category::kInFlight, observe::kInFlightTrack + track, flight.started,
        flight.finished, 0);
  }
}

void Profile::finish() {
  recording_ = false;
  ProcessGroup& processes = session_.processes();
  const int32_t rank = processes.world().rank;
  Report mine{.origin = began_, .seconds = seconds_};
  attempt("collectives", [&] { add_collectives(); });
  attempt("the folder", [&] { on_disk({}, [&] { fs::create_directories(folder_); }); });
  stop_operations(folder_ / fmt::format("rank{}.operations.tmp", rank));
  mine.summary = observe::summarize(events_, ::gettid());

  mine.clock = compare_clocks(processes, this_machine());
  if (mine.clock) {
    for (TraceEvent& event : events_)
      if (event.kind != 'M') event.begin += mine.clock->nanoseconds;
    mine.origin += mine.clock->nanoseconds;
  }
  std::vector<Report> ranks;
  int64_t origin = mine.origin;
  for (const nlohmann::json& theirs : processes.exchange("profile", mine.to_json())) {
    ranks.push_back(Report::from_json(theirs));
    origin = std::min(origin, ranks.back().origin);
  }
  attempt("the trace", [&] {
    fs::remove(file_of(rank));  // of an earlier profile
    observe::write_trace(file_of(rank), {.rank = rank,
                                         .ranks = processes.world().size,
                                         .host = host_name(),
                                         .origin = origin,
                                         .events = events_});
  });
  events_ = {};
  const std::vector<nlohmann::json> problems =
      processes.exchange("profile written", nlohmann::json(problems_));
  if (!processes.is_first()) return;
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i].problems = problems[i].get<std::vector<std::string>>();
  merge(ranks);
  print(ranks);
}

// Merges the ranks' traces, without the ranks whose part is not there.
void Profile::merge(const std::vector<Report>& ranks) {
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (const std::string& problem : ranks[rank].problems)
      session_.log().warning(fmt::format("profile of rank {}: {}", rank, problem));
  std::vector<fs::path> files;
  std::error_code none;
  fs::remove(folder_ / "trace.json", none);  // of an earlier profile
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (fs::exists(file_of(static_cast<int32_t>(rank)), none))
      files.push_back(file_of(static_cast<int32_t>(rank)));
  // Files of an earlier profile with more processes are removed.
  for (auto rank = static_cast<int32_t>(ranks.size()); fs::remove(file_of(rank), none);) ++rank;
  problems_.clear();
  attempt("trace.json", [&] { observe::merge_traces(files, folder_ / "trace.json"); });
  for (const std::string& problem : problems_) session_.log().warning("profile: " + problem);
}

void Profile::print(const std::vector<Report>& ranks) {
  observe::Log& log = session_.log();
  const double times = static_cast<double>(ranks.size() * steps_done_);  // steps of a rank
  std::map<std::string, observe::TraceCost> sums;
  int64_t seconds = 0, communication = 0, hidden = 0, most = 0;
  bool at_most = false, compared = true;
  for (const Report& rank : ranks) {
    for (const observe::TraceCost& cost : rank.summary.costs) {
      observe::TraceCost& sum = sums[cost.name];
      sum.name = cost.name;
      sum.calls += cost.calls;
      sum.self += cost.self;
    }
    seconds += rank.seconds;
    communication += rank.summary.communication;
    hidden += rank.summary.hidden;
    at_most = at_most || rank.summary.at_most;
    compared = compared && rank.clock;
    if (rank.clock) most = std::max(most, rank.clock->error);
  }
  std::vector<observe::TraceCost> costs;
  for (auto& [name, sum] : sums) costs.push_back(std::move(sum));
  std::ranges::stable_sort(costs, std::greater(), &observe::TraceCost::self);
  if (costs.size() > kRows) costs.resize(kRows);

  const auto milliseconds = [&](int64_t total) {
    return static_cast<double>(total) / kPerMillisecond / times;
  };
  std::error_code none;
  const fs::path trace = folder_ / "trace.json";
  log.info(fmt::format(
      "profile    steps {} to {}: {}; a step of a rank took {:.2f} ms, most of it in",
      last_done_ - steps_done_ + 1, last_done_,
      fs::exists(trace, none) ? trace.string() + ", for https://ui.perfetto.dev" : "no trace was written",
      milliseconds(seconds)));
  log.info(fmt::format("{:>12} {:>7} {:>8}  {}", "self ms/step", "share", "calls", "what"));
  for (const observe::TraceCost& cost : costs)
    log.info(
        fmt::format("{:>12.3f} {:>6.1f}% {:>8.1f}  {}", milliseconds(cost.self),
                    100 * static_cast<double>(cost.self) / static_cast<double>(std::max<int64_t>(1, seconds)),
                    static_cast<double>(cost.calls) / times, cost.name));
  if (communication > 0)
    log.info(fmt::format(
        "profile    communication {:.2f} ms a step, {:.0f}% of it{} hidden behind computation",
        milliseconds(communication), 100 * static_cast<double>(hidden) / static_cast<double>(communication),
        at_most ? ", at most," : ""));
  if (last_done_ < steps_.last)
    log.info(fmt::format("profile    ends with step {}, not {}: an evaluation followed, or the run ended",
                         last_done_, steps_.last));
  if (!compared)
    log.warning("profile: a host's clock could not be compared with rank 0's: its rank is shown by its own");
  else if (most > 0)
    log.info(fmt::format("profile    hosts' clocks were compared: ranks are shown right to {:.3f} ms",
                         static_cast<double>(most) / kPerMillisecond));
}

}  // namespace pipeline::train
