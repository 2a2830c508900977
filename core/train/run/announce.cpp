#include "core/train/run/announce.hpp"

#include <string>

#include <fmt/format.h>

#include "core/base/socket.hpp"
#include "core/launch/devices.hpp"
#include "core/train/run/team.hpp"

namespace pipeline::train {

void announce(observe::Log& log, std::string_view word, const std::string& text) {
  log.info(fmt::format("{:<11}{}", word, text));
}

void announce_place(const Session& session) {
  const pl_run_info& info = session.run_info();
  const World& world = session.team().world();
  announce(session.log(), "device",
           fmt::format("{}, {} thread{}", launch::describe(info.device, session.devices()), info.threads,
                       info.threads == 1 ? "" : "s"));
  announce(session.log(), "processes",
           fmt::format("{}{}; this is rank {}, local rank {} on host {}", info.world_size,
                       world.launcher.empty() ? "" : fmt::format(", started by {}", world.launcher),
                       info.rank, info.local_rank, host_name()));
  if (info.threads > session.devices().cores)
    session.log().warning(
        fmt::format("launch.threads = {}: this process has {} core{}, on which that many threads wait for "
                    "each other: leave it out to use "
                    "the cores there are",
                    info.threads, session.devices().cores, session.devices().cores == 1 ? "" : "s"));
}

void warn_of_unused_options(const Session& session) {
  const config::Config& config = session.config();
  const auto unused = [&](const char* key, const std::string& why) {
    if (config.is_set(key))
      session.log().warning(fmt::format("{} = {} has no effect: {}", key, config.show(key), why));
  };
  const auto because = [&](const char* key) { return fmt::format("{} is {}", key, config.show(key)); };
  const std::string optimizer = because("optimizer.kind");
  if (config.get_string("optimizer.kind") == "sgd") {
    for (const char* key : {"optimizer.beta1", "optimizer.beta2", "optimizer.epsilon"})
      unused(key, optimizer);
  } else {
    for (const char* key : {"optimizer.momentum", "optimizer.nesterov"}) unused(key, optimizer);
  }
  if (config.get_string("schedule.kind") == "constant")
    unused("schedule.min_lr_ratio", because("schedule.kind"));
  if (config.get_string("schedule.lr_scaling") == "none")
    unused("schedule.base_batch", because("schedule.lr_scaling"));
  if (!config.get_bool("loader.group_by_length"))
    unused("loader.group_window", because("loader.group_by_length"));
  if (config.get_int("loader.workers") == 0) unused("loader.prefetch", because("loader.workers"));
  if (!session.precision().loss_scaling)
    for (const char* key : {"train.loss_scale", "train.loss_scale_interval"})
      unused(key, "the precision is " + session.precision().name);
}

}  // namespace pipeline::train
