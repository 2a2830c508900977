// What the ABI costs: a training step through task and strategy plugins beside the same step in a plain
// LibTorch loop (loss, backward, gradient norm with clipping, fused AdamW), in turns in one process. Prints
// the median of each and their ratio.
//
//   bench_abi [ROUNDS]
#include <torch/nn/utils/clip_grad.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <ATen/Parallel.h>

#include "core/config/settings.hpp"
#include "core/train/session/session.hpp"
#include "core/train/session/weights.hpp"
#include "mlp.hpp"

namespace {

using namespace pipeline;

constexpr int kStepsPerTurn = 10;

class Plain {
 public:
  Plain() : x_(at::randn({bench::kBatch, bench::kWidth})), y_(at::randn({bench::kBatch, bench::kWidth})) {
    for (const at::Tensor& parameter : model_.parameters()) {
      parameters_.push_back(parameter);
      first_.push_back(at::zeros_like(parameter));
      second_.push_back(at::zeros_like(parameter));
      steps_.push_back(at::zeros({}));
    }
  }
  void step() {
    at::Tensor loss = model_.loss_sum(x_, y_);
    loss.backward(at::full({}, 1.0 / bench::kBatch));
    torch::nn::utils::clip_grad_norm_(parameters_, 1.0);
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> values, gradients;
    for (at::Tensor& parameter : parameters_) {
      values.push_back(parameter.detach());
      gradients.push_back(parameter.grad());
    }
    for (at::Tensor& step : steps_) step.add_(1);
    at::_fused_adamw_(values, gradients, first_, second_, {}, steps_, 1e-3, 0.9, 0.999, 0.01, 1e-8, false,
                      false);
    for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
    (void)loss.item<float>();
  }

 private:
  bench::Mlp model_;
  at::Tensor x_, y_;
  std::vector<at::Tensor> parameters_, first_, second_, steps_;
};

class ThroughAbi {
 public:
  explicit ThroughAbi(train::Session& session) : session_(session) {
    session.open_task(nullptr);
    session.create_strategy();
    train::load_weights(session, {});
    session.bind();
    std::vector<uint64_t> ids(bench::kBatch);
    batch_ = session.task().load({.ids = ids});
  }
  void step() {
    plugins::Strategy& strategy = session_.strategy();
    strategy.begin_step(1);
    pl_train_args train{};
    train.scale = 1.0 / bench::kBatch;
    train.gradients = &strategy.gradient_sink();
    const pl_tensor loss = session_.task().train(batch_, train);
    strategy.end_micro_batch(&loss);
    pl_step_args step{};
    step.learning_rate = 1e-3;
    step.clip_norm = 1;
    step.inverse_scale = 1;
    strategy.collect(strategy.step(step));
  }

 private:
  train::Session& session_;
  plugins::Batch batch_;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 150;
  const config::Config config = config::load({.file = "",
                                              .sets = {"task.plugin=bench_mlp", "strategy.plugin=single",
                                                       "train.global_batch=" + std::to_string(bench::kBatch),
                                                       "train.micro_batch=" + std::to_string(bench::kBatch),
                                                       "train.max_steps=1", "run.device=cpu"}});
  observe::Console console(observe::Console::Mode::off);
  observe::Log log(console, observe::Level::error);
  plugins::Registry registry({{BENCH_PLUGINS, "the benchmark's build"}, {PRODUCT_PLUGINS, "the build"}});
  train::ProcessGroup processes({}, log,
                                {.rendezvous = std::chrono::seconds(1), .stall = std::chrono::seconds(0)});
  train::Session session(
      config, registry, log,
      {.purpose = PL_PURPOSE_TRAIN, .run_dir = {}, .cancelled = {}, .world = {}, .processes = &processes});
  ThroughAbi abi(session);
  at::set_num_threads(static_cast<int>(session.run_info().threads));
  Plain plain;
  for (int i = 0; i < 20; ++i) abi.step(), plain.step();
  std::vector<double> with, without, ratios;
  const auto measure = [&](auto& side, std::vector<double>& times) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kStepsPerTurn; ++i) side.step();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    times.push_back(elapsed.count() / kStepsPerTurn);
  };
  for (int round = 0; round < rounds; ++round) {
    if (round % 2 == 0)
      measure(abi, with), measure(plain, without);
    else
      measure(plain, without), measure(abi, with);
    ratios.push_back(with.back() / without.back());
  }
  std::printf("step through the ABI %.3f ms, plain LibTorch %.3f ms (medians of %d turns of %d steps)\n",
              1e3 * median(with), 1e3 * median(without), rounds, kStepsPerTurn);
  std::printf("ratio of times, median over pairs of turns: %.4f\n", median(ratios));
}
