#include "core/train/stages/stages.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "core/train/run/workspace.hpp"
#include "core/train/stages/pool_stage.hpp"
#include "pipeline.h"

namespace pipeline::train {
namespace {

bool is_stage(const config::Config& config, const std::string& name) {
  const auto names = config.all_stage_names();
  return config.has_stages() && std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::vector<config::Config> stages_of(const config::Config& whole) {
  if (!whole.has_stages()) return {whole};
  std::vector<config::Config> stages;
  for (const std::string& name : whole.stage_names()) stages.push_back(whole.for_stage(name));
  return stages;
}

uint32_t purpose_of_stage(const config::Config& stage) {
  const std::string& kind = stage.get_string("stage.kind");
  return kind == "evaluate" || kind == "pool" ? PL_PURPOSE_EVALUATE
         : kind == "predict"                  ? PL_PURPOSE_PREDICT
         : kind == "export"                   ? PL_PURPOSE_EXPORT
                                              : PL_PURPOSE_TRAIN;
}

std::string init_from(const config::Config& whole, const config::Config& stage) {
  for (const char* key : {"stage.init_from", "train.init_from"}) {
    const auto value = stage.find_string(key);
    if (!value || value->empty()) continue;
    return std::string_view(key) == "stage.init_from" || is_stage(whole, *value)
               ? (run_dir(whole) / *value).string()
               : *value;
  }
  return {};
}

void check_stages(const config::Config& whole) {
  if (!whole.has_stages()) return;
  for (const config::Config& stage : stages_of(whole)) {
    const std::string& kind = stage.get_string("stage.kind");
    if (kind == "pool")
      check_pool(whole, stage);
    else if (kind != "train" && init_from(whole, stage).empty())
      throw stage.error("stage.init_from", fmt::format("stage '{}' (kind {}) needs weights: name the stage "
                                                       "to take them from, or a run or checkpoint in "
                                                       "train.init_from",
                                                       stage.get_string("stage.name"), kind));
  }
}

}  // namespace pipeline::train
