#pragma once

#include <string>
#include <vector>

#include "core/plugins/call.hpp"

namespace pipeline::plugins {

// An update rule of an optimizer plugin. Strategies call it through a forwarding table, which checks thread
// tags and names the plugin in errors. `context` and `config` must outlive it, and it the strategies that
// have it. [main]
class UpdateRule {
 public:
  // Throws Error, also where its state has names that it must not have, or its flags are unknown.
  UpdateRule(const Plugin& plugin, const pl_context& context, const pl_config* config);
  ~UpdateRule();
  UpdateRule(const UpdateRule&) = delete;
  UpdateRule& operator=(const UpdateRule&) = delete;

  const Plugin& plugin() const { return call_.plugin(); }
  // Whether the rule sees matrices whole, and is for those of hidden layers alone.
  bool is_for_matrices() const { return api_.transform != nullptr; }

  // The table that strategies get, with the optional slots that the plugin has.
  const pl_optimizer_api& forwarding_table() const;
  pl_update_rule* handle() const {
    return reinterpret_cast<pl_update_rule*>(const_cast<UpdateRule*>(this));  // back in forwarding_table()
  }

 private:
  void check_info() const;
  template <class Call>
  static pl_error* forward(pl_update_rule* handle, const char* slot, const Call& call) noexcept;

  const pl_optimizer_api& api_;
  Caller call_;
  pl_update_rule* self_ = nullptr;
};

}  // namespace pipeline::plugins
