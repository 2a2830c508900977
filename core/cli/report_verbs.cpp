// The verbs that look at what runs left behind.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/fail.hpp"
#include "core/base/files.hpp"
#include "core/base/utf8.hpp"
#include "core/cli/trials.hpp"
#include "core/cli/verb.hpp"
#include "core/report/comparison.hpp"
#include "core/report/page.hpp"
#include "core/report/run_record.hpp"
#include "core/report/table.hpp"

namespace pipeline::cli {
namespace {

namespace fs = std::filesystem;

struct CompareArgs {
  std::vector<std::string> inputs, strategies, sets, plugin_paths;
  std::vector<int> processes;
  std::string against, stage, folder, output;
  double tolerance = 1e-3;
  unsigned rounds = 3;
};

// --set values for "single", "ddp", "sharded:2", or any other plugin's name.
std::vector<std::string> strategy_sets(const std::string& strategy) {
  const size_t colon = strategy.find(':');
  std::vector<std::string> sets{"strategy.plugin=\"" + strategy.substr(0, colon) + "\""};
  if (colon != std::string::npos) sets.push_back("strategy.zero_stage=" + strategy.substr(colon + 1));
  return sets;
}

std::string without_colon(std::string text) {
  std::erase(text, ':');
  return text;
}

// The stage whose curves are compared: the one asked for, or the last that trains; empty without stages.
std::string compared_stage(const config::Config& config, const std::string& wanted) {
  if (!config.has_stages()) {
    if (wanted.empty()) return "";
    fail(PL_ERROR_CONFIG, "--stage {}: the configuration has no stages", wanted);
  }
  std::string last;
  for (const std::string& name : config.stage_names())
    if (name == wanted || (wanted.empty() && config.for_stage(name).options().stage.kind == "train"))
      last = name;
  if (last.empty())
    fail(PL_ERROR_CONFIG, "--stage {}: there is no such stage; there are {}", wanted,
         fmt::join(config.stage_names(), ", "));
  return last;
}

// A run that was to be made, as a row of the table.
report::RunRecord not_made(std::string name, report::RunRecord::Made made, std::string why_not) {
  report::RunRecord run{.name = std::move(name)};
  run.made = made;
  run.why_not = std::move(why_not);
  return run;
}

// One trial for each strategy and number of processes; one in all if neither is varied. A pair that does not
// go together becomes one of `runs`, which says so.
void add_trials(const CompareArgs& args, const std::string& file, bool many_files, std::vector<Trial>& trials,
                std::vector<fs::path>& folders, std::vector<report::RunRecord>& runs) {
  ConfigArgs one;
  one.file = file;
  one.sets = args.sets;
  one.plugin_paths = args.plugin_paths;
  const config::Config config = one.load();
  const std::string stage = compared_stage(config, args.stage);
  for (const config::Config& one_stage : train::stages_of(config))
    if (one_stage.options().train.micro_batch.is_auto)
      throw one_stage.error("train.micro_batch",
                            "each run would find one of its own, and dropout and sums depend on it: write a "
                            "number to compare with; `pipeline plan` says what fits");
  fs::path base = args.folder;
  if (base.empty()) base = train::run_dir(config).string() + "-compare";
  const std::vector<std::string> strategies =
      args.strategies.empty() ? std::vector<std::string>{""} : args.strategies;
  const std::vector<int> processes = args.processes.empty() ? std::vector<int>{0} : args.processes;
  for (const std::string& strategy : strategies)
    for (const int count : processes) {
      std::vector<std::string> words;
      if (many_files || (strategy.empty() && count == 0)) words.push_back(fs::path(file).stem().string());
      if (!strategy.empty()) words.push_back(without_colon(strategy));
      if (count > 0) words.push_back(std::to_string(count));
      Trial trial{.name = fmt::format("{}", fmt::join(words, "-")), .arguments = {file}};
      for (const Trial& other : trials)  // they would share a folder, and a run is the same as itself
        if (other.name == trial.name)
          fail(PL_ERROR_CONFIG,
               "{} and {}: two runs would be called {}: give each file a name of its own, and each strategy "
               "and number of processes once",
               other.arguments.front(), file, trial.name);
      if (strategy == "single" && count > 1) {
        runs.push_back(
            not_made(trial.name, report::RunRecord::Made::no, "the strategy single is for one process"));
        continue;
      }
      trial.folder = base / trial.name;
      ConfigArgs run = one;
      run.sets.push_back("run.dir=\"" + trial.folder.string() + "\"");
      if (!strategy.empty())
        for (std::string& set : strategy_sets(strategy)) run.sets.push_back(std::move(set));
      if (count > 0) run.sets.push_back("launch.processes=" + std::to_string(count));
      trial.arguments = run.words();
      if (!config.has_stages()) trial.steps = config.options().train.max_steps.value_or(0);
      folders.push_back(stage.empty() ? trial.folder : trial.folder / stage);
      trials.push_back(std::move(trial));
    }
}

std::string title_of(const report::Comparison& comparison) {
  std::vector<std::string> names;
  for (const report::RunRecord& run : comparison.runs) names.push_back(run.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

int compare_runs(const CompareArgs& args) {
  std::vector<std::string> files;
  std::vector<report::RunRecord> runs;
  observe::Console console(observe::Console::Mode::automatic);
  std::optional<Working> reading(std::in_place, "reading the runs");
  if (!args.against.empty()) {
    report::LossFile losses = report::read_losses(args.against, fs::path(args.against).filename().string());
    console.line(losses.how_read);
    runs.push_back(std::move(losses.run));
  }
  for (const std::string& input : args.inputs) {
    if (fs::path(input).extension() == ".toml")
      files.push_back(input);
    else
      for (const fs::path& folder : report::run_folders(input))
        if (args.stage.empty() || folder.filename() == args.stage || folder == input)
          runs.push_back(report::read_run(folder, folder.lexically_normal().string()));
  }
  std::vector<Trial> trials;
  std::vector<fs::path> folders;
  std::vector<report::RunRecord> not_run;
  for (const std::string& file : files) add_trials(args, file, files.size() > 1, trials, folders, not_run);
  if (runs.size() + trials.size() < 2)
    throw Error(PL_ERROR_CONFIG,
                "there is one run to compare: give --strategies or --processes, a second configuration or "
                "run folder, or --against");

  reading.reset();
  if (!run_in_turns(trials, std::max(1U, args.rounds), console)) {
    console.line("stopped: the same command goes on from here");
    return kInterrupted;
  }
  reading.emplace("reading the runs");
  for (size_t i = 0; i < trials.size(); ++i) {
    report::RunRecord run = report::has_steps(folders[i]) ? report::read_run(folders[i], trials[i].name)
                                                          : not_made(trials[i].name, {}, "");
    if (trials[i].code != 0) {
      run.made = report::RunRecord::Made::failed;
      run.why_not = trials[i].problem;
    }
    runs.push_back(std::move(run));
  }
  std::ranges::move(not_run, std::back_inserter(runs));
  const report::Comparison comparison = report::compare(std::move(runs), args.tolerance);
  console.line("\n" + report::table(comparison));
  fs::path output = args.output;
  if (output.empty())
    output = trials.empty() ? fs::path("compare.html") : trials.front().folder.parent_path() / "compare.html";
  write_atomically(output, report::page(comparison, title_of(comparison), true), "choose another --output");
  reading.reset();
  console.line("written to " + output.string());
  return comparison.all_same() ? kDone : kFailed;
}

// The table beside a .jsonl file; false: it would be empty.
bool write_csv(const fs::path& file) {
  if (!fs::exists(file)) return false;
  const Working working("reading " + file.string());
  const std::string table = report::csv_of(file);
  if (table.empty()) return false;
  write_atomically(fs::path(file).replace_extension(".csv"), table);
  return true;
}

// What is known of the runs in a folder.
int list(const std::string& folder, bool best_first) {
  std::optional<Working> working(std::in_place, "reading the runs in " + folder);
  const std::vector<fs::path> runs = report::find_runs(folder);
  if (runs.empty()) throw Error(PL_ERROR_CONFIG, folder + ": there is no run in this folder");
  const report::RunList known = report::list_runs(runs, best_first);
  working.reset();
  print(known.table);
  for (const std::string& problem : known.problems) fmt::print(stderr, "error: {}\n", printable(problem));
  return known.problems.empty() ? kDone : kFailed;
}

void add_list(CLI::App& app, Action& action, const char* name, const char* help, const char* folder_default) {
  auto folder = std::make_shared<std::string>(folder_default);
  CLI::App* verb = app.add_subcommand(name, help);
  CLI::Option* option =
      verb->add_option("FOLDER", *folder, "folder of a run, or of runs")->type_name("FOLDER");
  if (*folder_default == '\0')
    option->required();
  else
    option->capture_default_str();
  auto best_first = std::make_shared<bool>(false);
  verb->add_flag("--best-first", *best_first, "sort by the best evaluation, and not by name");
  verb->footer(
      "States: running; finished; stopped by a signal, after it was saved; cut off: failed or killed, the "
      "same\n"
      "command continues from the last checkpoint; diverged: diverged.txt in its folder says how; begun: no "
      "step\nwas done yet; unreadable: the end of its records is damaged, and what is wrong is said below "
      "the "
      "list.\n\nbest: the best evaluation of the validation split so far, by evaluate.best_metric, and its "
      "checkpoint if it is kept.\nper second: tokens, or else samples, in the last steps.");
  when_chosen(*verb, action, [=] { return list(*folder, *best_first); });
}

}  // namespace

void add_compare(CLI::App& app, Action& action) {
  auto args = std::make_shared<CompareArgs>();
  CLI::App* verb = app.add_subcommand(
      "compare",
      "Runs configurations with several strategies, and says whether they are the same and how fast");
  verb->add_option("RUN", args->inputs,
                   "configurations (*.toml), which are run if they have not been, and folders of runs");
  verb->add_option("--strategies", args->strategies,
                   "strategies to run each configuration with, as in single,ddp,sharded:1,sharded:3")
      ->delimiter(',');
  verb->add_option("--processes", args->processes, "numbers of processes on this host, as in 1,2,4")
      ->delimiter(',')
      ->check(at_least(1));
  verb->add_option("--against", args->against,
                   "the losses of another program, as the reference: JSON objects a line, or CSV")
      ->type_name("FILE");
  verb->add_option("--tolerance", args->tolerance,
                   "relative difference up to which losses are the same; 0: to the bit")
      ->check(at_least(0))
      ->capture_default_str();
  verb->add_option("--rounds", args->rounds, "each run is made in so many parts, all runs in turns")
      ->check(at_least(1))
      ->capture_default_str();
  verb->add_option("--stage", args->stage, "compare this [[stage]]; default: the last that trains")
      ->type_name("NAME");
  add_repeated(*verb, "--set", args->sets, "KEY=VALUE", "override a value in every run; may be repeated");
  add_repeated(*verb, "--plugin-path", args->plugin_paths, "FOLDER",
               "one more plugin folder; may be repeated");
  verb->add_option("--dir", args->folder, "folder of the runs that are made; default: run.dir with -compare")
      ->type_name("FOLDER");
  verb->add_option("--output", args->output, "the page; default: compare.html beside those runs")
      ->type_name("FILE");
  verb->footer(
      "Example:\n  pipeline compare configs/template.toml --strategies single,ddp,sharded:3 --processes "
      "1,2\n  "
      "pipeline compare runs/a runs/b --tolerance 0\n  pipeline compare runs/a --against losses.csv\n\nThe "
      "first run is "
      "the reference. Exit codes: 0 the losses that should be are the same, 1 they are not,\n75 stopped by a "
      "signal: run "
      "the same "
      "command again.");
  when_chosen(*verb, action, [=] { return compare_runs(*args); });
}

void add_report(CLI::App& app, Action& action) {
  auto run = std::make_shared<std::string>(), output = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("report", "Makes a page of a run: curves, time, memory, evaluations");
  verb->add_option("RUN", *run, "folder of a run")->required()->type_name("FOLDER");
  verb->add_option("--output", *output, "the page; default: report.html in the folder")->type_name("FILE");
  verb->footer("Example:\n  pipeline report runs/summarization");
  when_chosen(*verb, action, [=] {
    const fs::path page = output->empty() ? fs::path(*run) / "report.html" : fs::path(*output);
    {
      const Working working("reading " + *run);
      const report::Comparison stages = report::read_stages(*run);
      write_atomically(page, report::page(stages, report::name_of_run(stages, *run), false),
                       "choose another --output");
    }
    print(fmt::format("written to {}\n", page.string()));
    return kDone;
  });
}

void add_csv(CLI::App& app, Action& action) {
  auto run = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("csv", "Writes the figures of a run as tables for a spreadsheet");
  verb->add_option("RUN", *run, "folder of a run")->required()->type_name("FOLDER");
  verb->footer(
      "Example:\n  pipeline csv runs/summarization\n\nmetrics.jsonl and eval.jsonl of the run, or of each of "
      "its stages, become metrics.csv and eval.csv\nbeside them, also while it trains.");
  when_chosen(*verb, action, [=] {
    for (const fs::path& folder : report::run_folders(*run))
      for (const char* const name : {"metrics", "eval"}) {
        fs::path file = folder / name;
        file += ".jsonl";
        if (write_csv(file)) print(fmt::format("written to {}\n", file.replace_extension(".csv").string()));
      }
    return kDone;
  });
}

void add_status(CLI::App& app, Action& action) {
  add_list(app, action, "status", "Says how a run and its stages stand", "");
}

void add_ls(CLI::App& app, Action& action) {
  add_list(app, action, "ls", "Lists the runs in a folder and how they stand", "runs");
}

}  // namespace pipeline::cli
