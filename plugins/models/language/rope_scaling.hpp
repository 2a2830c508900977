#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace pipeline::hugging_face {
class ConfigFile;
class Differences;
}  // namespace pipeline::hugging_face

namespace pipeline::language {

// How rotary positions are stretched, for longer sequences than a model first learnt from; the defaults of
// the other values are those of Llama 3.1.
struct RopeScaling {
  // default: not at all; linear: all angles are divided by `factor`; llama3, yarn: slow ones. dynamic: those
  // of sequences beyond max_position_embeddings alone, which there are none of here.
  std::string type = "default";
  double factor = 8;
  // llama3: turns within the original length from which on angles are as they were; up to which they are
  // divided.
  double high_freq_factor = 4, low_freq_factor = 1;
  // yarn (Peng et al., arXiv:2309.00071): the same limits, and what cosines and sines are multiplied by; 0:
  // 0.1 ln(factor) + 1.
  double beta_fast = 32, beta_slow = 1, attention_factor = 0;
  int64_t original_max_position_embeddings = 8192;

  bool operator==(const RopeScaling&) const = default;
  // Throws Error (PL_ERROR_CONFIG) for values that make no sense together.
  void check() const;
  // The positions' frequencies in place of those without scaling, of this base. As transformers computes
  // them.
  at::Tensor scaled(const at::Tensor& frequencies, double base) const;
  // What cosines and sines are multiplied by.
  double magnitude() const;
};

// Of config.json's rope_scaling, or rope_parameters since version 5 of transformers; both may be missing, and
// have rope_theta, too. Throws for a type that we do not compute.
void read_rope(const hugging_face::ConfigFile& config, const char* config_class, RopeScaling& scaling,
               double& rope_theta);
// Of the object itself.
void read_rope_values(const hugging_face::ConfigFile& rope, const char* config_class, RopeScaling& scaling,
                      double& rope_theta);
// As rope_scaling; null where there is none.
nlohmann::json rope_json(const RopeScaling& scaling);
// By the names that options have in [task.language.rope_scaling].
void compare_rope(const RopeScaling& ours, const RopeScaling& theirs, hugging_face::Differences& differences);

}  // namespace pipeline::language
