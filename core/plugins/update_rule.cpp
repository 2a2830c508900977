#include "core/plugins/update_rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/base/abi_values.hpp"

namespace pipeline::plugins {
namespace {

bool may_be_state(std::string_view name) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && std::ranges::all_of(name, fits) && name != "value" && name != "ema" &&
         name != "step";
}

}  // namespace

UpdateRule::UpdateRule(const Plugin& plugin, const pl_context& context, const pl_config* config)
    : api_(plugin.optimizer()), call_(plugin, context) {
  call_.main("create", [&] { return api_.create(&host_table(), &call_.context(), config, &self_); });
  if (!self_) throw Error(plugin.label() + ": create returned no error and no object");
  try {
    check_info();
  } catch (...) {
    call_.cannot_fail("destroy", [&] { api_.destroy(self_); });
    throw;
  }
}

UpdateRule::~UpdateRule() {
  call_.cannot_fail("destroy", [&] { api_.destroy(self_); });
}

void UpdateRule::check_info() const {
  auto info = sized<pl_optimizer_info>();
  call_.main("info", [&] { return api_.info(self_, &info); });
  require_known_flags(plugin().label() + ": info", info.flags, PL_OPTIMIZER_TAKES_SCALE);
  std::vector<std::string_view> names;
  for (uint64_t i = 0; i < info.state_count; ++i) {
    const std::string_view name = view(info.state[i]);
    if (!may_be_state(name) || std::ranges::find(names, name) != names.end())
      throw Error(
          fmt::format("{}: info: its state '{}': must be made of a-z, 0-9 and _, occur once, and be neither "
                      "value, ema nor "
                      "step",
                      plugin().label(), name));
    names.push_back(name);
  }
}

// Calls the slot of the rule behind `handle`: call(its table, its object).
template <class Call>
pl_error* UpdateRule::forward(pl_update_rule* handle, const char* slot, const Call& call) noexcept {
  const UpdateRule& rule = *reinterpret_cast<const UpdateRule*>(handle);
  return guard([&] { rule.call_.main(slot, [&] { return call(rule.api_, rule.self_); }); });
}

const pl_optimizer_api& UpdateRule::forwarding_table() const {
  static const pl_optimizer_api for_matrices = [] {
    auto t = sized<pl_optimizer_api>();
    t.create = [](const pl_host*, const pl_context*, const pl_config*, pl_update_rule**) {
      return make_error(PL_ERROR_UNSUPPORTED, "update rules are created by the host alone");
    };
    t.destroy = [](pl_update_rule*) {};
    t.info = [](pl_update_rule* rule, pl_optimizer_info* out) {
      return forward(rule, "info", [&](const auto& api, auto* self) { return api.info(self, out); });
    };
    t.update = [](pl_update_rule* rule, const pl_update_args* args) {
      return forward(rule, "update", [&](const auto& api, auto* self) { return api.update(self, args); });
    };
    t.directions = [](pl_update_rule* rule, const pl_update_args* args) {
      return forward(rule, "directions",
                     [&](const auto& api, auto* self) { return api.directions(self, args); });
    };
    t.transform = [](pl_update_rule* rule, const pl_tensor* matrix) {
      return forward(rule, "transform",
                     [&](const auto& api, auto* self) { return api.transform(self, matrix); });
    };
    return t;
  }();
  static const pl_optimizer_api for_elements = [] {
    pl_optimizer_api t = for_matrices;
    t.directions = nullptr;
    t.transform = nullptr;
    return t;
  }();
  return is_for_matrices() ? for_matrices : for_elements;
}

}  // namespace pipeline::plugins
