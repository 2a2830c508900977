// plan: what a run would take, before it is started. find-lr: which learning rates a model learns with.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/fail.hpp"
#include "core/base/file_lock.hpp"
#include "core/base/files.hpp"
#include "core/base/program.hpp"
#include "core/cli/verb.hpp"
#include "core/observe/format.hpp"
#include "core/report/page.hpp"
#include "core/report/table.hpp"
#include "core/train/plan/find_lr.hpp"
#include "core/train/plan/plan.hpp"

namespace pipeline::cli {
namespace {

using observe::human_bytes;

std::string human_seconds(double seconds) {
  return seconds < 1     ? fmt::format("{:.3g} ms", seconds * 1e3)
         : seconds < 100 ? fmt::format("{:.3g} s", seconds)
                         : observe::human_duration(seconds);
}

std::vector<std::string> row_of(const train::Plan& plan, const train::PlannedRun& run) {
  const train::PlannedMemory& memory = run.memory;
  const auto seconds = [&](std::optional<double> value, double times) {
    return value ? human_seconds(*value * times) : std::string("?");
  };
  return {run.strategy + (run.configured ? " *" : ""),
          std::to_string(run.batch.world_size),
          human_bytes(memory.base),
          human_bytes(memory.strategy.parameters),
          human_bytes(memory.strategy.gradients),
          human_bytes(memory.strategy.optimizer),
          human_bytes(memory.activations),
          human_bytes(memory.strategy.buffers),
          human_bytes(memory.checkpoint),
          human_bytes(memory.peak()),
          run.largest_micro_batch ? std::to_string(*run.largest_micro_batch) : "none fits",
          run.bytes_sent ? human_bytes(static_cast<uint64_t>(*run.bytes_sent)) : "?",
          seconds(run.step_seconds, 1),
          plan.steps > 0 ? seconds(run.step_seconds, static_cast<double>(plan.steps)) : "-"};
}

// What was measured and what was assumed, in the order of the table's columns.
std::string sources(const train::Plan& plan) {
  std::string text = fmt::format(
      "measured   on {}, {}: micro-batches of {}: {} forward and backward, {} update;\n"
      "           process and data {}, activations {}{}\n",
      plan.measured_on, plan.measured_precision, plan.measured_samples, human_seconds(plan.pass_seconds),
      human_seconds(plan.update_seconds), human_bytes(plan.measured_base),
      human_bytes(plan.measured_activations),
      plan.peak_was_measured ? "" : " (at most: the system does not let the peak be measured anew)");
  text +=
      "reported   by each strategy: parameters (with master weights), gradients, optimizer, buffers, "
      "checkpoint\n"
      "formula    bytes that each process sends in a step (plugins/strategies/README.md)\n";
  if (!plan.assumed)
    return text + "not in     the times: communication, evaluations, checkpoints, waiting for data\n";
  const train::DeviceFigures& device = *plan.assumed;
  text += fmt::format(
      "assumed    {} of memory, {:.3g} TFLOP/s in {}, {:.0f}% of it reached, {:.3g} GB/s to other devices;\n"
      "           {} for CUDA and its libraries; activations as measured",
      human_bytes(device.is.memory), (plan.precision == "fp32" ? device.peak_32 : device.peak_16) / 1e12,
      plan.precision, 100 * train::kUtilisation, device.link / 1e9, human_bytes(train::kDeviceContext));
  if (plan.precision != plan.measured_precision)
    text += fmt::format(", in {} instead of {}", plan.precision, plan.measured_precision);
  return text + ";\n           all devices in one host\n" +
         "not in     the times: evaluations, checkpoints, waiting for data\n";
}

std::string describe(const train::Plan& plan) {
  const train::PlannedRun* const batch = [&]() -> const train::PlannedRun* {
    const auto found = std::ranges::find_if(plan.runs, [](const auto& run) { return run.configured; });
    return found == plan.runs.end() || !found->problem.empty() ? nullptr : &*found;
  }();
  std::string text = fmt::format("task       {}{}: {} parameters, {} trainable\n", plan.task,
                                 plan.stage.empty() ? "" : ", stage " + plan.stage,
                                 observe::grouped(plan.parameters), observe::grouped(plan.trainable));
  text += fmt::format("device     {}, {} of memory for each process, {}\n", plan.device,
                      human_bytes(plan.memory_limit), plan.precision);
  if (batch != nullptr)
    text += "batch      " + batch->batch.describe() +
            (plan.finds_micro_batch ? "; train.micro_batch = \"auto\" would find that" : "") + "\n";
  const auto in_an_epoch = static_cast<double>(plan.steps_per_epoch);
  text += "length     " +
          (plan.steps > 0
               ? fmt::format("{} steps = {:.2f} epochs of {} samples", plan.steps,
                             static_cast<double>(plan.steps) / in_an_epoch, observe::grouped(plan.samples))
               : std::string("until the time is up")) +
          (plan.max_seconds > 0 ? ", at most " + observe::human_duration(plan.max_seconds) : "") + "\n\n";
  std::vector<std::vector<std::string>> rows{{"strategy", "processes", "process", "parameters", "gradients",
                                              "optimizer", "activations", "buffers", "checkpoint", "peak",
                                              "largest micro-batch", "sent a step", "step", "run"}};
  std::string problems;
  for (const train::PlannedRun& run : plan.runs)
    if (run.problem.empty())
      rows.push_back(row_of(plan, run));
    else
      problems += fmt::format("{}: {}\n", run.strategy, run.problem);
  text += report::aligned(rows) + "* as configured; memory of each process\n" + problems + "\n";
  return text + sources(plan);
}

namespace fs = std::filesystem;

constexpr size_t kRows = 16;  // of the console's table, at most
constexpr const char* kRemedy = "choose another --output";

std::string table(const train::RateCurve& curve) {
  std::vector<std::vector<std::string>> rows{{"rate", "loss", "smoothed"}};
  const size_t count = curve.points().size(), shown = std::min(kRows, count);
  for (size_t row = 0; row < shown; ++row) {
    const train::RatePoint& point = curve.points()[shown < 2 ? 0 : row * (count - 1) / (shown - 1)];
    rows.push_back({fmt::format("{:.2e}", point.rate), fmt::format("{:.4f}", point.loss),
                    fmt::format("{:.4f}", point.smoothed)});
  }
  return report::aligned(rows);
}

// How the losses were at the last rates. What has lost most of its gain again did not go well, either.
std::string end_of(const train::RateCurve& curve) {
  if (curve.points().empty()) return "the loss was no number at the first rate";
  const train::RatePoint& least = *curve.minimum();
  const double first = curve.first_loss(), last = curve.last_loss();
  const std::string from_to =
      fmt::format("{:.4g} at the first rates, {:.4g} at the last; smoothed it is least, {:.4g}, at {:.2e}",
                  first, last, least.smoothed, least.rate);
  if (curve.diverged())
    return fmt::format("the loss diverged: {}; the test ended after the rate {:.2e}", from_to,
                       curve.points().back().rate);
  if (last - least.smoothed > (first - least.smoothed) / 2) return "the loss rose again: " + from_to;
  return "the loss did not diverge up to the last rate: " + from_to;
}

std::string verdict(const train::RateTest& test) {
  const train::RateCurve& curve = test.curve;
  const std::string end = end_of(curve);
  const auto steepest = curve.steepest(), tenth = curve.tenth_of_minimum();
  if (!steepest || !tenth)
    return end + "; it never fell, so no rate is suggested: use more --steps, or another --start and --end";
  return fmt::format(
      "suggestion: optimizer.lr = {:.2g}, where the smoothed loss falls fastest; a tenth of the rate of its "
      "minimum is {:.2g}; {}",
      *steepest / test.scale, *tenth / test.scale, end);
}

void write_files(const fs::path& folder, const std::string& title, const train::RateTest& test) {
  const auto& points = test.curve.points();
  std::string csv = "step,learning_rate,loss,smoothed\n";
  report::RunRecord run{.name = "find-lr", .path = folder};
  run.finished = true;
  nlohmann::ordered_json json{{"points", nlohmann::ordered_json::array()}};
  for (size_t i = 0; i < points.size(); ++i) {
    const auto& [rate, loss, smoothed] = points[i];
    csv += fmt::format("{},{},{},{}\n", i + 1, rate, loss, smoothed);
    json["points"].push_back(
        {{"step", i + 1}, {"learning_rate", rate}, {"loss", loss}, {"smoothed", smoothed}});
    run.training.steps.push_back(i + 1);
    run.training.figures["learning_rate"].push_back(rate);
    run.training.figures["loss"].push_back(loss);
    run.training.figures["smoothed"].push_back(smoothed);
  }
  const auto rate = [&](const std::optional<double>& found) {
    return found ? nlohmann::ordered_json(*found / test.scale) : nlohmann::ordered_json(nullptr);
  };
  json["diverged"] = test.curve.diverged();
  json["steepest"] = rate(test.curve.steepest());
  json["tenth_of_minimum"] = rate(test.curve.tenth_of_minimum());
  json["rate_per_optimizer_lr"] = test.scale;
  write_atomically(folder / "points.csv", csv, kRemedy);
  write_atomically(folder / "points.json", json.dump(1) + "\n", kRemedy);
  std::vector<report::Mark> marks;
  if (const auto steepest = test.curve.steepest()) marks.push_back({"suggestion", "smoothed", *steepest});
  write_atomically(folder / "find-lr.html",
                   report::page_over(run, "learning_rate", title, verdict(test), marks), kRemedy);
}

int find_lr(const ConfigArgs& args, const train::RateTestArgs& test_args, const std::string& output) {
  if (test_args.first >= test_args.last)
    fail(PL_ERROR_CONFIG,
         "--start {} --end {}: the rate rises from one to the other, so the end must be larger",
         test_args.first, test_args.last);
  return with_workspace(args, true, [&](const train::Workspace& workspace) {
    const fs::path folder = output.empty() ? fs::path(train::run_dir(workspace.config).string() + "-find-lr")
                                           : from_start(output);
    // Before the work. In the folder, as what is around it may not be ours to write to.
    const OutputLock lock(folder, folder / "find-lr", kRemedy);
    on_disk(kRemedy, [&] { fs::create_directories(folder); });
    train::RateTest test;
    train::RateTestArgs all = test_args;
    all.processes = static_cast<uint64_t>(planned_world(args, workspace.config).size);
    const train::Outcome outcome = train::test_rates(workspace, all, test);
    if (outcome == train::Outcome::interrupted) return outcome;
    write_files(folder, workspace.config.file() + ": learning rates", test);
    print(fmt::format("\n{}\n{}\nwritten to {}\n", table(test.curve), verdict(test),
                      as_shown(folder / "find-lr.html")));
    return outcome;
  });
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  auto args = std::make_shared<ConfigArgs>();
  auto processes = std::make_shared<int>(0);
  auto device = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* verb =
      app.add_subcommand("plan", "Says what a run would take: memory, communication and time, by strategy");
  args->add_to(*verb);
  verb->add_option("--processes", *processes, "plan for so many on one host; default: as the run would")
      ->type_name("N")
      ->check(at_least(1));
  verb->add_option("--device", *device, "plan for a device that is not here, as in H200 or \"RTX 4090\"")
      ->type_name("NAME");
  verb->add_flag("--json", *json, "print JSON instead of a table");
  verb->footer(
      "Example:\n  pipeline plan configs/summarization.toml --processes 8 --device H200\n\nPrepares and "
      "opens the data as the run would and trains on a few micro-batches in one process,\nwith a learning "
      "rate of 0. Nothing is left but the prepared data.");
  when_chosen(*verb, action, [=] {
    train::PlanArgs plan_args;
    if (!device->empty()) plan_args.device = train::device_figures(*device);
    ConfigArgs of_run = *args;
    if (*processes > 0) of_run.sets.push_back(fmt::format("launch.processes={}", *processes));
    if (*json) of_run.sets.emplace_back("observe.console=\"off\"");
    plan_args.world = planned_world(of_run, of_run.load_for_task());
    return with_workspace(of_run, true, [&](const train::Workspace& workspace) {
      train::Plan plan;
      const train::Outcome outcome = train::make_plan(workspace, plan_args, plan);
      if (outcome == train::Outcome::finished)
        fmt::print("{}", *json ? train::to_json(plan).dump(1) + "\n" : "\n" + describe(plan));
      return outcome;
    });
  });
}

void add_find_lr(CLI::App& app, Action& action) {
  auto args = std::make_shared<ConfigArgs>();
  auto test = std::make_shared<train::RateTestArgs>();
  auto output = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand(
      "find-lr", "Raises the learning rate step by step to see which ones the model learns with");
  args->add_to(*verb);
  verb->add_option("--start", test->first, "the first rate")
      ->type_name("RATE")
      ->check(at_least(0, true))
      ->capture_default_str();
  verb->add_option("--end", test->last, "the last rate")
      ->type_name("RATE")
      ->check(at_least(0, true))
      ->capture_default_str();
  verb->add_option("--steps", test->steps, "steps from one to the other, with the run's global batch")
      ->type_name("N")
      ->check(CLI::Range(5, 1000000))
      ->capture_default_str();
  verb->add_option("--output", *output, "folder of the page and the points; default: run.dir with -find-lr")
      ->type_name("FOLDER");
  verb->footer(
      "Example:\n  pipeline find-lr configs/summarization.toml --steps 60\n\nTrains in one process, from the "
      "weights that a run would begin with, and keeps none of it. The test ends\nwhen the loss diverges: at "
      "four times its smoothed minimum, or when it is no number; where it ends half as much again above\nits "
      "beginning it has diverged, too. The suggestion is the\nrate where the "
      "smoothed loss falls fastest, as Lightning's; fastai's tenth of the minimum is shown as well.");
  when_chosen(*verb, action, [=] { return find_lr(*args, *test, *output); });
}

}  // namespace pipeline::cli
