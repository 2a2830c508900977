// What a plugin publishes must make sense before it is used: the slots of its table, and its options.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "core/base/abi_values.hpp"
#include "core/base/fail.hpp"
#include "core/config/option.hpp"
#include "core/plugins/plugin.hpp"

namespace pipeline::plugins {
namespace {

// A function pointer of an API table.
struct Slot {
  const char* name;
  uint32_t offset;
  bool required;
};

// The slots of each table, in the order of the header.
#define TASK(name, required) \
  { #name, offsetof(pl_task_api, name), required }
constexpr Slot kTaskSlots[] = {TASK(create, true),
                               TASK(destroy, true),
                               TASK(model_options, false),
                               TASK(prepare, false),
                               TASK(extra_state, false),
                               TASK(set_extra_state, false),
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
                               TASK(form_bytes, false),
                               TASK(encode_value, false),
                               TASK(import_model, false),
                               TASK(bind, true),
                               TASK(set_unit_hooks, false),
                               TASK(train, true),
                               TASK(evaluate, true),
                               TASK(metric_count, false),
                               TASK(metric, false),
                               TASK(report, false),
                               TASK(prediction_columns, false),
                               TASK(sample_name, false),
                               TASK(predict, false),
                               TASK(finish_predictions, false),
                               TASK(reply, false),
                               TASK(flops, false),
                               TASK(export_model, false),
                               TASK(loss_count, false),
                               TASK(loss, false)};
#undef TASK

#define BACKEND(name, required) \
  { #name, offsetof(pl_backend_api, name), required }
constexpr Slot kBackendSlots[] = {
    BACKEND(open, true),           BACKEND(info, true),       BACKEND(all_reduce, true),
    BACKEND(reduce_scatter, true), BACKEND(all_gather, true), BACKEND(broadcast, true),
    BACKEND(all_to_all, true),     BACKEND(barrier, true),    BACKEND(wait, true),
    BACKEND(wait_host, true),      BACKEND(abort, true),      BACKEND(close, true),
    BACKEND(is_done, false),       BACKEND(observe, false),
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
    STRATEGY(gather, false),         STRATEGY(release, false),        STRATEGY(swap_average, false),
};
#undef STRATEGY

#define OPTIMIZER(name, required) \
  { #name, offsetof(pl_optimizer_api, name), required }
constexpr Slot kOptimizerSlots[] = {
    OPTIMIZER(create, true), OPTIMIZER(destroy, true),     OPTIMIZER(info, true),
    OPTIMIZER(update, true), OPTIMIZER(directions, false), OPTIMIZER(transform, false),
};
#undef OPTIMIZER

// Optional slots of which a plugin has all or none.
constexpr const char* kMetricGroup[] = {"metric_count", "metric"};
constexpr const char* kExtraStateGroup[] = {"extra_state", "set_extra_state"};
constexpr const char* kPredictGroup[] = {"prediction_columns", "sample_name", "predict"};
constexpr const char* kFormGroup[] = {"form_bytes", "encode_value"};
constexpr const char* kLossGroup[] = {"loss_count", "loss"};
constexpr std::span<const char* const> kTaskGroups[] = {kMetricGroup, kPredictGroup, kExtraStateGroup,
                                                        kFormGroup, kLossGroup};
constexpr const char* kGatherGroup[] = {"gather", "release"};
constexpr std::span<const char* const> kStrategyGroups[] = {kGatherGroup};
constexpr const char* kMatrixGroup[] = {"directions", "transform"};
constexpr std::span<const char* const> kOptimizerGroups[] = {kMatrixGroup};

std::span<const Slot> slots(Kind kind) {
  if (kind == Kind::kTask) return kTaskSlots;
  if (kind == Kind::kStrategy) return kStrategySlots;
  return kind == Kind::kBackend ? std::span<const Slot>(kBackendSlots) : kOptimizerSlots;
}

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

constexpr uint32_t kOptionFlags = PL_OPTION_REQUIRED | PL_OPTION_HAS_MINIMUM | PL_OPTION_HAS_MAXIMUM |
                                  PL_OPTION_ABOVE_MINIMUM | PL_OPTION_BELOW_MAXIMUM | PL_OPTION_MAY_CHANGE |
                                  PL_OPTION_OF_MODEL | PL_OPTION_FOLLOWS | PL_FLAGS_MAY_IGNORE;

// [a-z0-9_]+ separated by dots.
bool is_key(std::string_view key) {
  bool start = true;
  for (char c : key) {
    if (c == '.' ? start : !((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) return false;
    start = c == '.';
  }
  return !start;
}

bool is_number(uint32_t type) {
  return type == PL_OPTION_INT || type == PL_OPTION_FLOAT || type == PL_OPTION_INT_LIST ||
         type == PL_OPTION_FLOAT_LIST;
}

class OptionCheck {
 public:
  explicit OptionCheck(const pl_option& option) : option_(option) {}

  void run() const {
    if (!is_key(view(option_.key)))
      fail("the key must be lower-case words separated by dots, like \"model.n_head\"");
    if (view(option_.key) == "plugin") fail("this key names the plugin itself");
    if (option_.type < PL_OPTION_BOOL || option_.type > PL_OPTION_PATH_LIST)
      fail(fmt::format("type {} is unknown", option_.type));
    if (option_.flags & ~kOptionFlags)
      fail(fmt::format("flags {:#x} has bits that are unknown", option_.flags));
    check_range();
    check_choices();
    check_default();
  }

 private:
  [[noreturn]] void fail(std::string_view problem) const {
    pipeline::fail("option '{}': {}", view(option_.key), problem);
  }

  bool flag(uint32_t bit) const { return option_.flags & bit; }

  void check_range() const {
    if ((flag(PL_OPTION_HAS_MINIMUM) || flag(PL_OPTION_HAS_MAXIMUM)) && !is_number(option_.type))
      fail(fmt::format("type {} cannot have a minimum or maximum", config::type_name(option_.type)));
    if (flag(PL_OPTION_ABOVE_MINIMUM) && !flag(PL_OPTION_HAS_MINIMUM))
      fail("ABOVE_MINIMUM needs HAS_MINIMUM");
    if (flag(PL_OPTION_BELOW_MAXIMUM) && !flag(PL_OPTION_HAS_MAXIMUM))
      fail("BELOW_MAXIMUM needs HAS_MAXIMUM");
    if (flag(PL_OPTION_HAS_MINIMUM) && flag(PL_OPTION_HAS_MAXIMUM) && !(option_.minimum <= option_.maximum))
      fail(fmt::format("minimum {} is above maximum {}", option_.minimum, option_.maximum));
  }

  void check_choices() const {
    if (option_.choice_count == 0) return;
    if (!option_.choices) fail(fmt::format("choice_count is {} and choices is NULL", option_.choice_count));
    if (option_.type != PL_OPTION_STRING && option_.type != PL_OPTION_STRING_LIST)
      fail(fmt::format("type {} cannot have choices", config::type_name(option_.type)));
  }

  // The default as the configuration's reader would see it; it must obey the option's own rules.
  void check_default() const {
    const std::string source(view(option_.default_value));
    if (flag(PL_OPTION_REQUIRED)) {
      if (!source.empty()) fail(fmt::format("is required and has a default, {}", source));
      return;
    }
    if (source.empty()) fail("has no default and is not marked PL_OPTION_REQUIRED");
    (void)config::default_value(option_);
  }

  const pl_option& option_;
};

// Two options cannot be one key, nor one a value and the other a table below it.
void check_keys(std::vector<std::string> keys) {
  std::sort(keys.begin(), keys.end());
  for (const std::string& key : keys) {
    if (std::count(keys.begin(), keys.end(), key) > 1) fail("option '{}': occurs twice", key);
    for (const std::string& other : keys)
      if (other.starts_with(key + "."))
        fail("option '{}': is a value and, because of '{}', a table", key, other);
  }
}

}  // namespace

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
  if (kind == Kind::kOptimizer) groups = kOptimizerGroups;
  for (const std::span<const char* const> group : groups)
    if (std::string problem = group_problem(kind, api, group); !problem.empty()) return problem;
  return {};
}

std::vector<pl_option> copy_options(const pl_plugin& table) {
  const std::string prefix = std::string(kind_name(static_cast<Kind>(table.kind))) + ".";
  if (table.option_count == 0) return {};
  if (!table.options) fail("option_count is {} and options is NULL", table.option_count);
  constexpr uint32_t kFirstSize = offsetof(pl_option, maximum) + sizeof(double);  // in ABI 1.0
  const uint32_t stride = struct_size_of(table.options);
  if (stride < kFirstSize || stride % alignof(pl_option) != 0)
    fail("its pl_option has {} bytes, must be at least {} and a multiple of {}", stride, kFirstSize,
         alignof(pl_option));

  std::vector<pl_option> options;
  std::vector<std::string> keys;
  const auto* bytes = reinterpret_cast<const char*>(table.options);
  for (uint64_t i = 0; i < table.option_count; ++i) {
    if (struct_size_of(bytes + i * stride) != stride)
      fail("option {}: struct_size is {}, the first one's is {}", i, struct_size_of(bytes + i * stride),
           stride);
    options.push_back(copy_and_extend<pl_option>(bytes + i * stride));
    options.back().type = PL_CODE(options.back().type);
    OptionCheck(options.back()).run();
    keys.emplace_back(view(options.back().key));
    if (std::ranges::find(config::core_options(), prefix + keys.back(), [](const pl_option& option) {
          return view(option.key);
        }) != config::core_options().end())
      fail("option '{0}': {1}{0} is an option of the program itself: choose another key", keys.back(),
           prefix);
  }
  check_keys(std::move(keys));
  return options;
}

}  // namespace pipeline::plugins
