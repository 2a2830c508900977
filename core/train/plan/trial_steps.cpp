#include "core/train/plan/trial_steps.hpp"

#include "core/base/error.hpp"
#include "core/base/seed.hpp"
#include "core/train/run/measures.hpp"

namespace pipeline::train {

TrialSteps::TrialSteps(Session& session) : session_(session), loss_scale_(loss_scale_options(session)) {}

TrialStep TrialSteps::run(std::span<const std::vector<uint64_t>> micro_batches, uint64_t epoch,
                          double learning_rate, const std::function<void()>& after_micro_batch) {
  plugins::Task& task = session_.task();
  plugins::Strategy& strategy = session_.strategy();
  std::vector<plugins::Batch> batches;
  double weight = 0;
  TrialStep result;
  result.flops = 0;
  for (const std::vector<uint64_t>& ids : micro_batches) {
    batches.push_back(
        task.load({.split = PL_SPLIT_TRAIN, .purpose = PL_PURPOSE_TRAIN, .ids = ids, .epoch = epoch}));
    weight += batches.back().weight();
    const std::optional<double> flops = task.flops(batches.back());
    result.flops = result.flops && flops ? std::optional(*result.flops + *flops) : std::nullopt;
  }
  const double began = now_seconds();
  strategy.begin_step(batches.size());
  for (size_t m = 0; m < batches.size(); ++m) {
    if (session_.args().cancelled && session_.args().cancelled())
      throw Error(PL_ERROR_CANCELLED, "stopped between two micro-batches");
    pl_train_args args{};
    args.scale = weight > 0 ? loss_scale_.value() / weight : 0;
    args.seed = derive_seed(session_.run_info().seed, "dropout", step_, m);
    args.step = step_;
    args.micro_batch = m;
    args.gradients = &strategy.gradient_sink();
    const pl_tensor loss = task.train(batches[m], args);
    strategy.end_micro_batch(&loss);
    batches[m] = plugins::Batch();  // its memory goes before the next one needs some
    if (after_micro_batch) after_micro_batch();
  }
  result.pass_seconds = now_seconds() - began;
  pl_step_args args{};
  args.learning_rate = learning_rate;
  args.clip_norm = session_.config().get_float("train.clip_grad_norm");
  args.inverse_scale = 1 / loss_scale_.value();
  const pl_step_report report = strategy.collect(strategy.step(args));
  result.seconds = now_seconds() - began;
  result.loss = weight > 0 ? report.loss_sum / weight : 0;
  result.finite = report.finite != 0;
  loss_scale_.update(result.finite);
  session_.take_metrics();
  session_.read_metrics(session_.take_late_metrics());
  ++step_;
  return result;
}

}  // namespace pipeline::train
