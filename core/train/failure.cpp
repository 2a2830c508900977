#include "core/train/failure.hpp"

#include <new>

#include <fmt/format.h>

#include "core/observe/format.hpp"
#include "core/observe/memory.hpp"
#include "core/plugins/error.hpp"
#include "core/train/signals.hpp"

namespace pipeline::train {
namespace {

Error explain_out_of_memory(const Session& session, const std::string& phase, const std::string& what) {
  const BatchPlan& plan = session.plan();
  const pl_run_info& info = session.run_info();
  std::string text = fmt::format("out of memory on {} while {}: {}\n", info.device.type == PL_DEVICE_CUDA ? "the CUDA device" : "the host", phase,
                                 what);
  text += fmt::format("  host memory: {} at most so far, of {}; micro-batch {}\n", observe::human_bytes(observe::host_memory().peak),
                      observe::human_bytes(session.devices().memory), plan.micro_batch);
  text += "  These need less memory and leave the result as it is:";
  if (plan.micro_batch > 1 && session.config().is_set("train.accumulation_steps")) {
    text += fmt::format("\n    train.accumulation_steps = {} (the global batch stays {})", 2 * plan.accumulation_steps(), plan.global_batch);
  } else if (plan.micro_batch > 1) {
    uint64_t half = plan.micro_batch / 2;
    while (plan.global_batch % half != 0) --half;
    text += fmt::format("\n    train.micro_batch = {} (the global batch stays {})", half, plan.global_batch);
  }
  if (info.purpose == PL_PURPOSE_TRAIN && (info.flags & PL_RUN_ACTIVATION_CHECKPOINTING) == 0) text += "\n    train.activation_checkpointing = true";
  if (info.purpose == PL_PURPOSE_TRAIN) text += "\n    strategy.plugin = \"sharded\" on several devices";
  return Error(PL_ERROR_OUT_OF_MEMORY, text);
}

}  // namespace

Outcome guard_work(const Session& session, const std::function<std::string()>& phase, const std::function<Outcome()>& work) {
  // The others hear of it now: what is unwound from here on may wait for them.
  const auto tell = [&](const std::exception& error) { (void)session.team().cause_of(error); };
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
    if (error.code() != PL_ERROR_CANCELLED || Signals::received() == 0) {
      tell(error);
      throw;
    }
    session.log().console().status({});
    session.log().info(fmt::format("{}: stopped while {}", Signals::name(Signals::received()), phase()));
    return Outcome::interrupted;
  } catch (const std::exception& error) {
    tell(error);
    throw;
  }
}

}  // namespace pipeline::train
