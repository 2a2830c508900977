#include "core/plugins/slots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string_view>

#include "pipeline.h"

namespace pipeline::plugins {
namespace {

#define TASK(name, required) \
  { #name, offsetof(pl_task_api, name), required }
constexpr Slot kTaskSlots[] = {
    TASK(create, true),
    TASK(destroy, true),
    TASK(prepare, false),
    TASK(open, true),
    TASK(sample_count, true),
    TASK(sample_costs, false),
    TASK(data_fingerprint, false),
    TASK(load, true),
    TASK(batch_info, true),
    TASK(batch_free, true),
    TASK(parameter_count, true),
    TASK(parameter, true),
    TASK(initialize, true),
    TASK(import_model, false),
    TASK(bind, true),
    TASK(set_unit_hooks, false),
    TASK(train, true),
    TASK(evaluate, true),
    TASK(metric_count, false),
    TASK(metric, false),
    TASK(prediction_columns, false),
    TASK(sample_name, false),
    TASK(predict, false),
    TASK(flops, false),
    TASK(export_model, false),
    TASK(extra_state, false),
    TASK(set_extra_state, false),
    TASK(report, false),
};
#undef TASK

#define BACKEND(name, required) \
  { #name, offsetof(pl_backend_api, name), required }
constexpr Slot kBackendSlots[] = {
    BACKEND(open, true),           BACKEND(info, true),       BACKEND(all_reduce, true),
    BACKEND(reduce_scatter, true), BACKEND(all_gather, true), BACKEND(broadcast, true),
    BACKEND(all_to_all, true),     BACKEND(barrier, true),    BACKEND(wait, true),
    BACKEND(wait_host, true),      BACKEND(abort, true),      BACKEND(close, true),
    BACKEND(is_done, false),
};
#undef BACKEND

#define STRATEGY(name, required) \
  { #name, offsetof(pl_strategy_api, name), required }
constexpr Slot kStrategySlots[] = {
    STRATEGY(create, true),          STRATEGY(destroy, true),         STRATEGY(info, true),
    STRATEGY(storage, true),         STRATEGY(unit_hooks, false),     STRATEGY(begin_step, true),
    STRATEGY(gradient_ready, true),  STRATEGY(end_micro_batch, true), STRATEGY(step, true),
    STRATEGY(collect, true),         STRATEGY(load_state, true),      STRATEGY(snapshot, true),
    STRATEGY(snapshot_pieces, true), STRATEGY(snapshot_free, true),   STRATEGY(memory, true),
    STRATEGY(gather, false),         STRATEGY(release, false),
};
#undef STRATEGY

// Optional slots of which a plugin has all or none.
constexpr const char* kMetricGroup[] = {"metric_count", "metric"};
constexpr const char* kExtraStateGroup[] = {"extra_state", "set_extra_state"};
constexpr const char* kPredictGroup[] = {"prediction_columns", "sample_name", "predict"};
constexpr std::span<const char* const> kTaskGroups[] = {kMetricGroup, kPredictGroup, kExtraStateGroup};
constexpr const char* kGatherGroup[] = {"gather", "release"};
constexpr std::span<const char* const> kStrategyGroups[] = {kGatherGroup};

bool has(const void* api, const Slot& slot) {
  void* pointer = nullptr;
  std::memcpy(&pointer, static_cast<const char*>(api) + slot.offset, sizeof pointer);
  return pointer != nullptr;
}

bool has_named(Kind kind, const void* api, std::string_view name) {
  return std::ranges::any_of(slots(kind),
                             [&](const Slot& slot) { return slot.name == name && has(api, slot); });
}

std::string group_problem(Kind kind, const void* api, std::span<const char* const> group) {
  const char* present = nullptr;
  const char* absent = nullptr;
  for (const char* name : group) (has_named(kind, api, name) ? present : absent) = name;
  if (!present || !absent) return {};
  return fmt::format("has slot '{}' but not '{}': of {} a {} has all or none", present, absent,
                     fmt::join(group, ", "), kind_name(kind));
}

}  // namespace

std::span<const Slot> slots(Kind kind) {
  if (kind == Kind::kTask) return kTaskSlots;
  if (kind == Kind::kStrategy) return kStrategySlots;
  return kBackendSlots;
}

uint32_t api_size(Kind kind) {
  if (kind == Kind::kTask) return sizeof(pl_task_api);
  if (kind == Kind::kStrategy) return sizeof(pl_strategy_api);
  return sizeof(pl_backend_api);
}

std::string slot_problem(Kind kind, const void* api, uint32_t received) {
  for (const Slot& slot : slots(kind)) {
    if (!slot.required || has(api, slot)) continue;
    if (received < slot.offset + sizeof(void*))
      return fmt::format("its pl_{}_api has {} bytes, too short for the required slot '{}' (at byte {})",
                         kind_name(kind), received, slot.name, slot.offset);
    return fmt::format("the required slot '{}' of its pl_{}_api is NULL", slot.name, kind_name(kind));
  }
  std::span<const std::span<const char* const>> groups;
  if (kind == Kind::kTask) groups = kTaskGroups;
  if (kind == Kind::kStrategy) groups = kStrategyGroups;
  for (const std::span<const char* const> group : groups)
    if (std::string problem = group_problem(kind, api, group); !problem.empty()) return problem;
  return {};
}

}  // namespace pipeline::plugins
