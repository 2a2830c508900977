// Theirs: c10d's Reducer over Gloo, as torch.nn.parallel.DistributedDataParallel drives it with
// gradient_as_bucket_view = True, the faster way, and AdamW(fused=True) over lists of tensors.
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "job.hpp"

namespace bench {
namespace {

constexpr int64_t kFirstBucket = 1 << 20, kBucket = 25 << 20;  // bytes: DistributedDataParallel's defaults

c10::intrusive_ptr<c10d::ProcessGroup> open_group(const Job& job) {
  const auto [gloo, store] = c10d_gloo(job.place);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, job.place.rank, job.place.ranks);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  return group;
}

class Theirs : public Contestant {
 public:
  explicit Theirs(const Job& job)
      : job_(job), model_(make_model(job)), parameters_(tensors_of(*model_)), group_(open_group(job)) {
    for (const at::Tensor& parameter : parameters_) {
      first_.push_back(at::zeros_like(parameter));
      second_.push_back(at::zeros_like(parameter));
      steps_.push_back(at::zeros({}));
    }
    const std::vector<bool> dense(parameters_.size(), false);
    auto [buckets, limits] =
        c10d::compute_bucket_assignment_by_size(parameters_, {size_t{kFirstBucket}, size_t{kBucket}}, dense);
    std::reverse(buckets.begin(), buckets.end());
    reducer_ =
        std::make_shared<c10d::Reducer>(parameters_, buckets, group_, dense, kBucket,
                                        /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/true,
                                        std::unordered_map<size_t, std::string>(), kFirstBucket,
                                        /*skip_all_reduce_unused_params=*/false,
                                        /*use_python_reducer=*/false, std::vector<int64_t>());
  }

  std::string name() const override { return "PyTorch DDP over Gloo"; }

  double step(const Batch& batch) override {
    reducer_->rebuild_buckets();
    reducer_->prepare_for_forward();
    // The Reducer averages gradients over the ranks; ours adds them.
    const auto loss = model_->loss(batch.packed, {.scale = job_.place.ranks / batch.weight});
    reducer_->prepare_for_backward({});
    loss.scaled.backward();
    const at::NoGradGuard no_grad;
    update();
    std::vector<at::Tensor> sum{loss.sum.to(at::kDouble)};
    group_->allreduce(sum)->wait();
    return sum[0].item<double>() / batch.weight;
  }

 private:
  void update() {
    std::vector<at::Tensor> gradients;
    for (at::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
    if (job_.clip > 0) {
      const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients)), 2);
      at::_foreach_mul_(gradients, (job_.clip / (norm + 1e-6)).clamp_max_(1.0));
    }
    for (at::Tensor& step : steps_) step.add_(1);
    for (const bool decays : {true, false}) {
      std::vector<at::Tensor> values, mine, first, second, steps;
      for (size_t i = 0; i < parameters_.size(); ++i) {
        if ((parameters_[i].dim() >= 2) != decays) continue;
        values.push_back(parameters_[i].detach());
        mine.push_back(gradients[i]);
        first.push_back(first_[i]);
        second.push_back(second_[i]);
        steps.push_back(steps_[i]);
      }
      at::_fused_adamw_(values, mine, first, second, {}, steps, kRate, kBeta1, kBeta2, decays ? kDecay : 0,
                        kEpsilon,
                        /*amsgrad=*/false, /*maximize=*/false);
    }
    for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();  // zero_grad()
  }

  Job job_;
  std::unique_ptr<pipeline::language::LanguageModel> model_;
  std::vector<at::Tensor> parameters_, first_, second_, steps_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::shared_ptr<c10d::Reducer> reducer_;
};

}  // namespace

std::unique_ptr<Contestant> theirs(const Job& job) { return std::make_unique<Theirs>(job); }

}  // namespace bench
