// supervise_tool PROCESSES RESTARTS RUN_DIR GRACE_MS SCRIPT: a supervisor whose ranks are shells.
#include <cstdlib>

#include "core/launch/launch.hpp"

int main(int, char** argv) {
  const std::chrono::milliseconds grace(std::atoi(argv[4]));
  const pipeline::launch::HostPlan plan{.processes = std::atoi(argv[1]),
                                        .run_id = "test",
                                        .max_restarts = static_cast<uint32_t>(std::atoi(argv[2])),
                                        .run_dir = argv[3],
                                        .grace = grace,
                                        .kill_after = grace * 2};
  return pipeline::launch::supervise(plan, {"/bin/sh", "-c", argv[5]});
}
