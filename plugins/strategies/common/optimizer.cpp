#include "plugins/strategies/common/optimizer.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include <pipeline/error.hpp>
#include <pipeline/torch/tensor.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

namespace pipeline::strategies {

Optimizer::Optimizer(const Context& context, const std::vector<OptimizerRule>& rules,
                     std::shared_ptr<const Layout> layout, at::Tensor master, int64_t begin,
                     at::Device device, bool state_on_host)
    : layout_(std::move(layout)),
      shares_(layout_->losses()),
      master_(std::move(master)),
      begin_(begin),
      device_(device),
      step_counts_(at::zeros({static_cast<int64_t>(layout_->losses())},
                             at::TensorOptions().dtype(at::kFloat).device(device))),
      counts_(step_counts_.unbind()) {
  if (rules.empty()) fail("there is no optimizer");
  for (OptimizerRule rule : rules) {
    average_ = MovingAverage::take(rule);
    rules_.emplace_back(context, std::move(rule));
  }
  make_segments(state_on_host);
}

// What lies between groups belongs to the segment before it: it is zero, as its gradients are.
void Optimizer::make_segments(bool on_host) {
  const int64_t end = begin_ + master_.numel();
  for (const Group& group : layout_->groups()) {
    if (group.end <= begin_ || group.begin >= end) continue;
    std::vector<StateKind> kinds = rule(group).kinds();
    if (!segments_.empty() && segments_.back().loss == group.loss && segments_.back().kinds == kinds)
      continue;
    const int64_t first = segments_.empty() ? begin_ : group.begin;
    if (!segments_.empty()) segments_.back().end = first;
    segments_.push_back(
        {.begin = first, .end = end, .loss = group.loss, .kinds = std::move(kinds), .state = {}});
  }
  auto options = at::TensorOptions().dtype(at::kFloat).device(device_);
  if (on_host) options = options.device(at::kCPU).pinned_memory(true);
  for (Segment& segment : segments_)
    for (size_t i = 0; i < segment.kinds.size() + (average_ ? 1 : 0); ++i)
      segment.state.push_back(make_state(segment.kind(i).form, segment.end - segment.begin, options));
}

namespace {

// Calls visit(begin, length) for pieces of which a copy takes little memory.
void in_pieces(int64_t length, const std::function<void(int64_t, int64_t)>& visit) {
  constexpr int64_t kMost = int64_t{1} << 20;  // a multiple of kBlock
  for (int64_t begin = 0; begin < length; begin += kMost) visit(begin, std::min(kMost, length - begin));
}

// A float32 copy in host memory, where snapshots are.
at::Tensor widened_copy(StateForm form, const Kept& kept) {
  at::Tensor wide = at::empty(kept.values.sizes(), at::kFloat);
  in_pieces(wide.numel(), [&](int64_t begin, int64_t length) {
    wide.narrow(0, begin, length).copy_(widened(form, narrow_state(kept, begin, length)));
  });
  return wide;
}

}  // namespace

std::vector<ArenaPart> Optimizer::state() const {
  std::vector<ArenaPart> all;
  for (const Segment& segment : segments_)
    for (size_t i = 0; i < segment.state.size(); ++i) {
      const auto& [name, form] = segment.kind(i);
      if (name == MovingAverage::kKind && counts_[segment.loss].item<float>() == 0)
        // An average that no update has begun is the weights.
        all.push_back(
            {name, segment.begin, master_.narrow(0, segment.begin - begin_, segment.end - segment.begin)});
      else if (has_scales(form))
        all.push_back({name, segment.begin, widened_copy(form, segment.state[i]), /*is_copy=*/true});
      else
        all.push_back({name, segment.begin, segment.state[i].values});
    }
  return all;
}

void Optimizer::load(const ArenaState& arena, const StateReader& reader) {
  for (const Segment& segment : segments_)
    for (size_t i = 0; i < segment.state.size(); ++i) {
      const StateKind kind = segment.kind(i);
      const Kept& kept = segment.state[i];
      kept.values.zero_();
      if (kept.scales.defined()) kept.scales.zero_();
      if (reader.values_only()) continue;
      if (kind.form == StateForm::kFloat32) {
        arena.read(reader, {kind.name, segment.begin, kept.values});
        continue;
      }
      in_pieces(kept.values.numel(), [&](int64_t begin, int64_t length) {
        const Kept piece = narrow_state(kept, begin, length);
        const at::Tensor wide = at::zeros_like(piece.values, at::kFloat);
        arena.read(reader, {kind.name, segment.begin + begin, wide});
        narrow_to(kind.form, wide, {}, piece);
      });
    }
}

std::vector<at::Tensor> Optimizer::state_tensors() const {
  std::vector<at::Tensor> all;
  for (const Segment& segment : segments_)
    for (const Kept& kept : segment.state) {
      all.push_back(kept.values);
      if (kept.scales.defined()) all.push_back(kept.scales);
    }
  return all;
}

uint64_t Optimizer::state_bytes() const {
  uint64_t bytes = 0;
  for (const at::Tensor& tensor : state_tensors()) bytes += tensor.nbytes();
  return bytes;
}

pl_dtype Optimizer::state_dtype() const {
  pl_dtype least = kFloat32;
  for (const Segment& segment : segments_)
    for (const StateKind& kind : segment.kinds)
      if (const pl_dtype dtype = to_pl(dtype_of(kind.form)); dtype.bits < least.bits) least = dtype;
  return least;
}

void Optimizer::advance(const LossScales& scales) {
  for (size_t loss = 0; loss < counts_.size(); ++loss) {
    const std::optional<GradientScale>& scale = scales.at(loss);
    if (!scale) continue;
    counts_[loss].add_(1);
    if (scale->found_inf) counts_[loss].sub_(*scale->found_inf);
    if (average_) shares_[loss] = average_->share(counts_[loss], *scale);
  }
}

const Optimizer::Segment& Optimizer::segment_of(int64_t offset) const {
  return *std::prev(std::ranges::upper_bound(segments_, offset, {}, &Segment::begin));
}

UpdateRuns::Place Optimizer::place_of(int64_t offset) const {
  const Region& region =
      *std::ranges::partition_point(layout_->regions(), [&](const Region& r) { return r.end <= offset; });
  return {region.unit, offset - region.begin};
}

const Optimizer::Views& Optimizer::views_of(const GradientRun& run) {
  const int64_t count = run.gradient.numel();
  const auto [found, is_new] = views_.try_emplace({run.offset, count});
  if (is_new) {
    found->second.weights = master_.narrow(0, run.offset - begin_, count);
    if (narrow_.defined()) found->second.narrow = narrow_.narrow(0, run.offset - begin_, count);
    const Segment& segment = segment_of(run.offset);
    for (const Kept& state : segment.state)
      found->second.state.push_back(narrow_state(state, run.offset - segment.begin, count));
    found->second.place = place_of(run.offset);
  }
  return found->second;
}

Optimizer::Called Optimizer::call(Slot slot, const Group& group, GradientRuns runs, double learning_rate,
                                  const GradientScale& scale) {
  std::erase_if(runs, [](const GradientRun& run) { return run.gradient.numel() == 0; });
  if (runs.empty()) return {std::move(runs), true};
  const size_t count = runs.size(), kinds = rule(group).kinds().size();
  UpdateRuns update{.count = count,
                    .values = std::vector<at::Tensor>((2 + kinds) * count),
                    .scales = std::vector<at::Tensor>(kinds * count),
                    .learning_rate = learning_rate * group.lr_multiplier,
                    .step_count = counts_[group.loss],
                    .scale = scale};
  std::vector<std::pair<at::Tensor, at::Tensor>> away;  // what is kept on the host, and on the device
  const auto on_device = [&](const at::Tensor& home) {
    at::Tensor here = home.defined() ? home.to(device_, /*non_blocking=*/true) : home;
    if (!home.is_same(here)) away.emplace_back(home, here);
    return here;
  };
  for (size_t run = 0; run < count; ++run) {
    const Views& views = views_of(runs[run]);
    update.values[run] = runs[run].gradient;
    update.values[count + run] = on_device(views.weights);
    if (views.narrow.defined()) update.narrow.push_back(views.narrow);
    update.places.push_back(views.place);
    for (size_t i = 0; i < kinds; ++i) {
      update.values[(2 + i) * count + run] = on_device(views.state[i].values);
      update.scales[i * count + run] = on_device(views.state[i].scales);
    }
  }
  (rule(group).*slot)(update);
  for (auto& [home, updated] : away) home.copy_(updated, /*non_blocking=*/true);
  for (size_t run = 0; run < count; ++run) runs[run].gradient = std::move(update.values[run]);
  return {std::move(runs), update.wrote_narrow};
}

void Optimizer::add_to_average(const Group& group, const GradientRuns& runs) {
  if (!average_) return;
  const at::Tensor& share = shares_[group.loss];
  for (const GradientRun& run : runs) {
    if (run.gradient.numel() == 0) continue;
    const Views& views = views_of(run);
    at::Tensor average = views.state.back().values;
    if (average.device() == views.weights.device() && average.device() == device_)
      average.lerp_(views.weights, share);
    else  // one of them is on the host
      average.copy_(at::lerp(average.to(device_), views.weights.to(device_), share));
  }
}

void Optimizer::swap_average() {
  if (!average_) return;
  for (const Segment& segment : segments_) {
    if (counts_[segment.loss].item<float>() == 0) continue;
    in_pieces(segment.end - segment.begin, [&](int64_t begin, int64_t length) {
      at::Tensor weights = master_.narrow(0, segment.begin + begin - begin_, length);
      at::Tensor average = segment.state.back().values.narrow(0, begin, length);
      const at::Tensor kept = weights.clone();
      weights.copy_(average);
      average.copy_(kept);
    });
  }
}

// Limits gradients in place where that is asked for. Returns what is left to do to them.
GradientScale Optimizer::limit(const GradientRuns& runs, GradientScale scale) {
  if (scale.limit == 0) return scale;
  for (const GradientRun& run : runs) {
    at::Tensor gradient = run.gradient;
    if (scale.divisor) gradient.div_(*scale.divisor);
    gradient.clamp_(-scale.limit, scale.limit);
  }
  scale.divisor.reset();
  return scale;
}

bool Optimizer::update(const Group& group, const GradientRuns& runs, double learning_rate,
                       const GradientScale& scale) {
  // What is transformed was scaled and limited before.
  const bool is_raw = !rule(group).is_of_matrices();
  const Called called =
      call(&UpdateRule::update, group, runs, learning_rate,
           is_raw ? limit(runs, scale) : GradientScale{.divisor = {}, .found_inf = scale.found_inf});
  add_to_average(group, runs);
  return called.wrote_narrow;
}

GradientRuns Optimizer::directions(const Group& group, const GradientRuns& runs, const GradientScale& scale) {
  return call(&UpdateRule::directions, group, runs, 0, limit(runs, scale)).runs;
}

}  // namespace pipeline::strategies
