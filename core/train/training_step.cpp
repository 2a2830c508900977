#include "core/train/training_step.hpp"

#include "core/base/seed.hpp"
#include "core/train/global_outputs.hpp"

namespace pipeline::train {
namespace {

pl_train_args train_args(const Session& session, MicroBatchPlace place, const GlobalOutputs* outputs) {
  pl_train_args args{};
  args.seed = dropout_seed(session, place);
  args.step = place.step;
  args.micro_batch = place.index;
  if (outputs != nullptr) {
    args.outputs = &outputs->all();
    args.first_row = outputs->first_row(place.index);
  }
  return args;
}

pl_error* drop(void* /*user*/, const pl_gradient* gradient) noexcept {
  if (gradient->release != nullptr) gradient->release(gradient->owner);
  return nullptr;
}

}  // namespace

uint64_t dropout_seed(const Session& session, MicroBatchPlace place) {
  return derive_seed(session.run_info().seed, "dropout", place.step, place.index);
}

void train_micro_batch(Session& session, plugins::Batch& batch, MicroBatchPlace place, double weight,
                       const LossScale& loss_scale, const GlobalOutputs* outputs) {
  plugins::Strategy& strategy = session.strategy();
  pl_train_args args = train_args(session, place, outputs);
  args.scale = weight > 0 ? loss_scale.value() / weight : 0;
  args.gradients = &strategy.gradient_sink();
  const pl_tensor loss = session.task().train(batch, args);
  strategy.end_micro_batch(&loss);
  session.processes().peers().progress();
  batch = plugins::Batch();
}

void go_through_units(Session& session, const plugins::Batch& batch, MicroBatchPlace place,
                      const GlobalOutputs* outputs) {
  pl_gradient_sink nothing = session.strategy().gradient_sink();
  nothing.user = nullptr;
  nothing.ready = drop;
  pl_train_args args = train_args(session, place, outputs);
  args.gradients = &nothing;
  session.task().train(batch, args);
  session.take_metrics();
  session.read_metrics(session.take_late_metrics());
}

pl_step_args step_args(const Session& session, double learning_rate, const LossScale& loss_scale) {
  pl_step_args args{};
  args.learning_rate = learning_rate;
  args.clip_value = session.options().train.clip_grad_value;
  if (args.clip_value == 0) args.clip_norm = session.options().train.clip_grad_norm;
  args.inverse_scale = 1 / loss_scale.value();
  return args;
}

}  // namespace pipeline::train
