// plan: what a run would take, before it is started.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/cli/verb.hpp"
#include "core/observe/format.hpp"
#include "core/report/table.hpp"
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

}  // namespace pipeline::cli
