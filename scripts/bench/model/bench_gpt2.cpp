// One process of the benchmark: trains GPT-2 on tokenized examples with the model alone, no pipeline around
// it.
//
//   bench_gpt2 init FOLDER                               writes a randomly initialised GPT-2 124M as a
//   Hugging Face folder bench_gpt2 train FOLDER EXAMPLES BATCH THREADS MODE  MODE: summarization, or
//   language-model (loss over all tokens)
//
// `train` reads requests from stdin, one per line: "N" runs N steps and answers one JSON line, as
// peer_hf_summarization.py does.
#include <ATen/ATen.h>
#include <malloc.h>
#include <time.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "gpt2.hpp"
#include "hugging_face.hpp"
#include "parameters.hpp"

namespace {

using namespace pipeline::summarization;

void init(const std::string& folder) {
  const Gpt2Config config;
  const auto parameters = parameter_list(config);
  std::filesystem::create_directories(folder);
  save_hugging_face_gpt2(folder, config, [&](size_t i) {
    at::Tensor value = at::empty(parameters[i].shape);
    initial_value(config, 1, i, value);
    return value;
  });
}

int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

// AdamW over the model's tensors, gradients as autograd leaves them.
class Optimizer {
 public:
  explicit Optimizer(Gpt2& model) {
    for (const at::Tensor& parameter : model.parameters()) {
      Group& group = parameter.dim() >= 2 ? decayed_ : plain_;
      group.parameters.push_back(parameter.detach());
      group.leaves.push_back(parameter);
      group.first.push_back(at::zeros_like(parameter));
      group.second.push_back(at::zeros_like(parameter));
      group.steps.push_back(at::zeros({}));
    }
  }

  void step() {
    update(decayed_, 0.1);
    update(plain_, 0);
  }

 private:
  struct Group {
    std::vector<at::Tensor> leaves, parameters, first, second, steps;
  };

  static void update(Group& group, double weight_decay) {
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& leaf : group.leaves) gradients.push_back(leaf.grad());
    for (at::Tensor& step : group.steps) step.add_(1);
    at::_fused_adamw_(group.parameters, gradients, group.first, group.second, {}, group.steps, 1e-4, 0.9,
                      0.95, weight_decay, 1e-8, false, false);
    for (at::Tensor& leaf : group.leaves) leaf.mutable_grad() = at::Tensor();
  }

  Group decayed_, plain_;
};

struct Batches {
  std::vector<PackedBatch> batches;

  Batches(const std::string& path, size_t size, bool language_model) {
    std::ifstream file(path);
    std::vector<std::vector<int64_t>> tokens, targets;
    for (std::string line; std::getline(file, line);) {
      const auto example = nlohmann::json::parse(line);
      auto ids = example["tokens"].get<std::vector<int64_t>>();
      const auto prompt = language_model ? 1 : example["prompt"].get<size_t>();
      std::vector<int64_t> wanted(ids.size(), -1);
      for (size_t i = prompt; i < ids.size(); ++i) wanted[i - 1] = ids[i];
      tokens.push_back(std::move(ids));
      targets.push_back(std::move(wanted));
      if (tokens.size() < size) continue;
      batches.push_back(pack(tokens, targets));
      tokens.clear();
      targets.clear();
    }
  }
};

Gpt2 load(const std::string& folder) {
  const HuggingFaceGpt2 source(folder);
  Gpt2Config config = source.config();
  config.embd_pdrop = config.attn_pdrop = config.resid_pdrop = 0;
  Gpt2 model(config);
  auto parameters = model.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor value = parameters[i].detach();
    source.read(i, value);
  }
  return model;
}

// Of all threads. On a machine that others use, one thread's CPU time says more than the clock.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void train(const std::string& folder, const std::string& examples, size_t batch_size, int threads,
           bool language_model) {
  // Memory that the step frees is needed again in the next one: keep it, rather than have the kernel clear
  // fresh pages each time.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
  at::set_num_threads(threads);
  Gpt2 model = load(folder);
  Optimizer optimizer(model);
  const Batches data(examples, batch_size, language_model);
  std::ofstream("/proc/self/clear_refs") << "5";
  std::cout << nlohmann::json{{"ready", true}} << std::endl;

  size_t next = 0;
  for (std::string request; std::getline(std::cin, request);) {
    nlohmann::json losses = nlohmann::json::array();
    int64_t tokens = 0;
    const auto start = std::chrono::steady_clock::now();
    const double cpu_start = cpu_seconds();
    for (int step = 0; step < std::stoi(request); ++step) {
      const PackedBatch& batch = data.batches[next++ % data.batches.size()];
      const auto count = batch.targets.ge(0).sum().item<double>();
      const auto loss = model.loss(batch, {.training = true, .scale = 1 / count});
      loss.scaled.backward();
      optimizer.step();
      losses.push_back(loss.sum.item<double>() / count);
      tokens += batch.tokens.size(0);
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::cout << nlohmann::json{{"seconds", seconds}, {"cpu_seconds", cpu_seconds() - cpu_start},
                                {"tokens", tokens},   {"padded_tokens", tokens},
                                {"losses", losses},   {"peak_bytes", peak_bytes()}}
              << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 2 && arguments[0] == "init") {
    init(arguments[1]);
  } else if (arguments.size() == 6 && arguments[0] == "train") {
    train(arguments[1], arguments[2], std::stoul(arguments[3]), std::stoi(arguments[4]),
          arguments[5] == "language-model");
  } else {
    std::cerr << "usage: bench_gpt2 init FOLDER | train FOLDER EXAMPLES BATCH THREADS "
                 "summarization|language-model\n";
    return 2;
  }
  return 0;
}
