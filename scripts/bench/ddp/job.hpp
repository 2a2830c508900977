// What the two of bench_ddp do: GPT-2 on packed sequences of which a summary is to be predicted.
#pragma once

#include <memory>
#include <string>
#include <vector>

// Included before the SDK, which has an Error of its own.
#include "scripts/bench/ranks.hpp"

#include "language/language_model.hpp"

namespace bench {

struct Job {
  Place place;
  int threads = 1;  // of each process
  int turns = 6;
  int steps = 3;     // in a turn
  int batch = 8;     // sequences in a step, of all processes
  int tokens = 512;  // of a sequence, at most
  int layers = 12, heads = 12, width = 768;
  int clip = 1;                  // 0: gradients are not clipped
  std::string set = "";          // an option of ours: strategy.bucket_mib=10
  std::string backend = "gloo";  // ours; theirs is always c10d's Gloo
};

constexpr double kRate = 1e-4, kBeta1 = 0.9, kBeta2 = 0.95, kEpsilon = 1e-8, kDecay = 0.1;

pipeline::language::Config config_of(const Job& job);
std::unique_ptr<pipeline::language::LanguageModel> make_model(const Job& job);  // with its initial values
std::vector<at::Tensor> tensors_of(const pipeline::language::LanguageModel& model);

// This rank's part of a step, and the targets of all ranks.
struct Batch {
  pipeline::language::PackedBatch packed;
  double weight;
};
std::vector<Batch> make_batches(const Job& job);  // a few, to be used in turn

// A model, an optimizer and how gradients are summed.
class Contestant {
 public:
  virtual ~Contestant() = default;
  virtual std::string name() const = 0;
  virtual double step(const Batch& batch) = 0;  // the loss, of all ranks' targets
};
std::unique_ptr<Contestant> ours(const Job& job);
std::unique_ptr<Contestant> theirs(const Job& job);

}  // namespace bench
