#include "core/train/stages/stages.hpp"

#include <new>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/observe/format.hpp"
#include "core/train/processes/signals.hpp"

namespace pipeline::train {
namespace {

// What is being done, which the session itself knows until it can work. Empty: it does not.
std::string set_up_phase(const Session& session) {
  const SetUp now = session.set_up();
  return now == SetUp::preparing_data        ? "preparing data"
         : now == SetUp::opening_task        ? "opening the data and creating the model"
         : now == SetUp::creating_parameters ? "creating the model's parameters"
         : now == SetUp::loading_weights     ? "loading weights"
                                             : "";
}

// Without a batch there is nothing to divide.
std::string advice_for_set_up(const Session& session) {
  const std::string options =
      fmt::format("the options of [task], which `pipeline explain {}` lists", session.task_plugin().name());
  if (session.set_up() == SetUp::preparing_data)
    return "  What this needs grows with the data: give it less by " + options;
  std::string text =
      session.set_up() == SetUp::opening_task
          ? "  What this needs grows with the model, and with the data: make the model smaller by "
          : "  What this needs grows with the model: make it smaller by ";
  text += options;
  if (session.set_up() != SetUp::opening_task && session.run_info().purpose == PL_PURPOSE_TRAIN)
    text += "\n  or, so that each device holds a part: strategy.plugin = \"sharded\" on several devices";
  return text;
}

std::string advice_for_batches(const Session& session) {
  const BatchPlan& plan = session.plan();
  const pl_run_info& info = session.run_info();
  const bool training = info.purpose == PL_PURPOSE_TRAIN;
  const std::string stays = fmt::format(
      "(the global batch stays {}; {})", plan.global_batch,
      training ? "what is learnt differs by rounding, and by what dropout draws for each micro-batch"
               : "results differ by rounding");
  std::string text;
  if (plan.micro_batch > 1 && session.options().train.accumulation_steps) {
    text += fmt::format("\n    train.accumulation_steps = {} {}", 2 * plan.accumulation_steps(), stays);
  } else if (plan.micro_batch > 1) {
    uint64_t half = plan.micro_batch / 2;
    while (plan.global_batch % half != 0) --half;
    text += fmt::format("\n    train.micro_batch = {} {}", half, stays);
  }
  if (training && (info.flags & PL_RUN_ACTIVATION_CHECKPOINTING) == 0)
    text += "\n    train.activation_checkpointing = true";
  if (training) text += "\n    strategy.plugin = \"sharded\" on several devices";
  return text.empty() ? "  It works on one sample at a time: make the model smaller, or the samples, by the "
                        "options of [task]"
                      : "  These need less memory:" + text;
}

Error explain_out_of_memory(const Session& session, const std::string& phase, const std::string& what) {
  const bool on_device = session.run_info().device.type == PL_DEVICE_CUDA;
  const bool works = set_up_phase(session).empty();
  const launch::DeviceMemory device = on_device ? launch::cuda_memory() : launch::DeviceMemory{};
  const std::string device_memory =
      device.total == 0 ? std::string()
                        : fmt::format("  device memory: {} in use now, of {}\n",
                                      observe::human_bytes(device.used), observe::human_bytes(device.total));
  return Error(
      PL_ERROR_OUT_OF_MEMORY,
      fmt::format("out of memory on {} while {}: {}\n{}  host memory: {} at most so far, of {}{}\n{}",
                  on_device ? "the CUDA device" : "the host", phase, what, device_memory,
                  observe::human_bytes(launch::peak_host_memory()),
                  observe::human_bytes(session.devices().memory),
                  works ? fmt::format("; micro-batch {}", session.plan().micro_batch) : "",
                  works ? advice_for_batches(session) : advice_for_set_up(session)));
}

}  // namespace

Outcome guard_work(const Session& session, const std::function<std::string()>& work_phase,
                   const std::function<Outcome()>& work) {
  const auto phase = [&] {
    const std::string before_work = set_up_phase(session);
    return before_work.empty() ? work_phase() : before_work;
  };
  // The others hear of it now: what is unwound from here on may wait for them.
  const auto tell = [&](const std::exception& error) { (void)session.processes().cause_of(error); };
  const auto out_of_memory = [&](const std::exception& error) {
    Error explained = explain_out_of_memory(session, phase(), error.what());
    tell(explained);
    return explained;
  };
  try {
    return work();
  } catch (const std::bad_alloc& error) {
    throw out_of_memory(error);
  } catch (const Error& error) {
    if (error.code() == PL_ERROR_OUT_OF_MEMORY) throw out_of_memory(error);
    // Another rank may have been quicker to leave at once (UnheardStop).
    const bool is_stop =
        error.code() == PL_ERROR_CANCELLED || (error.code() == PL_ERROR_PEER && Signals::is_unheard());
    if (!is_stop || Signals::received() == 0) {
      tell(error);
      throw;
    }
    Signals::hear();
    session.log().console().status({});
    session.log().info(fmt::format("{}: stopped while {}", Signals::name(Signals::received()), phase()));
    return Outcome::interrupted;
  } catch (const std::exception& error) {
    tell(error);
    throw;
  }
}

}  // namespace pipeline::train
