#include "core/plugins/strategy.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "core/base/abi_values.hpp"
#include "core/base/fail.hpp"

namespace pipeline::plugins {
namespace {

bool may_be_state(std::string_view name) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && std::ranges::all_of(name, fits) && name != "value" && name != "ema" &&
         name != "step";
}

std::vector<pl_number> numbers(const Optimizer& optimizer, bool decay) {
  std::vector<pl_number> numbers;
  for (const auto& [name, value] : optimizer.options)
    numbers.push_back({to_pl(name), name == "weight_decay" && !decay ? 0 : value});
  return numbers;
}

pl_piece received(const pl_piece* raw) {
  const auto piece = copy_and_extend<pl_piece>(raw);
  require_known_flags(fmt::format("state '{}' of '{}'", view(piece.kind), view(piece.parameter)), piece.flags,
                      0);
  return piece;
}

pl_error* on_read(void* user, const pl_piece* raw, void* destination) noexcept {
  const auto& read = *static_cast<const PieceReader*>(user);
  return call_back([&] { read(received(raw), destination); });
}

using PieceVisitor = std::function<void(const pl_piece&)>;

pl_error* on_piece(void* user, const pl_piece* raw) noexcept {
  const auto& visit = *static_cast<const PieceVisitor*>(user);
  return call_back([&] { visit(received(raw)); });
}

pl_error* on_memory(void* user, pl_str what, uint64_t bytes) noexcept {
  auto& list = *static_cast<std::vector<std::pair<std::string, uint64_t>>*>(user);
  return guard([&] { list.emplace_back(view(what), bytes); });
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
      fail(
          "{}: info: its state '{}': must be made of a-z, 0-9 and _, occur once, and be neither value, ema "
          "nor step",
          plugin().label(), name);
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

Strategy::Strategy(const Plugin& plugin, const pl_context& context, const pl_config* config,
                   std::span<const pl_parameter> parameters, std::span<const Optimizer> of_losses,
                   const pl_communicator* communicator)
    : api_(plugin.strategy()), call_(plugin, context) {
  std::vector<const Optimizer*> rules;
  for (const Optimizer& optimizer : of_losses) {
    rules.push_back(&optimizer);
    for (const Optimizer& other : optimizer.of_hidden_matrices) rules.push_back(&other);
  }
  const size_t rules_of_each = of_losses.empty() ? 0 : rules.size() / of_losses.size();
  std::vector<std::vector<pl_number>> options;  // of each rule with decay, and without
  for (const Optimizer* rule : rules)
    for (const bool decay : {true, false}) options.push_back(numbers(*rule, decay));
  std::vector<pl_optimizer> optimizers;
  for (size_t i = 0; i < options.size(); ++i) {
    const Optimizer& rule = *rules[i / 2];
    optimizers.push_back({.struct_size = sizeof(pl_optimizer),
                          .flags = rule.flags,
                          .name = to_pl(rule.name),
                          .options = options[i].data(),
                          .option_count = options[i].size(),
                          .api = rule.rule ? &rule.rule->forwarding_table() : nullptr,
                          .rule = rule.rule ? rule.rule->handle() : nullptr});
  }
  std::vector<pl_parameter> grouped(parameters.begin(), parameters.end());
  for (pl_parameter& parameter : grouped) {
    const bool other = rules_of_each > 1 && (parameter.flags & PL_PARAMETER_HIDDEN_MATRIX) != 0;
    const size_t rule = parameter.loss * rules_of_each + (other ? 1 : 0);
    parameter.optimizer =
        static_cast<uint32_t>(2 * rule) + ((parameter.flags & PL_PARAMETER_DECAY) ? 0u : 1u);
  }
  auto args = sized<pl_strategy_args>();
  args.parameters = grouped.data();
  args.parameter_count = grouped.size();
  args.optimizers = optimizers.data();
  args.optimizer_count = optimizers.size();
  args.communicator = communicator;
  call_.main("create", [&] { return api_.create(&host_table(), &call_.context(), config, &args, &self_); });
  if (!self_) throw Error(call_.plugin().label() + ": create returned no error and no object");
  try {
    info_ = sized<pl_strategy_info>();
    call_.main("info", [&] { return api_.info(self_, &info_); });
    info_.micro_batch_order = PL_CODE(info_.micro_batch_order);
    if (info_.micro_batch_order != PL_ORDER_BLOCK && info_.micro_batch_order != PL_ORDER_INTERLEAVED)
      fail("{}: micro_batch_order {} is unknown", call_.plugin().label(), info_.micro_batch_order);
    require_known_flags(call_.plugin().label() + ": info", info_.flags,
                        PL_STRATEGY_NEEDS_UNIT_HOOKS | PL_STRATEGY_TAKES_ROWS | PL_STRATEGY_SAVES_TRAINED |
                            PL_STRATEGY_TAKES_LOSSES);
    if (of_losses.size() > 1 && !(info_.flags & PL_STRATEGY_TAKES_LOSSES))
      fail(PL_ERROR_UNSUPPORTED,
           "{}: updates all parameters in every step, and the task has {} losses, which are updated each by "
           "itself: use strategy.plugin = \"single\", \"ddp\" or \"sharded\"",
           call_.plugin().label(), of_losses.size());
    if ((info_.flags & PL_STRATEGY_NEEDS_UNIT_HOOKS) && (!api_.unit_hooks || !api_.gather))
      fail("{}: says that it needs unit hooks and has no slot '{}'", call_.plugin().label(),
           api_.unit_hooks ? "gather" : "unit_hooks");
  } catch (...) {
    destroy();
    throw;
  }
  sink_ = sized<pl_gradient_sink>();
  sink_.user = this;
  sink_.ready = ready;
  had_gradient_.resize(parameters.size());
  if ((info_.flags & PL_STRATEGY_TAKES_ROWS) != 0) sink_.flags = PL_GRADIENTS_IN_ROWS;
}

Strategy::~Strategy() { destroy(); }

void Strategy::destroy() noexcept {
  call_.cannot_fail("destroy", [&] { api_.destroy(self_); });
}

Storage Strategy::storage(uint64_t index) const {
  Storage storage{};
  call_.main("storage", [&] { return api_.storage(self_, index, &storage.value, &storage.grad); });
  return storage;
}

const pl_unit_hooks& Strategy::unit_hooks() {
  if (hooks_.enter) return hooks_;  // a task may hold them already
  auto hooks = sized<pl_unit_hooks>();
  call_.main("unit_hooks", [&] { return api_.unit_hooks(self_, &hooks); });
  if (!hooks.enter || !hooks.leave)
    throw Error(call_.plugin().label() + ": its unit hooks lack enter or leave");
  return hooks_ = hooks;
}

void Strategy::gather_values() {
  if (moves_values()) call_.main("gather", [&] { return api_.gather(self_); });
}

void Strategy::release_values() {
  if (moves_values()) call_.main("release", [&] { return api_.release(self_); });
}

void Strategy::begin_step(uint64_t micro_batches) {
  call_.main("begin_step", [&] { return api_.begin_step(self_, micro_batches); });
}

void Strategy::gradient_ready(const pl_gradient& gradient) {
  const SerialCheck::Scope scope(ready_check_, call_.plugin().label(), "gradient_ready");
  call_.any("gradient_ready", [&] { return api_.gradient_ready(self_, &gradient); });
}

// Called by the task: the error goes back through it, with this plugin's name in front.
pl_error* Strategy::ready(void* user, const pl_gradient* gradient) noexcept {
  return guard([&] {
    auto& self = *static_cast<Strategy*>(user);
    if (PL_HAS(pl_gradient, gradient, rows) && gradient->rows && !(self.info_.flags & PL_STRATEGY_TAKES_ROWS))
      fail("a gradient of parameter {} comes in rows, which the sink's flags do not allow", gradient->index);
    self.gradient_ready(*gradient);
    if (gradient->index < self.had_gradient_.size()) self.had_gradient_[gradient->index] = true;
  });
}

void Strategy::end_micro_batch(const pl_tensor* loss) {
  call_.main("end_micro_batch", [&] { return api_.end_micro_batch(self_, loss); });
}

uint64_t Strategy::step(pl_step_args args) {
  args.struct_size = sizeof args;
  uint64_t ticket = 0;
  call_.main("step", [&] { return api_.step(self_, &args, &ticket); });
  return ticket;
}

pl_step_report Strategy::collect(uint64_t ticket) {
  auto report = sized<pl_step_report>();
  call_.main("collect", [&] { return api_.collect(self_, ticket, &report); });
  return report;
}

void Strategy::swap_average() {
  call_.main("swap_average", [&] { return api_.swap_average(self_); });
}

void Strategy::load_state(const PieceReader& read, bool values_only) {
  auto reader = sized<pl_state_reader>();
  reader.values_only = values_only ? 1 : 0;
  reader.user = const_cast<PieceReader*>(&read);  // as on_read takes it: const
  reader.read = on_read;
  call_.main("load_state", [&] { return api_.load_state(self_, &reader); });
}

Snapshot Strategy::snapshot(uint32_t mode) const {
  if ((info_.flags & PL_STRATEGY_SAVES_TRAINED) == 0) mode &= ~PL_SNAPSHOT_TRAINED;
  pl_snapshot* snapshot = nullptr;
  call_.main("snapshot", [&] { return api_.snapshot(self_, mode, &snapshot); });
  if (!snapshot) throw Error(call_.plugin().label() + ": snapshot returned no error and no snapshot");
  return Snapshot(*this, snapshot);
}

void Snapshot::pieces(const PieceVisitor& visit) const {
  void* user = const_cast<PieceVisitor*>(&visit);  // as on_piece takes it: const
  strategy_->call_.any("snapshot_pieces",
                       [&] { return strategy_->api_.snapshot_pieces(handle_, on_piece, user); });
}

Snapshot::~Snapshot() {
  if (handle_) strategy_->call_.cannot_fail("snapshot_free", [&] { strategy_->api_.snapshot_free(handle_); });
}

std::vector<std::pair<std::string, uint64_t>> Strategy::memory() const {
  std::vector<std::pair<std::string, uint64_t>> list;
  call_.main("memory", [&] { return api_.memory(self_, on_memory, &list); });
  return list;
}

}  // namespace pipeline::plugins
