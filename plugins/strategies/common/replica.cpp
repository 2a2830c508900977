#include "plugins/strategies/common/replica.hpp"

#include <pipeline/torch/runtime.hpp>

#include <algorithm>
#include <utility>

#include <ATen/ops/zeros.h>

#include "plugins/strategies/common/gradient_norm.hpp"

namespace pipeline::strategies {

Replica::Replica(const Context& context, const std::vector<Parameter>& parameters,
                 const std::vector<OptimizerRule>& optimizers)
    : layout_(make_layout(parameters, context.run())),
      device_(open_device(context.run())),
      values_(layout_, to_torch(context.run().parameter_dtype), device_),
      state_(layout_, parameters) {
  apply_run_settings(context);
  master_ = values_.part(0, layout_->trainable_length());
  if (has_masters()) master_ = master_.to(at::kFloat);
  optimizer_ = std::make_unique<Optimizer>(context, optimizers, layout_, master_, 0, device_);
  if (has_masters()) optimizer_->set_narrow_weights(values_.part(0, layout_->trainable_length()));
  for (size_t i = 0; i < parameters.size(); ++i) {
    views_.emplace_back(values_.address(i), dtype_of(parameters[i], context.run()),
                        parameters[i].stored_shape(), context.run().device);
  }
}

void Replica::update(const GradientRuns& runs, double learning_rate, const LossScales& scales) {
  optimizer_->advance(scales);
  auto run = runs.begin();
  // One call for all that is updated in the same way, whatever its unit.
  std::vector<std::pair<const Group*, GradientRuns>> alike;
  for (const Group& group : layout_->groups()) {
    if (!scales[group.loss]) {
      run = std::find_if(run, runs.end(), [&](const GradientRun& next) { return next.offset >= group.end; });
      continue;
    }
    auto found = std::ranges::find_if(alike, [&](const auto& other) {
      return other.first->optimizer == group.optimizer && other.first->loss == group.loss &&
             other.first->lr_multiplier == group.lr_multiplier;
    });
    if (found == alike.end()) found = alike.insert(found, {&group, {}});
    GradientRuns& members = found->second;
    for (size_t i = group.first_slot; i < group.first_slot + group.slot_count; ++i) {
      const Slot& slot = layout_->slots()[i];
      if (run != runs.end() && run->offset == slot.offset) {
        members.push_back(*run++);
        continue;
      }
      members.push_back({slot.offset, at::zeros({slot.padded}, master_.options())});
    }
  }
  bool is_published = true;
  for (const auto& [group, members] : alike) {
    const GradientScale& scale = *scales[group->loss];
    is_published &= optimizer_->rule(*group).is_of_matrices()
                        ? update_tensors(*group, members, learning_rate, scale)
                        : optimizer_->update(*group, members, learning_rate, scale);
  }
  if (!is_published) publish();
}

bool Replica::update_tensors(const Group& group, const GradientRuns& runs, double learning_rate,
                             const GradientScale& scale) {
  const GradientRuns directions = optimizer_->directions(group, runs, scale);
  for (const auto& [offset, values] : directions) {
    const Slot& slot = layout_->slot_at(offset);
    optimizer_->rule(group).transform(values.narrow(0, 0, slot.count).view(slot.shape));
  }
  return optimizer_->update(group, directions, learning_rate, scale);
}

void Replica::publish() {
  if (has_masters()) values_.part(0, layout_->trainable_length()).copy_(master_);
}

void Replica::swap_average() {
  optimizer_->swap_average();
  publish();
}

std::vector<ArenaPart> Replica::frozen() const {
  std::vector<ArenaPart> parts;
  for (const Stored how : kStoredWays) {
    const int64_t begin = std::max(layout_->begin(how), layout_->trainable_length());
    parts.push_back({"value", begin, values_.part(begin, layout_->end(how) - begin)});
  }
  return parts;
}

void Replica::load(const StateReader& reader) {
  state_.read(reader, {"value", 0, master_});
  for (const ArenaPart& part : frozen()) state_.read(reader, part);
  publish();
  optimizer_->load(state_, reader);
  optimizer_->set_step_counts(state_.read_step_counts(reader));
}

std::unique_ptr<Snapshot> Replica::snapshot(uint32_t mode) const {
  std::vector<ArenaPart> parts{{"value", 0, master_}};
  if ((mode & PL_SNAPSHOT_TRAINED) == 0)
    for (ArenaPart& part : frozen()) parts.push_back(std::move(part));
  for (ArenaPart& part : optimizer_->state()) parts.push_back(std::move(part));
  return state_.snapshot(std::move(parts), optimizer_->step_counts(), (mode & PL_SNAPSHOT_COPY) != 0);
}

std::vector<at::Tensor> Replica::tensors() const {
  std::vector<at::Tensor> tensors{master_};
  for (const ArenaPart& part : frozen()) tensors.push_back(part.values);
  tensors.push_back(optimizer_->step_counts());
  for (at::Tensor& tensor : optimizer_->state_tensors()) tensors.push_back(std::move(tensor));
  return tensors;
}

void Replica::visit_parameters(const MemoryVisitor& visit) const {
  visit("parameters", values_.bytes());
  if (has_masters() && trainable_bytes() > 0) visit("master weights", trainable_bytes());
}

void Replica::visit_optimizer(const MemoryVisitor& visit) const {
  if (trainable_bytes() > 0) visit("optimizer state", optimizer_->state_bytes());
}

uint64_t Replica::trainable_bytes() const {
  return static_cast<uint64_t>(layout_->trainable_length()) * sizeof(float);
}

uint64_t finish_step(Replica& replica, const StepSums& sums, const pl_step_args& args, bool fixed_order,
                     ReportQueue& reports) {
  const at::Device device = replica.device();
  // The chunks cost nothing on the CPU, elsewhere a copy.
  const Layout& layout = *replica.layout();
  const bool chunked = device.is_cpu() || fixed_order || layout.losses() > 1;
  const at::Tensor squares =
      chunked ? squares_by_loss(chunk_sums(sums.gradients, 0, layout.trainable_length(), device), layout)
              : sum_of_squares(sums.gradients, device).view({1});
  const Verdict verdict = judge(squares, args);
  if (!verdict.skip) replica.update(sums.gradients, args.learning_rate, verdict.scales);
  return reports.push(sums.loss, verdict.grad_norm, verdict.finite);
}

}  // namespace pipeline::strategies
