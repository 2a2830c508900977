#include "core/train/out_of_memory.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/observe/format.hpp"
#include "core/observe/memory.hpp"

namespace pipeline::train {

Error explain_out_of_memory(const Session& session, const std::string& phase, const std::string& what) {
  const BatchPlan& plan = session.plan();
  const pl_run_info& info = session.run_info();
  std::string text = fmt::format("out of memory on {} while {}: {}\n", info.device.type == PL_DEVICE_CUDA ? "the CUDA device" : "the host", phase,
                                 what);
  text += fmt::format("  host memory: {} at most so far, of {}; micro-batch {}\n", observe::human_bytes(observe::host_memory().peak),
                      observe::human_bytes(session.devices().memory), plan.micro_batch);
  text += "  These need less memory and leave the result as it is:";
  if (plan.micro_batch > 1) {
    uint64_t half = plan.micro_batch / 2;
    while (plan.global_batch % half != 0) --half;
    text += fmt::format("\n    train.micro_batch = {} (the global batch stays {})", half, plan.global_batch);
  }
  if ((info.flags & PL_RUN_ACTIVATION_CHECKPOINTING) == 0) text += "\n    train.activation_checkpointing = true";
  text += "\n    strategy.plugin = \"sharded\" on several devices";
  return Error(PL_ERROR_OUT_OF_MEMORY, text);
}

}  // namespace pipeline::train
