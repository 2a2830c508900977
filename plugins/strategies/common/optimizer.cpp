#include "plugins/strategies/common/optimizer.hpp"

#include <algorithm>
#include <utility>

#include <pipeline/error.hpp>

#include <ATen/ops/lerp.h>
#include <ATen/ops/zeros.h>

namespace pipeline::strategies {

Optimizer::Optimizer(const std::vector<OptimizerRule>& rules, std::shared_ptr<const Layout> layout,
                     at::Tensor master, int64_t begin, StateIn state_in)
    : layout_(std::move(layout)),
      master_(std::move(master)),
      begin_(begin),
      step_count_(at::zeros({}, master_.options())) {
  if (rules.empty()) fail("there is no optimizer");
  for (OptimizerRule rule : rules) {
    average_ = MovingAverage::take(rule);
    rules_.push_back(make_rule(rule));
  }
  make_segments(state_in);
}

// What lies between groups belongs to the segment before it: it is zero, as its gradients are.
void Optimizer::make_segments(StateIn state_in) {
  const int64_t end = begin_ + master_.numel();
  for (const Group& group : layout_->groups()) {
    if (group.end <= begin_ || group.begin >= end) continue;
    std::vector<std::string> kinds = rules_.at(group.optimizer)->kinds();
    if (!segments_.empty() && segments_.back().kinds == kinds) continue;
    const int64_t first = segments_.empty() ? begin_ : group.begin;
    if (!segments_.empty()) segments_.back().end = first;
    segments_.push_back({.begin = first, .end = end, .kinds = std::move(kinds), .state = {}});
  }
  at::TensorOptions options = master_.options();
  if (state_in == StateIn::kPinnedHost) options = options.device(at::kCPU).pinned_memory(true);
  for (Segment& segment : segments_)
    for (size_t i = 0; i < segment.kinds.size() + (average_ ? 1 : 0); ++i)
      segment.state.push_back(at::zeros({segment.end - segment.begin}, options));
}

std::vector<OptimizerState> Optimizer::state() const {
  std::vector<OptimizerState> all;
  for (const Segment& segment : segments_)
    for (size_t i = 0; i < segment.state.size(); ++i)
      all.push_back({i < segment.kinds.size() ? segment.kinds[i] : MovingAverage::kKind, segment.begin,
                     segment.state[i]});
  return all;
}

uint64_t Optimizer::state_bytes() const {
  uint64_t bytes = 0;
  for (const OptimizerState& state : state()) bytes += state.values.nbytes();
  return bytes;
}

void Optimizer::advance(const GradientScale& scale) {
  step_count_.add_(1);
  if (scale.found_inf) step_count_.sub_(*scale.found_inf);
  if (average_) share_ = average_->share(step_count_, scale);
}

const Optimizer::Segment& Optimizer::segment_of(int64_t offset) const {
  return *std::prev(std::ranges::upper_bound(segments_, offset, {}, &Segment::begin));
}

const Optimizer::Views& Optimizer::views_of(const GradientRun& run) {
  const int64_t count = run.gradient.numel();
  const auto [found, is_new] = views_.try_emplace({run.offset, count});
  if (is_new) {
    found->second.weights = master_.narrow(0, run.offset - begin_, count);
    const Segment& segment = segment_of(run.offset);
    for (const at::Tensor& state : segment.state)
      found->second.state.push_back(state.narrow(0, run.offset - segment.begin, count));
  }
  return found->second;
}

template <class Apply>
void Optimizer::with_update(const Group& group, const GradientRuns& runs, double learning_rate,
                            const GradientScale& scale, const Apply& apply) {
  const UpdateRule& rule = *rules_.at(group.optimizer);
  Update update{.weights = {},
                .gradients = {},
                .state = {},
                .learning_rate = learning_rate * group.lr_multiplier,
                .step_count = step_count_,
                .scale = scale};
  const size_t kinds = rule.kinds().size();
  update.state.resize(kinds);
  std::vector<std::vector<at::Tensor>> home(kinds);  // the state where it is kept
  for (const GradientRun& run : runs) {
    if (run.gradient.numel() == 0) continue;
    const Views& views = views_of(run);
    update.weights.push_back(views.weights);
    update.gradients.push_back(run.gradient);
    for (size_t i = 0; i < kinds; ++i) {
      home[i].push_back(views.state[i]);
      update.state[i].push_back(home[i].back().to(master_.device(), /*non_blocking=*/true));
    }
  }
  if (update.weights.empty()) return;
  apply(rule, update);
  for (size_t i = 0; i < kinds; ++i) {
    for (size_t run = 0; run < home[i].size(); ++run) {
      const at::Tensor& updated = update.state[i][run];
      if (!home[i][run].is_same(updated)) home[i][run].copy_(updated, /*non_blocking=*/true);
    }
  }
}

void Optimizer::add_to_average(const GradientRuns& runs) {
  if (!average_) return;
  for (const GradientRun& run : runs) {
    if (run.gradient.numel() == 0) continue;
    const Views& views = views_of(run);
    at::Tensor average = views.state.back();
    average.copy_(at::lerp(average.to(master_.device()), views.weights, share_));
  }
}

void Optimizer::swap_average() {
  if (!average_ || step_count_.item<float>() == 0) return;
  constexpr int64_t kMost = int64_t{1} << 20;  // elements at a time
  for (const Segment& segment : segments_) {
    for (int64_t begin = segment.begin; begin < segment.end; begin += kMost) {
      const int64_t length = std::min(kMost, segment.end - begin);
      at::Tensor weights = master_.narrow(0, begin - begin_, length);
      at::Tensor average = segment.state.back().narrow(0, begin - segment.begin, length);
      const at::Tensor kept = weights.clone();
      weights.copy_(average);
      average.copy_(kept);
    }
  }
}

void Optimizer::update(const Group& group, const GradientRuns& runs, double learning_rate,
                       const GradientScale& scale) {
  with_update(group, runs, learning_rate, scale,
              [](const UpdateRule& rule, const Update& update) { rule.apply(update); });
  add_to_average(runs);
}

std::vector<at::Tensor> Optimizer::directions(const Group& group, const GradientRuns& runs,
                                              const GradientScale& scale) {
  std::vector<at::Tensor> all;
  with_update(group, runs, 0, scale, [&](const UpdateRule& rule, const Update& update) {
    all = rule.of_tensors()->directions(update);
  });
  return all;
}

void Optimizer::update(const Group& group, const GradientRuns& runs,
                       const std::vector<at::Tensor>& transformed, double learning_rate,
                       const GradientScale& scale) {
  with_update(group, runs, learning_rate, scale, [&](const UpdateRule& rule, const Update& update) {
    rule.of_tensors()->move(update, transformed);
  });
  add_to_average(runs);
}

}  // namespace pipeline::strategies
