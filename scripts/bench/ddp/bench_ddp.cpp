// Our ddp beside PyTorch's DistributedDataParallel (its Reducer, over Gloo), around the same GPT-2 and the
// same kernels, in turns in the same processes: what differs is how gradients are summed and the update is
// made. Prints seconds a step, and the ratio.
//
//   bench_ddp [--processes N] [--threads N] [--turns N] [--steps N] [--batch N] [--tokens N] [--layers N]
//   [--heads N] [--width N]
//             [--clip 0|1] [--backend gloo|shm] [--set strategy.OPTION=VALUE]
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <memory>
#include <random>
#include <vector>

#include "core/launch/process.hpp"
#include "job.hpp"

namespace bench {

using namespace pipeline::language;

Config config_of(const Job& job) {
  return {.architecture = "gpt2",
          .vocab_size = 50257,
          .max_position_embeddings = 1024,
          .hidden_size = job.width,
          .num_hidden_layers = job.layers,
          .num_attention_heads = job.heads,
          .embedding_dropout = 0.1,
          .attention_dropout = 0.1,
          .residual_dropout = 0.1,
          .attention_bias = true,
          .mlp_bias = true};
}

std::unique_ptr<LanguageModel> make_model(const Job& job) {
  auto model = std::make_unique<LanguageModel>(config_of(job));
  for (size_t i = 0; i < model->parameters().size(); ++i) {
    at::Tensor value = model->parameters()[i].tensor.detach();
    model->parameters().initialize(i, 1, value);
  }
  return model;
}

std::vector<at::Tensor> tensors_of(const LanguageModel& model) {
  std::vector<at::Tensor> tensors;
  for (const auto& parameter : model.parameters()) tensors.push_back(parameter.tensor);
  return tensors;
}

std::vector<Batch> make_batches(const Job& job) {
  constexpr int kBatches = 5;
  std::mt19937_64 random(7);
  const auto between = [&](int least, int most) {
    return static_cast<int64_t>(std::uniform_int_distribution<int>(least, most)(random));
  };
  std::vector<Batch> batches;
  for (int b = 0; b < kBatches; ++b) {
    std::vector<std::vector<int64_t>> tokens, targets;
    double weight = 0;
    for (int i = 0; i < job.batch; ++i) {
      const int64_t length = between(job.tokens / 2, job.tokens);
      const int64_t summary = between(job.tokens / 16, job.tokens / 8);
      std::vector<int64_t> sequence, wanted(static_cast<size_t>(length), -1);
      for (int64_t t = 0; t < length; ++t) sequence.push_back(between(0, 50256));
      for (int64_t t = length - summary; t < length; ++t) wanted[static_cast<size_t>(t)] = between(0, 50256);
      weight += static_cast<double>(summary);
      if (i * job.place.ranks / job.batch != job.place.rank) continue;
      tokens.push_back(std::move(sequence));
      targets.push_back(std::move(wanted));
    }
    batches.push_back({pipeline::transformer::pack(tokens, targets), weight});
  }
  return batches;
}

}  // namespace bench

namespace {

using bench::Contestant;
using bench::Job;
using bench::median;

struct Course {
  std::unique_ptr<Contestant> contestant;
  std::vector<double> seconds, processor;  // of a step, by turn; of this rank
  std::vector<double> losses;              // by step
};

// The processor time of all threads of this process.
double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void turn(Course& course, const std::vector<bench::Batch>& batches, int steps) {
  const auto begin = std::chrono::steady_clock::now();
  const double used = processor_seconds();
  for (int i = 0; i < steps; ++i) {
    course.losses.push_back(course.contestant->step(batches[course.losses.size() % batches.size()]));
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  course.seconds.push_back(elapsed.count() / steps);
  course.processor.push_back((processor_seconds() - used) / steps);
}

void print(const Course& us, const Course& them) {
  std::vector<double> ratios;
  for (size_t i = 0; i < us.seconds.size(); ++i) ratios.push_back(them.seconds[i] / us.seconds[i]);
  double apart = 0;
  for (size_t i = 0; i < us.losses.size(); ++i) {
    apart = std::max(apart, std::abs(us.losses[i] - them.losses[i]) / std::abs(them.losses[i]));
  }
  for (const Course* course : {&us, &them}) {
    std::printf("%-24s %.3f s a step, %.3f s of processor time on rank 0\n",
                course->contestant->name().c_str(), median(course->seconds), median(course->processor));
  }
  std::printf("losses differ by at most %.1e relative\n", apart);
  std::printf("ours over PyTorch DDP: %.3f times as fast; turns", median(ratios));
  for (const double ratio : ratios) std::printf(" %.3f", ratio);
  std::printf("\n");
}

int be_rank(const Job& job) {
  at::set_num_threads(job.threads);
  const std::vector<bench::Batch> batches = bench::make_batches(job);
  Course us{bench::ours(job), {}, {}, {}}, them{bench::theirs(job), {}, {}, {}};
  for (Course* course : {&us, &them}) {
    turn(*course, batches, 2);  // both learn in the first step
    course->seconds.clear();
    course->processor.clear();
  }
  for (int i = 0; i < job.turns; ++i) {
    turn(i % 2 == 0 ? us : them, batches, job.steps);
    turn(i % 2 == 0 ? them : us, batches, job.steps);
  }
  if (job.place.rank == 0) print(us, them);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  pipeline::launch::keep_freed_memory();  // for both: otherwise the kernel clears pages anew in every step
  Job job;
  bench::parse(argc, argv, job.place,
               {{"--threads", &job.threads},
                {"--turns", &job.turns},
                {"--steps", &job.steps},
                {"--batch", &job.batch},
                {"--tokens", &job.tokens},
                {"--layers", &job.layers},
                {"--heads", &job.heads},
                {"--width", &job.width},
                {"--clip", &job.clip}},
               {{"--backend", &job.backend}, {"--set", &job.set}});
  return job.place.rank >= 0 ? be_rank(job) : bench::start_ranks(argc, argv, job.place.ranks);
}
