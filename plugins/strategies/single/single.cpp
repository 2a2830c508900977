#include "plugins/strategies/single/single.hpp"

#include <algorithm>
#include <utility>

#include <pipeline/torch/runtime.hpp>

#include "plugins/strategies/common/peak_flops.hpp"
#include "plugins/strategies/common/adopt.hpp"
#include "plugins/strategies/common/gradient_norm.hpp"
#include "plugins/strategies/common/verdict.hpp"

namespace pipeline::strategies {
namespace {

constexpr uint64_t kFloatBytes = sizeof(float);

void add_loss(at::Tensor& into, at::Tensor&& right) {
  if (!into.defined()) {
    into = std::move(right);
  } else if (right.defined()) {
    into.add_(right);
  }
}

// Where nothing is trained there is nothing but values.
std::shared_ptr<const Layout> make_layout(std::vector<Parameter> parameters, const pl_run_info& run) {
  if (run.world_size > 1) {
    fail_with(PL_ERROR_CONFIG, "works with one process, this run has ", run.world_size,
              ": use strategy.plugin = \"ddp\" (or \"auto\"), or launch.processes = 1");
  }
  if (same(run.parameter_dtype, kFloat64)) {
    fail_with(PL_ERROR_UNSUPPORTED, "parameters in float64: must be float32, bfloat16 or float16");
  }
  if (run.purpose != PL_PURPOSE_TRAIN) {
    for (Parameter& parameter : parameters) parameter.trainable = false;
  }
  return std::make_shared<const Layout>(parameters);
}

}  // namespace

const void* Single::query(std::string_view extension) {
  return extension == PL_EXTENSION_PEAK_FLOPS ? peak_flops_extension() : nullptr;
}

Single::Single(Setup setup)
    : Strategy(std::move(setup)),
      layout_(make_layout(parameters(), run())),
      device_(open_device(run().device)),
      values_(at::zeros({std::max(layout_->length(), kChunk)},
                        at::TensorOptions().dtype(to_torch(run().parameter_dtype)).device(device_))),
      state_(layout_, parameters()),
      gradients_(layout_, context().reproducible()),
      loss_(add_loss) {
  apply_run_settings(context());
  master_ = values_.narrow(0, 0, layout_->trainable_length());
  if (has_masters()) master_ = master_.to(at::kFloat);
  optimizer_ = Optimizer::create(optimizer(), master_, 0);
  for (size_t i = 0; i < parameters().size(); ++i) {
    auto* base = static_cast<std::byte*>(values_.mutable_data_ptr());
    const int64_t offset = layout_->slot_of(i).offset * static_cast<int64_t>(values_.element_size());
    views_.emplace_back(base + offset, run().parameter_dtype, parameters()[i].shape, run().device);
  }
}

pl_strategy_info Single::info() {
  auto info = sized<pl_strategy_info>();
  info.micro_batch_order = PL_ORDER_BLOCK;
  info.gradient_dtype = info.reduction_dtype = info.master_dtype = info.optimizer_dtype = kFloat32;
  return info;
}

Single::Storage Single::storage(uint64_t index) {
  const pl_tensor value = views_[index].get();
  pl_tensor grad = value;
  grad.data = nullptr;  // hand over
  return {value, grad};
}

void Single::begin_step(uint64_t micro_batches) {
  if (micro_batches == 0) fail("begin_step: 0 micro-batches, must be at least 1");
  expected_ = micro_batches;
  seen_ = 0;
  gradients_.clear();  // of a step that was given up
  loss_.clear();
}

void Single::gradient_ready(Gradient gradient) {
  if (gradient.index() >= parameters().size()) {
    fail("gradient of parameter ", gradient.index(), " of ", parameters().size());
  }
  const Parameter& parameter = parameters()[gradient.index()];
  const pl_tensor& tensor = gradient.tensor();
  if (seen_ >= expected_) fail("gradient of ", parameter.name, " outside of a micro-batch");
  const size_t slot = layout_->slot_index(gradient.index());
  if (slot >= layout_->trainable_slots()) fail("gradient of ", parameter.name, ", which is frozen");
  if (!std::ranges::equal(shape_of(tensor), parameter.shape)) {
    fail("gradient of ", parameter.name, " has shape ", name_of(shape_of(tensor)), ", expected ",
         name_of(parameter.shape));
  }
  if (parameter.count() == 0) return;
  if (to_torch(tensor.device) != device_) {
    fail("gradient of ", parameter.name, " is on ", name_of(tensor.device), ", expected ",
         name_of(run().device));
  }
  const at::NoGradGuard no_grad;
  const StreamScope stream(device_, gradient.stream());
  const bool owned = gradient.is_handed_over();
  gradients_.add(slot, owned ? adopt(gradient) : to_torch(tensor), owned);
}

void Single::end_micro_batch(const pl_tensor* loss) {
  if (seen_ >= expected_) fail("end_micro_batch: the step has ", expected_, " micro-batches");
  const at::NoGradGuard no_grad;
  gradients_.end_micro_batch();
  loss_.push(loss ? to_torch(*loss).reshape({}).to(at::kDouble, /*non_blocking=*/false, /*copy=*/true)
                  : at::Tensor());
  ++seen_;
}

uint64_t Single::step(const pl_step_args& args) {
  if (expected_ == 0 || seen_ != expected_) fail("step: after ", seen_, " of ", expected_, " micro-batches");
  expected_ = seen_ = 0;
  const at::NoGradGuard no_grad;
  const StreamScope stream(device_, args.stream);
  const GradientRuns runs = gradients_.finish();
  // The chunks cost nothing on the CPU, elsewhere a copy.
  const bool chunked = device_.is_cpu() || context().reproducible();
  const at::Tensor squares = chunked ? in_order_sum(chunk_sums(runs, 0, layout_->trainable_length(), device_))
                                     : sum_of_squares(runs, device_);
  const Verdict verdict = judge(squares, args);
  if (!verdict.skip) update(runs, args.learning_rate, verdict.scale);
  at::Tensor loss = loss_.finish();
  if (!loss.defined()) loss = at::zeros({}, verdict.grad_norm.options());
  return reports_.push(loss, verdict.grad_norm, verdict.finite);
}

void Single::update(const GradientRuns& runs, double learning_rate, const GradientScale& scale) {
  optimizer_->advance(scale);
  auto run = runs.begin();
  at::Tensor zeros;
  for (const Group& group : layout_->groups()) {
    GradientRuns members;
    for (size_t i = group.first_slot; i < group.first_slot + group.slot_count; ++i) {
      const Slot& slot = layout_->slots()[i];
      if (run != runs.end() && run->offset == slot.offset) {
        members.push_back(*run++);
        continue;
      }
      if (!zeros.defined() || zeros.numel() < slot.padded)
        zeros = at::zeros({slot.padded}, master_.options());
      members.push_back({slot.offset, zeros.narrow(0, 0, slot.padded)});
    }
    optimizer_->update(group, members, learning_rate, scale);
  }
  publish();
}

void Single::publish() {
  if (has_masters()) values_.narrow(0, 0, layout_->trainable_length()).copy_(master_);
}

pl_step_report Single::collect(uint64_t ticket) { return reports_.collect(ticket); }

ArenaPart Single::frozen() const {
  const int64_t begin = layout_->trainable_length();
  return {"value", begin, values_.narrow(0, begin, layout_->length() - begin)};
}

std::vector<ArenaPart> Single::optimizer_parts() const {
  std::vector<ArenaPart> parts;
  for (const OptimizerState& state : optimizer_->state()) parts.push_back({state.kind, 0, state.values});
  return parts;
}

void Single::load_state(const StateReader& reader) {
  const at::NoGradGuard no_grad;
  state_.read(reader, {"value", 0, master_});
  state_.read(reader, frozen());
  publish();
  for (const ArenaPart& part : optimizer_parts()) {
    if (reader.values_only()) {
      part.values.zero_();
    } else {
      state_.read(reader, part);
    }
  }
  optimizer_->set_step_count(reader.values_only() ? 0 : ArenaState::read_step_count(reader));
}

std::unique_ptr<Snapshot> Single::snapshot(uint32_t mode) {
  const at::NoGradGuard no_grad;
  std::vector<ArenaPart> parts = optimizer_parts();
  parts.insert(parts.begin(), {{"value", 0, master_}, frozen()});
  return state_.snapshot(std::move(parts), optimizer_->step_count(), mode == PL_SNAPSHOT_COPY);
}

void Single::memory(const MemoryVisitor& visit) {
  const auto trainable = static_cast<uint64_t>(layout_->trainable_length()) * kFloatBytes;
  visit("parameters", values_.nbytes());
  if (trainable == 0) return;
  if (has_masters()) visit("master weights", trainable);
  visit("gradients", trainable);
  if (const uint64_t copies = tree_copies(run().micro_batches); context().reproducible() && copies > 1) {
    visit("gradients of the sum tree", (copies - 1) * trainable);
  }
  visit("optimizer state", optimizer_->state().size() * trainable);
}

}  // namespace pipeline::strategies
