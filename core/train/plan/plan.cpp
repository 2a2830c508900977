#include "core/train/plan/plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/train/session/schedule.hpp"
#include "core/train/stages/found_micro_batch.hpp"
#include "core/train/training_step.hpp"

namespace pipeline::train {
namespace {

constexpr uint64_t kMicroBatches = 4;  // of a measured step, at most
constexpr int kTimedSteps = 10;
constexpr double kTimedSeconds = 3;  // of all timed steps; one is taken whatever its time

// `count` micro-batches of `size`, from all over a step: it may have its samples in the order of their
// lengths. Some samples are there twice where it has too few.
std::vector<std::vector<uint64_t>> samples_of(uint64_t step, Sampler& sampler, const BatchPlan& batch,
                                              uint64_t size, uint64_t count) {
  std::vector<uint64_t> ids;
  for (uint64_t i = 0; i < count; ++i)
    for (const uint64_t id : sampler.micro_batch(step, i * batch.micro_batches / count)) ids.push_back(id);
  std::vector<std::vector<uint64_t>> micro_batches(count);
  size_t next = 0;
  for (std::vector<uint64_t>& micro_batch : micro_batches)
    for (uint64_t i = 0; i < size; ++i) micro_batch.push_back(ids[next++ % ids.size()]);
  return micro_batches;
}

// The costliest micro-batches of the run, which decide its peak. Where the task does not tell, the first
// ones.
std::vector<std::vector<uint64_t>> costliest_samples(Session& session, Sampler& sampler,
                                                     const BatchPlan& batch, uint64_t size, uint64_t count) {
  if (!session.task().has_sample_costs()) return samples_of(0, sampler, batch, size, count);
  std::vector<uint64_t> indices(batch.micro_batches);
  std::iota(indices.begin(), indices.end(), uint64_t{0});
  const uint64_t steps = total_steps(session.config(), sampler);
  std::vector<std::vector<uint64_t>> micro_batches;
  for (const CostedMicroBatch& one :
       costliest_micro_batches(sampler, sample_costs(session.task()), 0,
                               steps > 0 ? steps : sampler.steps_per_epoch(), indices, count))
    micro_batches.push_back(sampler.micro_batch(one.step, one.index));
  return micro_batches;
}

// Every second sample of each micro-batch.
std::vector<std::vector<uint64_t>> half_of(std::vector<std::vector<uint64_t>> micro_batches) {
  for (std::vector<uint64_t>& ids : micro_batches) {
    const size_t half = std::max<size_t>(1, ids.size() / 2);
    for (size_t i = 0; i < half; ++i) ids[i] = ids[2 * i];
    ids.resize(half);
  }
  return micro_batches;
}

// Forgets what the steps before have left, and their peak.
MemoryForecast start_measuring(Session& session, bool& peak_begins_anew) {
  give_back_unused(session);
  if (session.run_info().device.type == PL_DEVICE_CPU) peak_begins_anew = launch::restart_peak_host_memory();
  return {session, false};
}

void measure_steps(Session& session, const BatchPlan& batch, Plan& plan) {
  Sampler sampler(batch, sampler_options(session));
  const uint64_t whole = std::min<uint64_t>(batch.micro_batch, session.task().sample_count(PL_SPLIT_TRAIN)),
                 half = std::max<uint64_t>(1, whole / 2),
                 count = std::min(batch.accumulation_steps(), kMicroBatches);
  TrialSteps steps(session);
  const auto largest = costliest_samples(session, sampler, batch, whole, count);
  // Libraries load code and set up buffers at their first use: these belong to the process.
  steps.run(half_of(largest), 0, 0);
  // Loads as many batches ahead as wait in a run.
  const auto sequence = [&](uint64_t index) -> std::optional<LoadRequest> {
    const uint64_t step = index / batch.micro_batches;
    return LoadRequest{.ids = sampler.micro_batch(step, index % batch.micro_batches),
                       .epoch = sampler.epoch_of(step)};
  };
  Prefetcher loader(session.task(), loader_options(session, batch.accumulation_steps()), sequence);
  loader.wait_until_full();
  const auto measure = [&](MemoryForecast& forecast, const auto& micro_batches) {
    return steps.run(micro_batches, 0, 0, [&] { forecast.micro_batch(); });
  };
  MemoryForecast of_half = start_measuring(session, plan.peak_was_measured);
  measure(of_half, half_of(largest));
  MemoryForecast of_whole = start_measuring(session, plan.peak_was_measured);
  measure(of_whole, largest);
  const uint64_t half_activations = of_half.activations(), whole_activations = of_whole.activations();
  // Steps as the run has them; in many sizes an allocator needs more than for the largest one alone.
  std::vector<TrialStep> timed;
  for (double seconds = 0; timed.size() < kTimedSteps && seconds < kTimedSeconds;
       seconds += timed.back().seconds)
    timed.push_back(measure(of_whole, samples_of(timed.size(), sampler, batch, whole, count)));
  std::ranges::sort(timed, {}, &TrialStep::seconds);
  const TrialStep& median = timed[(timed.size() - 1) / 2];

  const auto per_micro_batch = static_cast<double>(count);
  plan.measured_samples = whole;
  plan.measured_base = of_whole.base();
  plan.measured_activations = of_whole.activations();
  plan.activations_per_sample =
      whole == half ? whole_activations / whole
                    : (whole_activations - std::min(half_activations, whole_activations)) / (whole - half);
  // A device is waited for at the end of the step alone.
  const double passes =
      session.run_info().device.type == PL_DEVICE_CPU ? median.pass_seconds : median.seconds;
  plan.pass_seconds = passes / per_micro_batch;
  plan.update_seconds = median.seconds - passes;
  if (median.flops && *median.flops > 0) plan.flops = *median.flops / per_micro_batch;
}

// The seconds of a step on an assumed device: its compute, and that part of what is sent that finds no room
// beside the backward passes of the last micro-batch, two thirds of it.
std::optional<double> assumed_step_seconds(const Plan& plan, const PlannedRun& run, uint32_t compute_bits) {
  if (!plan.flops || !run.bytes_sent) return std::nullopt;
  const double peak = compute_bits == 16 ? plan.assumed->peak_16 : plan.assumed->peak_32,
               micro_batch = *plan.flops * static_cast<double>(run.batch.micro_batch) /
                             static_cast<double>(plan.measured_samples) / (peak * kUtilisation),
               wire = *run.bytes_sent / plan.assumed->link;
  return micro_batch * static_cast<double>(run.batch.accumulation_steps()) +
         std::max(0.0, wire - micro_batch * 2 / 3);
}

// Seconds of a step on this machine, without sending. Processes that share cores are as fast as one alone.
double measured_step_seconds(const Plan& plan, const PlannedRun& run) {
  const uint64_t passes = plan.shares_cores ? run.batch.micro_batches : run.batch.accumulation_steps();
  return plan.pass_seconds * static_cast<double>(run.batch.micro_batch) /
             static_cast<double>(plan.measured_samples) * static_cast<double>(passes) +
         plan.update_seconds;
}

struct Planner {
  const Workspace& workspace;
  const PlanArgs& args;
  Session& session;
  Precision precision;  // that is planned for
  Plan& plan;

  void add(const std::string& plugin, std::optional<int64_t> zero_stage, uint64_t processes) {
    PlannedRun run;
    run.strategy = zero_stage ? fmt::format("{}:{}", plugin, *zero_stage) : plugin;
    run.configured = is_configured(plugin, zero_stage);
    try {
      run.batch = BatchPlan::make(session.config(), processes);
      const auto ask = [&] {
        fill(run,
             {.plugin = plugin, .zero_stage = zero_stage, .batch = run.batch, .dtype = precision.parameter});
      };
      ask();
      if (plan.finds_micro_batch && run.largest_micro_batch) {  // as the run would
        run.batch.set_micro_batch(*run.largest_micro_batch);
        ask();
      }
    } catch (const Error& error) {
      if (error.code() == PL_ERROR_CANCELLED) throw;
      run.problem = error.what();
    }
    plan.runs.push_back(std::move(run));
  }

 private:
  // Those of `measured_samples` were measured; the rest grows with the size.
  uint64_t activations_of(uint64_t size, uint64_t per_sample, uint64_t measured) const {
    if (size >= plan.measured_samples) return measured + (size - plan.measured_samples) * per_sample;
    return measured - std::min(measured, (plan.measured_samples - size) * per_sample);
  }

  bool is_configured(const std::string& plugin, std::optional<int64_t> zero_stage) const {
    const std::string& wanted = session.options().plugins.strategy;
    if (wanted == "auto") return plugin == (args.world.size == 1 ? "single" : "ddp");
    return plugin == wanted &&
           (!zero_stage || *zero_stage == session.strategy_config().get_int("zero_stage"));
  }

  void fill(PlannedRun& run, const StrategyQuestion& question) {
    const PlannedStrategy strategy = ask_strategy(session, workspace.registry, question);
    PlannedMemory& memory = run.memory;
    memory.strategy = strategy.memory;
    memory.base = plan.assumed ? kDeviceContext : plan.measured_base;
    // Narrower numbers, smaller activations.
    const auto narrowed = [&](uint64_t bytes) {
      return bytes * precision.compute.bits / session.precision().compute.bits;
    };
    const uint64_t per_sample = narrowed(plan.activations_per_sample);
    memory.activations =
        activations_of(run.batch.micro_batch, per_sample, narrowed(plan.measured_activations));
    if (!plan.assumed && copies_checkpoints(session.config(), plan.steps))
      memory.checkpoint = strategy.checkpoint_bytes;
    run.bytes_sent = bytes_sent(question, strategy, plan.trainable);
    if (!run.largest_micro_batch)
      run.largest_micro_batch = largest_micro_batch(memory, run.batch, per_sample, plan.memory_limit);
    run.step_seconds = plan.assumed ? assumed_step_seconds(plan, run, precision.compute.bits)
                                    : std::optional(measured_step_seconds(plan, run));
  }
};

void plan_runs(Planner& planner) {
  const Session& session = planner.session;
  const auto processes = static_cast<uint64_t>(planner.args.world.size);
  planner.add("single", std::nullopt, 1);
  if (processes > 1) planner.add("ddp", std::nullopt, processes);
  if (processes > 1)
    for (const int64_t stage : {1, 2, 3}) planner.add("sharded", stage, processes);
  const std::string& wanted = session.options().plugins.strategy;
  if (std::ranges::none_of(planner.plan.runs, &PlannedRun::configured) && wanted != "auto") {
    const std::optional<int64_t> stage =
        wanted == "sharded" ? std::optional(session.strategy_config().get_int("zero_stage")) : std::nullopt;
    planner.add(wanted, stage, processes);
  }
}

void describe_length(Session& session, const PlanArgs& args, Plan& plan) {
  const Sampler sampler(BatchPlan::make(session.config(), static_cast<uint64_t>(args.world.size)),
                        sampler_options(session));
  plan.steps = total_steps(session.config(), sampler);
  plan.steps_per_epoch = sampler.steps_per_epoch();
  plan.max_seconds = session.options().train.max_seconds.value_or(0);
  plan.samples = session.task().sample_count(PL_SPLIT_TRAIN);
}

void count_parameters(Session& session, Plan& plan) {
  for (const pl_parameter& parameter : session.task().parameters()) {
    plan.parameters += plugins::element_count(parameter);
    if ((parameter.flags & PL_PARAMETER_TRAINABLE) != 0) plan.trainable += plugins::element_count(parameter);
  }
}

}  // namespace

std::optional<uint64_t> largest_micro_batch(const PlannedMemory& memory, const BatchPlan& batch,
                                            uint64_t per_sample, uint64_t limit) {
  const uint64_t of_all = per_sample * batch.micro_batch,
                 fixed = memory.activations - std::min(memory.activations, of_all),
                 without = memory.peak() - memory.activations + fixed;
  std::optional<uint64_t> largest;
  for (const uint64_t size : batch.micro_batch_choices())
    if (without + size * per_sample <= limit) largest = size;
  return largest;
}

Outcome make_plan(const Workspace& workspace, const PlanArgs& args, Plan& plan) {
  const config::Config stage = trial_stage(workspace.config);
  const ScratchFolder scratch;
  const uint64_t available = launch::available_host_memory();
  Session session(stage, workspace.registry, workspace.log,
                  session_args(workspace, PL_PURPOSE_TRAIN, scratch.path(),
                               values_of_run({}, init_from(workspace.config, stage))));
  return guard_work(
      session, [] { return "measuring a few micro-batches"; },
      [&] {
        const BatchPlan batch = BatchPlan::make(stage, static_cast<uint64_t>(args.world.size));
        Precision precision = session.precision();
        if (args.device)
          precision = choose_precision(stage, {PL_DEVICE_CUDA, 0}, {.cuda = {args.device->is}});
        open_for_trial(session, workspace.config, stage, scratch);
        const pl_device device = session.run_info().device;
        plan.task = session.task_plugin().name();
        if (workspace.config.has_stages()) plan.stage = stage.options().stage.name;
        plan.measured_on = launch::describe(device, session.devices());
        plan.device = args.device ? args.device->name : plan.measured_on;
        plan.precision = precision.name;
        plan.measured_precision = session.precision().name;
        plan.assumed = args.device;
        plan.shares_cores = device.type == PL_DEVICE_CPU && !args.device;
        plan.memory_limit = args.device ? args.device->is.memory
                            : device.type == PL_DEVICE_CUDA
                                ? launch::cuda_memory().total
                                : available / static_cast<uint64_t>(args.world.local_size);
        plan.finds_micro_batch = stage.options().train.micro_batch.is_auto;
        if (plan.finds_micro_batch)
          plan.memory_limit =
              static_cast<uint64_t>((1 - kMemoryMargin) * static_cast<double>(plan.memory_limit));
        describe_length(session, args, plan);
        count_parameters(session, plan);
        {
          const observe::Elapsed elapsed(workspace.log.console(), "measuring a few micro-batches");
          measure_steps(session, batch, plan);
        }
        Planner planner{
            .workspace = workspace, .args = args, .session = session, .precision = precision, .plan = plan};
        plan_runs(planner);
        workspace.log.console().status({});
        return Outcome::finished;
      });
}

nlohmann::ordered_json to_json(const Plan& plan) {
  using Json = nlohmann::ordered_json;
  const auto maybe = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  Json json{{"task", plan.task},
            {"stage", plan.stage},
            {"device", plan.device},
            {"precision", plan.precision},
            {"parameters", plan.parameters},
            {"trainable_parameters", plan.trainable},
            {"samples", plan.samples},
            {"steps", plan.steps},
            {"steps_per_epoch", plan.steps_per_epoch},
            {"max_seconds", plan.max_seconds},
            {"memory_limit", plan.memory_limit}};
  json["measured"] = {{"device", plan.measured_on},
                      {"precision", plan.measured_precision},
                      {"micro_batch", plan.measured_samples},
                      {"base", plan.measured_base},
                      {"activations", plan.measured_activations},
                      {"activations_per_sample", plan.activations_per_sample},
                      {"peak_was_measured", plan.peak_was_measured},
                      {"pass_seconds", plan.pass_seconds},
                      {"update_seconds", plan.update_seconds},
                      {"flops", maybe(plan.flops)}};
  json["assumed"] = nullptr;
  if (plan.assumed)
    json["assumed"] = {{"memory", plan.assumed->is.memory},    {"peak_16_bit", plan.assumed->peak_16},
                       {"peak_32_bit", plan.assumed->peak_32}, {"link", plan.assumed->link},
                       {"utilisation", kUtilisation},          {"context", kDeviceContext}};
  json["strategies"] = Json::array();
  for (const PlannedRun& run : plan.runs) {
    Json row{{"strategy", run.strategy}, {"configured", run.configured}};
    if (!run.problem.empty()) {
      row["problem"] = run.problem;
      json["strategies"].push_back(std::move(row));
      continue;
    }
    const PlannedMemory& memory = run.memory;
    row["processes"] = run.batch.world_size;
    row["global_batch"] = run.batch.global_batch;
    row["micro_batch"] = run.batch.micro_batch;
    row["accumulation_steps"] = run.batch.accumulation_steps();
    row["memory"] = {{"base", memory.base},
                     {"parameters", memory.strategy.parameters},
                     {"gradients", memory.strategy.gradients},
                     {"optimizer", memory.strategy.optimizer},
                     {"activations", memory.activations},
                     {"buffers", memory.strategy.buffers},
                     {"checkpoint", memory.checkpoint},
                     {"peak", memory.peak()}};
    row["largest_micro_batch"] = maybe(run.largest_micro_batch);
    row["bytes_sent"] = maybe(run.bytes_sent);
    row["step_seconds"] = maybe(run.step_seconds);
    row["seconds"] = run.step_seconds && plan.steps > 0
                         ? Json(*run.step_seconds * static_cast<double>(plan.steps))
                         : Json(nullptr);
    json["strategies"].push_back(std::move(row));
  }
  return json;
}

}  // namespace pipeline::train
