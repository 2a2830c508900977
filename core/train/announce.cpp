#include "core/train/announce.hpp"

#include <fmt/format.h>

#include "core/base/socket.hpp"
#include "core/launch/devices.hpp"
#include "core/train/team.hpp"

namespace pipeline::train {

void announce(observe::Log& log, std::string_view word, const std::string& text) { log.info(fmt::format("{:<11}{}", word, text)); }

void announce_place(const Session& session) {
  const pl_run_info& info = session.run_info();
  const World& world = session.team().world();
  announce(session.log(), "device",
           fmt::format("{}, {} thread{}", launch::describe(info.device, session.devices()), info.threads, info.threads == 1 ? "" : "s"));
  announce(session.log(), "processes",
           fmt::format("{}{}; this is rank {}, local rank {} on host {}", info.world_size,
                       world.launcher.empty() ? "" : fmt::format(", started by {}", world.launcher), info.rank, info.local_rank, host_name()));
  if (info.threads > session.devices().cores)
    session.log().warning(fmt::format("launch.threads = {}: this process has {} core{}, on which that many threads wait for each other: leave it out to use "
                                      "the cores there are",
                                      info.threads, session.devices().cores, session.devices().cores == 1 ? "" : "s"));
}

}  // namespace pipeline::train
