// sweep: one configuration with many values, which are ranked.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/fail.hpp"
#include "core/base/files.hpp"
#include "core/base/hash.hpp"
#include "core/base/program.hpp"
#include "core/cli/trials.hpp"
#include "core/cli/verb.hpp"
#include "core/launch/devices.hpp"
#include "core/launch/process.hpp"
#include "core/report/run_record.hpp"
#include "core/report/sweep.hpp"

namespace pipeline::cli {
namespace {

namespace fs = std::filesystem;

struct SweepArgs {
  std::string file, by, folder, output;
  std::vector<std::string> sets, plugin_paths;
  uint64_t sample = 0, repeat = 1, jobs = 0;
  bool halve = false;
};

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

// An option and what it may be: values, or with --sample a range from which they are drawn.
struct Axis {
  std::string key;
  std::vector<std::string> values;
  std::optional<std::pair<double, double>> range = std::nullopt;
  bool is_whole = false;

  // `draw`: 64 random bits.
  std::string drawn(uint64_t draw) const {
    if (!range) return values[draw % values.size()];
    const auto [low, high] = *range;
    const double share = static_cast<double>(draw >> 11) * 0x1p-53;
    // What spans more than a decade is a matter of orders of magnitude.
    const double value =
        low > 0 && high >= 10 * low ? low * std::pow(high / low, share) : low + (high - low) * share;
    return is_whole ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
  }
};

// "optimizer.lr=1e-4,3e-4": commas within brackets, braces and quotes belong to a value.
Axis axis_of(const std::string& set) {
  const size_t equals = set.find('=');
  if (equals == std::string::npos || equals == 0)
    fail(PL_ERROR_CONFIG, "--set {}: must be KEY=VALUE or KEY=VALUE,VALUE,...", set);
  Axis axis{.key = set.substr(0, equals), .values = {""}};
  int depth = 0;
  char quote = 0;
  for (const char c : set.substr(equals + 1)) {
    if (quote == 0 && (c == '"' || c == '\''))
      quote = c;
    else if (c == quote)
      quote = 0;
    depth += quote == 0 ? (c == '[' || c == '{') - (c == ']' || c == '}') : 0;
    if (c == ',' && depth == 0 && quote == 0)
      axis.values.emplace_back();
    else
      axis.values.back() += c;
  }
  for (const std::string& value : axis.values)
    if (value.empty()) fail(PL_ERROR_CONFIG, "--set {}: a value is empty", set);
  if (const size_t dots = axis.values[0].find(".."); axis.values.size() == 1 && dots != std::string::npos) {
    const std::string low = axis.values[0].substr(0, dots), high = axis.values[0].substr(dots + 2);
    if (const auto from = number_of(low), to = number_of(high); from && to) {
      if (*from >= *to) fail(PL_ERROR_CONFIG, "--set {}: the range must rise", set);
      axis.range.emplace(*from, *to);
      axis.is_whole = (low + high).find_first_of(".eE") == std::string::npos;
    }
  }
  return axis;
}

using Values = std::vector<std::string>;

std::vector<Values> grid(const std::vector<Axis>& axes) {
  std::vector<Values> points{{}};
  for (const Axis& axis : axes) {
    std::vector<Values> longer;
    for (const Values& point : points)
      for (const std::string& value : axis.values) {
        longer.push_back(point);
        longer.back().push_back(value);
      }
    points = std::move(longer);
  }
  return points;
}

// The same points for the same arguments, so that the same command goes on.
std::vector<Values> sample(const std::vector<Axis>& axes, uint64_t count) {
  std::vector<Values> points;
  for (uint64_t draw = 0; points.size() < count && draw < 100 * count; ++draw) {
    Values point;
    for (size_t i = 0; i < axes.size(); ++i) point.push_back(axes[i].drawn(derive_seed(0, "sweep", draw, i)));
    if (std::ranges::find(points, point) == points.end()) points.push_back(std::move(point));
  }
  return points;
}

// What a folder can be called by: "lr=3e-4,rank=8".
std::string name_of(const std::vector<Axis>& axes, const Values& point) {
  std::set<std::string> ends;
  const auto end_of = [](const std::string& key) { return key.substr(key.rfind('.') + 1); };
  bool are_apart = true;
  for (const Axis& axis : axes) are_apart = ends.insert(end_of(axis.key)).second && are_apart;
  std::string name;
  for (size_t i = 0; i < axes.size(); ++i) {
    std::string value = point[i];
    std::erase(value, '"');
    std::ranges::replace(value, '/', '_');
    name +=
        fmt::format("{}{}={}", name.empty() ? "" : ",", are_apart ? end_of(axes[i].key) : axes[i].key, value);
  }
  constexpr size_t kLongest = 120;
  if (name.size() > kLongest) name = fmt::format("{}-{:016x}", name.substr(0, kLongest), fnv1a(name));
  return name.empty() ? "run" : name;
}

// What CUDA_VISIBLE_DEVICES calls them.
std::vector<std::string> visible_devices(size_t count) {
  std::vector<std::string> all;
  const char* given = std::getenv("CUDA_VISIBLE_DEVICES");
  std::istringstream names(given != nullptr ? given : "");
  for (std::string name; std::getline(names, name, ',');) all.push_back(name);
  while (all.size() < count) all.push_back(std::to_string(all.size()));
  return all;
}

// A sweep and the runs that it is made of.
class SweepRuns {
 public:
  explicit SweepRuns(const SweepArgs& args) : args_(args) {
    std::vector<Axis> axes;
    std::vector<std::string> fixed;
    for (const std::string& set : args.sets) {
      Axis axis = axis_of(set);
      if (axis.range && args.sample == 0)
        fail(PL_ERROR_CONFIG, "--set {}: a range has no end of values: give --sample N", set);
      if (axis.values.size() > 1 || axis.range)
        axes.push_back(std::move(axis));
      else
        fixed.push_back(set);
    }
    if (!args.by.empty()) fixed.push_back("evaluate.best_metric=\"" + args.by + "\"");
    if (axes.empty() && args.repeat < 2)
      throw Error(PL_ERROR_CONFIG,
                  "there is one run to make: give --set KEY=VALUE,VALUE with several values, or --repeat");
    const config::Config config = with(fixed).load();
    base_ = args.folder.empty() ? train::run_dir(config).string() + "-sweep" : args.folder;
    steps_ = config.options().train.max_steps.value_or(0);
    every_ = config.options().evaluate.every;
    sweep_.figure = config.options().evaluate.best_metric;
    for (const Axis& axis : axes) sweep_.keys.push_back(axis.key);
    choose_places(config, fixed);
    const std::vector<Values> points = args.sample > 0 ? sample(axes, args.sample) : grid(axes);
    for (const Values& point : points) add(axes, point, fixed, config.options().run.seed);
    if (points.size() < args.sample)
      note_ = fmt::format("there are only {} choices of these values", points.size());
    if (args.halve) require_halving();
  }

  // False: a signal ended it.
  bool run(observe::Console& console) {
    if (!note_.empty()) console.line(note_);
    launch::SignalPipe signals;  // of the whole sweep: one that comes between two runs is heard
    std::vector<size_t> left(sweep_.points.size());
    for (size_t i = 0; i < left.size(); ++i) left[i] = i;
    const std::vector<uint64_t> rungs = args_.halve ? halvings() : std::vector<uint64_t>{};
    for (const uint64_t rung : rungs) {
      // Behind the next step the evaluation is on record, too.
      if (!run_to(left, rung + 1, fmt::format("to step {}", rung), signals, console)) return false;
      const bool higher = report::higher_is_better(sweep_);
      std::vector<report::PointScore> scores(sweep_.points.size());
      for (const size_t i : left) scores[i] = report::score_at(sweep_.points[i], sweep_.figure, rung);
      std::ranges::stable_sort(
          left, [&](size_t a, size_t b) { return report::ranks_before(scores[a], scores[b], higher); });
      const size_t kept = (left.size() + 1) / 2;
      for (size_t i = kept; i < left.size(); ++i) sweep_.points[left[i]].stopped_at = rung;
      console.line(fmt::format("after step {}: {} of {} go on", rung, kept, left.size()));
      left.resize(kept);
      std::ranges::sort(left);
    }
    return run_to(left, 0, "to the end", signals, console);
  }

  const report::Sweep& sweep() const { return sweep_; }
  const fs::path& base() const { return base_; }
  // A run that diverges is a result.
  bool has_failed() const {
    return std::ranges::any_of(trials_, [](const Trial& trial) {
      return trial.code != 0 && report::state_of(trial.folder) != report::RunState::diverged;
    });
  }

 private:
  ConfigArgs with(const std::vector<std::string>& sets) const {
    ConfigArgs one;
    one.file = args_.file;
    one.sets = sets;
    one.plugin_paths = args_.plugin_paths;
    return one;
  }

  // One run a device where there are several, or a process's device each; on the CPU --jobs at a time, each
  // with its share of the cores. `--jobs 1` leaves all to each run.
  void choose_places(const config::Config& config, std::vector<std::string>& fixed) {
    const launch::Devices devices = launch::find_devices();
    const config::LaunchOptions& launch = config.options().launch;
    const size_t cuda =
        launch::choose_device(config.options().run.device, devices).cuda ? devices.cuda.size() : 0;
    const size_t of_run = launch.processes.value_or(1);
    if (cuda > 1 && of_run > cuda)
      throw config.error("launch.processes", fmt::format("there are {} devices", cuda));
    const size_t jobs = args_.jobs > 0 ? args_.jobs : std::max<size_t>(1, cuda / of_run);
    places_.assign(jobs, "");
    if (jobs == 1) return;
    const auto set = [&](const char* key, size_t value) {
      fixed.push_back(fmt::format("{}={}", key, value));
    };
    if (cuda > 1) {
      if (jobs * of_run > cuda)
        fail(PL_ERROR_CONFIG, "--jobs {}: with {} processes each, and there are {} devices", jobs, of_run,
             cuda);
      const std::vector<std::string> visible = visible_devices(cuda);
      for (size_t i = 0; i < jobs * of_run; ++i)
        places_[i / of_run] += (i % of_run == 0 ? "" : ",") + visible[i];
    }
    if (!launch.processes) set("launch.processes", 1);
    if (!launch.threads) set("launch.threads", std::max<size_t>(1, devices.cores / (jobs * of_run)));
  }

  void add(const std::vector<Axis>& axes, const Values& values, const std::vector<std::string>& fixed,
           uint64_t seed) {
    report::SweptPoint point{.values = values, .runs = {}};
    for (uint64_t i = 0; i < args_.repeat; ++i) {
      std::string name = name_of(axes, values);
      if (args_.repeat > 1) name += fmt::format(",seed={}", seed + i);
      std::vector<std::string> sets = fixed;
      for (size_t axis = 0; axis < axes.size(); ++axis) sets.push_back(axes[axis].key + "=" + values[axis]);
      if (args_.repeat > 1) sets.push_back(fmt::format("run.seed={}", seed + i));
      for (const Trial& other : trials_)  // they would share a folder
        if (other.name == name)
          fail(PL_ERROR_CONFIG,
               "two choices would be called {}: give each value once, and those that differ in quotes or in "
               "/ and _ alone in sweeps of their own",
               name);
      const fs::path folder = base_ / name;
      sets.push_back("run.dir=\"" + from_start(folder).string() + "\"");
      const ConfigArgs one = with(sets);
      const config::Config config = one.load();  // says now what would be said then
      if (config.has_stages())
        throw config.error("stage.name",
                           "a sweep is of a configuration without stages: sweep each by itself");
      trials_.push_back({.name = name,
                         .arguments = one.words(),
                         .folder = from_start(folder),
                         .steps = config.options().train.max_steps.value_or(0)});
      point.runs.push_back({.name = std::move(name), .folder = folder});
    }
    sweep_.points.push_back(std::move(point));
  }

  void require_halving() const {
    const auto refuse = [](const std::string& why) { throw Error(PL_ERROR_CONFIG, "--halve: " + why); };
    if (sweep_.points.size() < 2) refuse("there is one choice of values, and nothing to leave behind");
    if (std::ranges::find(sweep_.keys, "train.max_steps") != sweep_.keys.end())
      refuse("the choices have different lengths (train.max_steps)");
    if (steps_ == 0) refuse("needs train.max_steps, of which losers get a part");
    if (every_ == 0) refuse("needs evaluate.every: what is left behind is decided by evaluations");
    if (halvings().empty())
      refuse(fmt::format("no evaluation comes before the end: set evaluate.every to at most {}", steps_ / 2));
  }

  // The steps after which half of the points are left behind: half of the steps for two, a quarter and a half
  // for four, at an evaluation each.
  std::vector<uint64_t> halvings() const {
    const int rounds = std::bit_width(sweep_.points.size() - 1);
    std::vector<uint64_t> steps;
    for (int i = 0; i < rounds; ++i) {
      const uint64_t share = std::max<uint64_t>(1, steps_ >> (rounds - i));
      const uint64_t rung = (share + every_ - 1) / every_ * every_;
      if (rung < steps_ && (steps.empty() || rung > steps.back())) steps.push_back(rung);
    }
    return steps;
  }

  bool run_to(const std::vector<size_t>& points, uint64_t until, const std::string& what,
              launch::SignalPipe& signals, observe::Console& console) {
    std::vector<Trial*> trials;
    for (const size_t point : points)
      for (uint64_t i = 0; i < args_.repeat; ++i)
        if (Trial& trial = trials_[point * args_.repeat + i]; trial.code == 0) trials.push_back(&trial);
    const bool goes_on = run_parts(trials, until, places_, what, signals, console);
    for (size_t i = 0; i < trials_.size(); ++i)
      sweep_.points[i / args_.repeat].runs[i % args_.repeat].problem = trials_[i].problem;
    return goes_on;
  }

  const SweepArgs& args_;
  report::Sweep sweep_;
  std::vector<Trial> trials_;  // of each point, its seeds
  std::vector<std::string> places_;
  fs::path base_;
  std::string note_;
  uint64_t steps_ = 0, every_ = 0;
};

int sweep(const SweepArgs& args) {
  observe::Console console(observe::Console::Mode::automatic);
  SweepRuns runs(args);
  if (!runs.run(console)) {
    console.line("stopped: the same command goes on from here");
    return kInterrupted;
  }
  const report::Ranking ranking = report::rank(runs.sweep());
  console.line("\n" + report::table(runs.sweep(), ranking));
  const fs::path output = args.output.empty() ? runs.base() / "sweep.html" : fs::path(args.output);
  write_atomically(output, report::page(runs.sweep(), ranking, runs.base().filename().string()),
                   "choose another --output");
  console.line("written to " + output.string());
  const report::RankedPoint& best = ranking.points.front();
  if (best.best.runs > 0)
    console.line("the best one's configuration: " +
                 (best.point->runs.front().folder / "config.toml").string());
  return runs.has_failed() ? kFailed : kDone;
}

}  // namespace

void add_sweep(CLI::App& app, Action& action) {
  auto args = std::make_shared<SweepArgs>();
  CLI::App* verb =
      app.add_subcommand("sweep", "Runs a configuration with many values of its options, and ranks them");
  verb->add_option("FILE", args->file, "configuration (TOML)")->required()->type_name("FILE");
  add_repeated(*verb, "--set", args->sets, "KEY=VALUE,...",
               "values to try, or one for all; with --sample also a range, LOW..HIGH; may be repeated");
  verb->add_option("--sample", args->sample, "N choices of values at random, in place of all of them")
      ->type_name("N")
      ->check(at_least(1));
  verb->add_option("--repeat", args->repeat, "runs of each, with seeds from run.seed on")
      ->type_name("N")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1000}))
      ->capture_default_str();
  verb->add_flag("--halve", args->halve,
                 "leave the worse half behind after a part of the steps, again and again, at evaluations");
  verb->add_option("--by", args->by, "rank by this figure of evaluations; default: evaluate.best_metric")
      ->type_name("FIGURE");
  verb->add_option("--jobs", args->jobs, "runs at a time; default: one a CUDA device, or 1 on the CPU")
      ->type_name("N")
      ->check(CLI::Range(uint64_t{1}, uint64_t{256}));
  add_repeated(*verb, "--plugin-path", args->plugin_paths, "FOLDER",
               "one more plugin folder; may be repeated");
  verb->add_option("--dir", args->folder, "folder of the runs; default: run.dir with -sweep")
      ->type_name("FOLDER");
  verb->add_option("--output", args->output, "the page; default: sweep.html in that folder")
      ->type_name("FILE");
  verb->footer(
      "Example:\n  pipeline sweep configs/template.toml --set optimizer.lr=1e-3,3e-3,1e-2 --set "
      "task.width=16,64\n"
      "  pipeline sweep configs/template.toml --set optimizer.lr=1e-4..1e-1 --sample 16 --halve --repeat "
      "2\n\n"
      "Ranges of more than a decade are drawn by orders of magnitude. What is left behind is saved, and goes "
      "on\nwith "
      "`pipeline run FOLDER/config.toml`. Exit codes: 0 done, 1 a run has failed, 75 stopped by a signal: "
      "run\nthe same "
      "command again.");
  when_chosen(*verb, action, [=] { return sweep(*args); });
}

}  // namespace pipeline::cli
