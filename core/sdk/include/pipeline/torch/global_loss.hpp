// A task whose samples' losses depend on what the model makes of all samples of the step, in whatever
// micro-batches and on whatever ranks these are: contrastive learning with the global batch as negatives.
//
//   class Pairs : public pipeline::GlobalLossTask<Config, Model, Batch> {
//     ...
//     int64_t output_width() const override { return 2 * config().dim; }
//     at::Tensor outputs(const Batch& batch) override {            // (B, 2 D)
//       return at::cat({model().left(batch.x), model().right(batch.y)}, 1);
//     }
//     at::Tensor global_loss(const at::Tensor& outputs) override {  // (G, 2 D) -> (G)
//       const at::Tensor logits = at::mm(outputs.narrow(1, 0, D), outputs.narrow(1, D, D).t());
//       return -at::log_softmax(logits, 1).diagonal();
//     }
//   };
//
// The loss and its gradients are those of the global batch as one, to rounding, and under run.reproducible to
// the bit on any number of processes. A step of several micro-batches costs one forward pass more (GradCache,
// Gao et al., arXiv 2101.06983); one of a single micro-batch costs nothing more.
#pragma once

#include <pipeline/namespace.hpp>
#include <pipeline/torch/task.hpp>

#include <torch/csrc/autograd/autograd.h>

#include <ATen/ops/empty.h>

#include <cstdint>

PIPELINE_SDK_BEGIN

// The losses of some rows, and the gradient of the losses of ALL rows in these.
struct RowLoss {
  at::Tensor sum;       // scalar
  at::Tensor gradient;  // (rows, K)
};

template <class ConfigT, class ModelT, class BatchT>
class GlobalLossTask : public TorchTask<ConfigT, ModelT, BatchT> {
  using Base = TorchTask<ConfigT, ModelT, BatchT>;

 public:
  using Base::Base;
  using typename Base::Batch;
  static constexpr bool kHasGlobalLoss = true;

  // K, the same on all ranks.
  virtual int64_t output_width() const = 0;
  // Forward pass: a row of K a sample, in the order of the batch's ids. All that the loss depends on is in
  // it: a temperature multiplies outputs, and what else is learnt of the loss has a column of its own.
  virtual at::Tensor outputs(const Batch& batch) = 0;
  // The losses of all samples, (G), each of which may depend on all rows of (G, K), float32; differentiable.
  // An evaluation passes a batch's samples alone.
  virtual at::Tensor global_loss(const at::Tensor& outputs) = 0;
  // What row_loss() needs of all rows: once a step, on each rank. The default runs global_loss() and its
  // gradient; override both where these take too long, or (G, G) is too large.
  virtual void begin_rows(const at::Tensor& outputs) {
    const at::AutoGradMode on(true);
    const at::Tensor leaf = outputs.detach().requires_grad_();
    const at::Tensor losses = checked(global_loss(leaf), outputs.size(0));
    gradient_ = torch::autograd::grad({losses.sum()}, {leaf})[0];
    losses_ = losses.detach();
  }
  // The losses of rows first ... first + count - 1, and the gradient of all losses in these rows.
  virtual RowLoss row_loss(const at::Tensor& /*outputs*/, int64_t first, int64_t count) {
    return {losses_.narrow(0, first, count).sum(), gradient_.narrow(0, first, count)};
  }

  // ------------------------------------------------------------ implements Task; not called by authors

  pl_tensor make_room(uint64_t rows) final {
    has_begun_ = false;
    room_ = at::empty({static_cast<int64_t>(rows), output_width()},
                      at::TensorOptions(this->device()).dtype(at::kFloat));
    return to_pl(room_);
  }

  void write_outputs(const Batch& batch, const OutputsArgs& args) final {
    this->without_backward(batch, args.seed, [&](const Batch& b) {
      const at::Tensor own = checked_outputs(b);
      room_.narrow(0, static_cast<int64_t>(args.first_row), own.size(0)).copy_(own);
    });
  }

  LossSum train_batch(const Batch& batch, const TrainArgs& args) final {
    first_row_ = static_cast<int64_t>(args.first_row);
    is_whole_step_ = args.outputs == nullptr;
    return Base::train_batch(batch, args);
  }

  LossSum loss(const Batch& batch) final {
    const at::Tensor own = checked_outputs(batch).to(at::kFloat);
    AutocastScope in_float32({own.device().type(), false});
    if (!this->is_training()) return LossSum(checked(global_loss(own), own.size(0)).sum());
    const at::Tensor all = is_whole_step_ ? own.detach() : room_;
    if (is_whole_step_ || !has_begun_) begin_rows(all);
    has_begun_ = !is_whole_step_;
    const RowLoss part = row_loss(all, is_whole_step_ ? 0 : first_row_, own.size(0));
    return LossSum(part.sum, (own * part.gradient).sum() * this->pass().scale);
  }

 private:
  at::Tensor checked_outputs(const Batch& batch) {
    at::Tensor own = outputs(batch);
    const auto samples = static_cast<int64_t>(this->batch_info(batch).samples);
    if (own.dim() != 2 || own.size(0) != samples || own.size(1) != output_width())
      fail("outputs() returned shape ", name_of(shape_of(own)), ", expected (", samples, ", ", output_width(),
           "): a row of output_width() for each of the batch's samples");
    return own;
  }
  static at::Tensor checked(at::Tensor losses, int64_t rows) {
    if (losses.dim() != 1 || losses.size(0) != rows)
      fail("global_loss() returned shape ", name_of(shape_of(losses)), ", expected (", rows,
           "): a loss of each row");
    return losses;
  }

  at::Tensor room_;               // of the step, all rows
  at::Tensor losses_, gradient_;  // of all rows
  bool has_begun_ = false;        // with them
  int64_t first_row_ = 0;         // of the batch that is trained
  bool is_whole_step_ = false;
};

PIPELINE_SDK_END
