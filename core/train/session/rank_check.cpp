#include "core/train/session/session.hpp"

#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/abi_values.hpp"
#include "core/base/fail.hpp"
#include "core/train/processes/process_group.hpp"

namespace pipeline::train {
namespace {

using Items = nlohmann::ordered_json;

// Where things lie may differ from host to host.
bool is_local(std::string_view key) { return key == "run.cache_dir" || key == "plugins.paths"; }

std::string describe_parameters(Session& session) {
  std::string text;
  for (const pl_parameter& p : session.task().parameters())
    text += fmt::format("{}{}[{}]{}", text.empty() ? "" : " ", view(p.name),
                        fmt::join(p.shape, p.shape + p.ndim, ","),
                        p.loss == 0 ? "" : fmt::format(" of loss {}", p.loss));
  return text;
}

std::string describe_losses(Session& session) {
  std::string text;
  for (const plugins::Loss& loss : session.task().losses()) {
    text += fmt::format("{}{} (first = {}, every = {}", text.empty() ? "" : ", ", loss.name, loss.first,
                        loss.every);
    for (const auto& [name, value] : loss.options) text += fmt::format(", {} = {}", name, value);
    text += ")";
  }
  return text;
}

Items items_of(Session& session) {
  Items items = Items::object();
  items["the ABI"] = fmt::format("{}.{}", PL_ABI_MAJOR, PL_ABI_MINOR);
  // Their places, before the versions, since another plugin has another one; the values are among the rows.
  for (const char* key : {"task.plugin", "strategy.plugin", "backend.plugin", "optimizer.plugin"})
    items[key] = nullptr;
  for (const plugins::Plugin* plugin : {&session.task_plugin(), &session.strategy_plugin(),
                                        session.backend_plugin(), session.rules().plugin()})
    if (plugin != nullptr)
      items["the version of " + plugin->label()] = fmt::format("{} {}", plugin->version(), plugin->runtime());
  const std::vector<const config::PluginConfig*> configs = session.plugin_configs();
  for (const config::Row& row : session.config().rows(configs))
    if (!is_local(row.key)) items[row.key] = row.value;
  const pl_run_info& info = session.run_info();
  items["the kind of device"] = info.device.type == PL_DEVICE_CUDA ? "cuda" : "cpu";
  items["the precision"] = session.precision().name;
  if ((info.flags & PL_RUN_REPRODUCIBLE) != 0 && !session.is_same_on_any_threads())
    items["the number of threads"] = std::to_string(info.threads);
  items["the data's content"] = session.task().data_fingerprint();
  items["the number of training samples"] = std::to_string(session.task().sample_count(PL_SPLIT_TRAIN));
  items["the number of validation samples"] = std::to_string(session.task().sample_count(PL_SPLIT_VAL));
  items["the number of test samples"] = std::to_string(session.task().sample_count(PL_SPLIT_TEST));
  items["the number of parameters"] = std::to_string(session.task().parameters().size());
  items["the parameters"] = describe_parameters(session);
  items["the losses"] = describe_losses(session);
  return items;
}

// Texts as they are: those of options are TOML, with quotes of their own.
std::string shown(const Items& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

void compare(const Items& first, const Items& other, size_t rank) {
  for (const auto& [key, value] : first.items()) {
    const auto found = other.find(key);
    if (found != other.end() && *found == value) continue;
    fail(PL_ERROR_CONFIG,
         "{} is not the same on all ranks: {} on rank 0, {} on rank {}: give all ranks the same files, "
         "options and versions",
         key, shown(value), found == other.end() ? "nothing" : shown(*found), rank);
  }
  for (const auto& [key, value] : other.items())
    if (!first.contains(key))
      fail(PL_ERROR_CONFIG, "{} = {} on rank {}, and is not there on rank 0", key, shown(value), rank);
}

}  // namespace

void require_same_on_all_ranks(Session& session) {
  ProcessGroup& processes = session.processes();
  if (processes.world().size == 1) return;
  const std::vector<std::string> all = processes.peers().gather(
      "compare", items_of(session).dump(-1, ' ', false, Items::error_handler_t::replace));
  processes.on_first("comparing the ranks", [&] {
    const Items first = Items::parse(all.front());
    for (size_t rank = 1; rank < all.size(); ++rank) compare(first, Items::parse(all[rank]), rank);
  });
}

}  // namespace pipeline::train
