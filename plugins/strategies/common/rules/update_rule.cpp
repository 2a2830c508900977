#include "plugins/strategies/common/rules/update_rule.hpp"

#include <algorithm>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/where.h>

#include "plugins/parallel/parallel.hpp"
#include "plugins/strategies/common/rules/built_in.hpp"

namespace pipeline::strategies {
namespace {

// A gradient as a rule gets it that knows nothing of scales: its own, to be overwritten, and zero in a step
// that is to be skipped.
at::Tensor unscaled(const at::Tensor& gradient, const GradientScale& scale) {
  const at::Tensor own = scale.divisor ? gradient / *scale.divisor : gradient.clone();
  return scale.found_inf ? at::where(scale.found_inf->gt(0), 0.0f, own) : own;
}

// LibTorch computes most of a tensor with vectors and what is left over, also of each thread's part, with
// scalars, which may have other bits. So on the CPU a plugin gets pieces of which nothing is left over.
constexpr int64_t kVectors = 64;         // a multiple of what any processor takes at once
constexpr int64_t kOfAThread = 1 << 15;  // at::internal::GRAIN_SIZE: a part is no smaller

// The length of the next piece of `left` elements.
int64_t next_piece(int64_t left, bool on_cpu) {
  if (!on_cpu) return left;
  const int64_t for_all = kOfAThread * at::get_num_threads();
  return left >= for_all ? for_all : std::min(left, kOfAThread);
}

// Weights at once whose state is widened: what is computed with them fits a core's cache; a device wants
// more, and has memory for it.
constexpr int64_t kPiece = int64_t{1} << 14, kDevicePiece = int64_t{1} << 22;

StateForm form_of(std::string_view kind, double bits) {
  if (bits == 32) return StateForm::kFloat32;
  if (bits == 16) return StateForm::kBFloat16;
  return kind.ends_with("_sq") ? StateForm::kUnsigned8 : StateForm::kSigned8;  // squares
}

const BuiltIn& built_in_named(std::string_view name) {
  for (const BuiltIn* rule : {&kAdamW, &kMuon, &kSgd})
    if (rule->name == name) return *rule;
  fail_with(PL_ERROR_UNSUPPORTED, "optimizer ", name, " is not known: use adamw, muon or sgd");
}

}  // namespace

UpdateRule::UpdateRule(const Context& context, OptimizerRule options) {
  if (const uint32_t flags = options.flags & ~(PL_OPTIMIZER_WHOLE_TENSORS | PL_FLAGS_MAY_IGNORE))
    fail_with(PL_ERROR_UNSUPPORTED, "optimizer ", options.name, ": flags ", flags, " are not known");
  double bits = 32;
  if (options.api != nullptr) {
    options.require_options({"weight_decay"});
    api_ = receive(options.api), rule_ = options.rule;
  } else {
    const BuiltIn& built_in = built_in_named(options.name);
    const auto narrow = options.options.find("state_bits");
    if (&built_in == &kAdamW && narrow != options.options.end()) {
      bits = narrow->second;
      options.options.erase(narrow);
    }
    api_ = *static_cast<const pl_optimizer_api*>(built_in.api());
    own_ = {built_in.make(context, options), api_.destroy};
    rule_ = own_.get();
  }
  weight_decay_ = options.option("weight_decay");
  require_option(weight_decay_ >= 0, "weight_decay", weight_decay_, "0 or more");
  require_option(bits == 32 || bits == 16 || bits == 8, "state_bits", bits, "32, 16 or 8");
  auto info = sized<pl_optimizer_info>();
  check(api_.info(rule_, &info));
  takes_scale_ = (info.flags & PL_OPTIMIZER_TAKES_SCALE) != 0;
  is_narrow_ = bits != 32;
  for (uint64_t i = 0; i < info.state_count; ++i)
    kinds_.push_back({std::string(view(info.state[i])), form_of(view(info.state[i]), bits)});
}

void UpdateRule::directions(UpdateRuns& runs) const {
  if (!takes_scale_)
    for (size_t run = 0; run < runs.count; ++run) runs.values[run] = unscaled(runs.values[run], runs.scale);
  call(api_.directions, runs);
}

void UpdateRule::transform(const at::Tensor& matrix) const {
  const pl_tensor view = to_pl(matrix);
  check(api_.transform(rule_, &view));
}

// A rule that takes the scale gets all runs at once, where they need not be cut.
void UpdateRule::call(Slot slot, UpdateRuns& runs) const {
  const bool on_cpu = runs.values.front().is_cpu();
  if (takes_scale_ && !is_narrow_ && (own_ || !on_cpu)) {
    runs.wrote_narrow = call_table(slot, runs.count, runs.values, runs, runs.narrow);
    return;
  }
  for (size_t run = 0; run < runs.count; ++run) {
    const int64_t end = runs.values[run].numel();
    if (is_narrow_ && on_cpu) {  // a rule of this library may be called by several threads at once
      parallel::tasks((end + kPiece - 1) / kPiece, [&](int64_t i) {
        call_piece(slot, runs, run, i * kPiece, std::min(kPiece, end - i * kPiece));
      });
      continue;
    }
    int64_t length = 0;
    for (int64_t begin = 0; begin < end; begin += length) {
      length = is_narrow_ ? std::min(kDevicePiece, end - begin) : next_piece(end - begin, on_cpu);
      call_piece(slot, runs, run, begin, length);
    }
  }
}

// The rule gets copies of what it may not have as it is, from which what it has changed comes back.
void UpdateRule::call_piece(Slot slot, const UpdateRuns& runs, size_t run, int64_t begin,
                            int64_t length) const {
  const at::NoGradGuard no_grad;  // of this thread
  Tensors values;                 // gradient, weights, state
  for (size_t i = run; i < 2 * runs.count; i += runs.count)
    values.push_back(runs.values[i].narrow(0, begin, length));
  if (!takes_scale_ && !is_of_matrices()) values[0] = unscaled(values[0], runs.scale);
  std::vector<Kept> kept;
  for (size_t i = run; i < runs.scales.size(); i += runs.count) {
    kept.push_back(narrow_state({runs.values[2 * runs.count + i], runs.scales[i]}, begin, length));
    values.push_back(widened(kinds_[kept.size() - 1].form, kept.back()));  // in float32 the same
  }
  // Where only the device knows that the step is to be skipped, a rule need not know of it.
  const bool may_skip = !takes_scale_ && runs.scale.found_inf;
  const int64_t over = own_ || !values[0].is_cpu() ? 0 : length % kVectors;
  Tensors handed = values;
  for (size_t i = 0; i < values.size(); ++i) {
    if (over > 0)
      handed[i] = at::constant_pad_nd(values[i], {0, kVectors - over});
    else if (may_skip && i > 0)
      handed[i] = values[i].clone();
  }
  call_table(slot, 1, handed, runs);
  for (size_t i = 0; i < values.size(); ++i) {
    if (handed[i].is_same(values[i])) continue;
    const at::Tensor changed = handed[i].narrow(0, 0, length);
    values[i].copy_(may_skip ? at::where(runs.scale.found_inf->gt(0), values[i], changed) : changed);
  }
  if (!is_narrow_) return;
  // Two kinds of state take 16 each of the noise's 32 bits.
  const auto& [unit, first] = runs.places[run];
  const at::Tensor random = noise(unit, first + begin, length, runs.step_count);
  for (size_t i = 0; i < kinds_.size(); ++i)
    narrow_to(kinds_[i].form, values[i + 2], i == 0 ? random : random.bitwise_right_shift(16), kept[i]);
}

namespace {

// What call_table() has made views of.
thread_local struct {
  const pl_tensor* views;
  const at::Tensor* tensors;
  at::TensorList narrow;
  bool was_asked_for_narrow;
} given;

}  // namespace

at::TensorList tensors(std::span<const pl_tensor> runs) {
  return {given.tensors + (runs.data() - given.views), runs.size()};
}

at::TensorList narrow_weights() {
  given.was_asked_for_narrow = true;
  return given.narrow;
}

// `values`: of `count` runs, as UpdateRuns has them. Returns whether the rule wrote `narrow`.
bool UpdateRule::call_table(Slot slot, size_t count, const Tensors& values, const UpdateRuns& runs,
                            at::TensorList narrow) const {
  std::vector<pl_tensor> views;
  views.reserve(values.size());
  for (const at::Tensor& tensor : values) views.push_back(to_pl(tensor));
  given = {views.data(), values.data(), narrow, false};
  const pl_tensor updates = to_pl(runs.step_count);
  const auto passed = [&](const std::optional<at::Tensor>& scalar) {
    return takes_scale_ && scalar ? std::optional(to_pl(*scalar)) : std::nullopt;
  };
  const auto divisor = passed(runs.scale.divisor), found_inf = passed(runs.scale.found_inf);
  auto args = sized<pl_update_args>();
  args.run_count = count;
  args.gradients = views.data();
  args.weights = views.data() + count;
  args.state = views.data() + 2 * count;
  args.updates = &updates;
  args.learning_rate = runs.learning_rate;
  args.weight_decay = weight_decay_;
  args.divisor = divisor ? &*divisor : nullptr;
  args.found_inf = found_inf ? &*found_inf : nullptr;
  check(slot(rule_, &args));
  return given.was_asked_for_narrow;
}

std::optional<MovingAverage> MovingAverage::take(OptimizerRule& rule) {
  const auto take = [&](const char* name) {
    const auto found = rule.options.find(name);
    if (found == rule.options.end()) fail("optimizer ", rule.name, ": option ", name, " is missing");
    const double value = found->second;
    rule.options.erase(found);
    return value;
  };
  if (!rule.options.contains("ema_decay")) return std::nullopt;
  MovingAverage average;
  average.decay_ = take("ema_decay");
  average.every_ = static_cast<int64_t>(take("ema_every"));
  average.start_ = static_cast<int64_t>(take("ema_start"));
  require_option(average.decay_ > 0 && average.decay_ < 1, "ema_decay", average.decay_,
                 "above 0 and below 1");
  require_option(average.every_ >= 1, "ema_every", static_cast<double>(average.every_), "1 or more");
  require_option(average.start_ >= 0, "ema_start", static_cast<double>(average.start_), "0 or more");
  return average;
}

// Computes the share without a look at the step count, for which the host would wait.
at::Tensor MovingAverage::share(const at::Tensor& step_count, const GradientScale& scale) const {
  const at::Tensor behind = step_count - static_cast<double>(std::max<int64_t>(start_, 1));
  const at::Tensor is_due = at::remainder(step_count - static_cast<double>(start_), every_).eq(0);
  at::Tensor share = at::where(behind.le(0), at::ones_like(step_count), is_due * (1 - decay_));
  if (scale.found_inf) share = share * (1 - *scale.found_inf);
  return share;
}

}  // namespace pipeline::strategies
