#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/plugins/check/subject.hpp"
#include "core/plugins/strategy.hpp"

namespace pipeline::plugins {
namespace {

constexpr int64_t kElements = 384;  // elements
constexpr int64_t kRunUnit = 64;    // strategies cut the weights at its multiples

// A rule over kElements elements, at the start of its state.
class RuleBench {
 public:
  explicit RuleBench(const CheckArgs& args) : subject_(args) {
    rule_ = std::make_unique<UpdateRule>(subject_.plugin(), subject_.context(), subject_.config());
    auto info = sized<pl_optimizer_info>();
    check(rule_->forwarding_table().info(rule_->handle(), &info));
    takes_scale_ = (info.flags & PL_OPTIMIZER_TAKES_SCALE) != 0;
    for (int64_t i = 0; i < kElements; ++i) weights_.push_back(std::sin(0.7f * static_cast<float>(i)));
    state_.assign(info.state_count, std::vector<float>(kElements));
  }

  const UpdateRule& rule() const { return *rule_; }
  bool takes_scale() const { return takes_scale_; }
  // What updates get from now on, if the rule takes it.
  void set_scale(float divisor, float found_inf) { scale_ = {divisor, found_inf}; }

  // One update with gradients that are `scale` times some numbers, run by run: `ends` of runs, in calls.
  // `instead`: gets what the rule would.
  using Instead = std::function<void(const pl_update_args&)>;
  void update(float scale, const std::vector<std::vector<int64_t>>& calls, const Instead& instead = {}) {
    std::vector<float> gradients;
    for (int64_t i = 0; i < kElements; ++i)
      gradients.push_back(scale * std::cos(1.3f * static_cast<float>(i)));
    ++updates_;
    int64_t begin = 0;
    for (const std::vector<int64_t>& ends : calls) begin = call(begin, ends, gradients, instead);
  }

  // Weights, then each kind of state.
  std::vector<float> values() const {
    std::vector<float> all = weights_;
    for (const std::vector<float>& kind : state_) all.insert(all.end(), kind.begin(), kind.end());
    return all;
  }

 private:
  int64_t call(int64_t begin, const std::vector<int64_t>& ends, std::vector<float>& gradients,
               const Instead& instead) {
    std::vector<int64_t> lengths(ends.size());
    std::vector<pl_tensor> weights, given, state;
    const auto add = [&](std::vector<pl_tensor>& views, std::vector<float>& values) {
      int64_t first = begin;
      for (size_t run = 0; run < ends.size(); ++run) {
        lengths[run] = ends[run] - first;
        views.push_back(host_tensor(values.data() + first, kFloat32, &lengths[run], 1));
        first = ends[run];
      }
    };
    add(weights, weights_);
    add(given, gradients);
    for (std::vector<float>& kind : state_) add(state, kind);
    const pl_tensor updates = host_tensor(&updates_, kFloat32), divisor = host_tensor(&scale_[0], kFloat32),
                    found_inf = host_tensor(&scale_[1], kFloat32);
    auto args = sized<pl_update_args>();
    args.run_count = ends.size();
    args.weights = weights.data();
    args.gradients = given.data();
    args.state = state.data();
    args.updates = &updates;
    args.learning_rate = 0.01;
    args.weight_decay = 0.1;
    if (takes_scale_) args.divisor = &divisor, args.found_inf = &found_inf;
    if (instead) {
      instead(args);
      return ends.back();
    }
    if (rule_->is_for_matrices()) {
      check(rule_->forwarding_table().directions(rule_->handle(), &args));
      args.divisor = nullptr;
    }
    check(rule_->forwarding_table().update(rule_->handle(), &args));
    return ends.back();
  }

  Subject subject_;
  std::unique_ptr<UpdateRule> rule_;
  std::vector<float> weights_;
  std::vector<std::vector<float>> state_;
  float updates_ = 0;
  bool takes_scale_ = false;
  std::array<float, 2> scale_{1, 0};  // divisor, found_inf
};

constexpr int kUpdates = 3;

std::vector<float> after_updates(const CheckArgs& args, const std::vector<std::vector<int64_t>>& calls) {
  RuleBench bench(args);
  for (int i = 0; i < kUpdates; ++i) bench.update(1.0f / static_cast<float>(i + 1), calls);
  return bench.values();
}

void changes_weights(const CheckArgs& args) {
  RuleBench bench(args);
  const std::vector<float> before = bench.values();
  bench.update(1, {{kElements}});
  const std::vector<float> after = bench.values();
  if (std::equal(before.begin(), before.begin() + kElements, after.begin()))
    throw Error("update changes no weight, with gradients that are not zero");
  if (!std::ranges::all_of(after, [](float value) { return std::isfinite(value); }))
    throw Error("update makes values that are not finite");
}

void same_however_cut(const CheckArgs& args) {
  const std::vector<float> whole = after_updates(args, {{kElements}});
  if (after_updates(args, {{kElements}}) != whole) throw Error("the same updates twice give other bits");
  if (after_updates(args, {{kRunUnit, 3 * kRunUnit, kElements}}) != whole)
    throw Error(
        "an update in three runs gives other bits than in one: it may not depend on where a run ends");
  if (after_updates(args, {{kRunUnit}, {2 * kRunUnit, kElements}}) != whole)
    throw Error(
        "an update in two calls gives other bits than in one: it may depend on its state and an element's "
        "own values alone");
}

void heeds_the_scale(const CheckArgs& args) {
  RuleBench skipped(args), plain(args), scaled(args);
  if (!plain.takes_scale()) throw Skip{"it leaves divisor and found_inf to the strategy"};
  const std::vector<float> before = skipped.values();
  skipped.set_scale(1, 1);
  skipped.update(1, {{kElements}});
  if (skipped.values() != before) throw Error("an update with found_inf = 1 changes weights or state");
  plain.update(1, {{kElements}});
  scaled.set_scale(4, 0);
  scaled.update(4, {{kElements}});
  if (scaled.values() != plain.values())
    throw Error("an update with 4 times the gradients and divisor = 4 gives other bits than with neither");
}

void matrices_keep_their_shape(const CheckArgs& args) {
  RuleBench bench(args);
  if (!bench.rule().is_for_matrices()) throw Skip{"it is a rule of elements"};
  constexpr int64_t kRows = 16, kColumns = 24;
  std::vector<float> values;
  for (int64_t i = 0; i < kRows * kColumns; ++i) values.push_back(std::cos(0.9f * static_cast<float>(i)));
  const auto transformed = [&](std::vector<float> matrix) {
    int64_t shape[] = {kRows, kColumns};
    const pl_tensor view = host_tensor(matrix.data(), kFloat32, shape, 2);
    check(bench.rule().forwarding_table().transform(bench.rule().handle(), &view));
    return matrix;
  };
  const std::vector<float> once = transformed(values);
  if (!std::ranges::all_of(once, [](float value) { return std::isfinite(value); }))
    throw Error("transform makes values that are not finite");
  if (transformed(values) != once) throw Error("transform of the same matrix twice gives other bits");
}

void new_update_options_are_not_ignored(const CheckArgs& args) {
  RuleBench bench(args);
  bench.update(1, {{kElements}}, [&](const pl_update_args& good) {
    const pl_optimizer_api& api = bench.rule().forwarding_table();
    const auto refuses = [&](auto slot) {
      require_unknown_refused<pl_update_args>(
          "a pl_update_args that sets ", " was taken", good,
          [&](const pl_update_args* sent) { return slot(bench.rule().handle(), sent); });
    };
    refuses(api.update);
    if (bench.rule().is_for_matrices()) refuses(api.directions);
  });
}

}  // namespace

std::vector<Promise> optimizer_promises() {
  return {{"an update changes weights", changes_weights},
          {"an update does not depend on how weights are cut", same_however_cut},
          {"a rule that takes the scale heeds it", heeds_the_scale},
          {"a transformed matrix is finite and the same each time", matrices_keep_their_shape},
          {"options that it does not know are refused", new_update_options_are_not_ignored}};
}

}  // namespace pipeline::plugins
