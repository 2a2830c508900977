#pragma once

#include <pipeline/options.hpp>

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hugging_face/config_fields.hpp"

namespace pipeline::language {

// How rotary positions are stretched, for longer sequences than a model first learnt from; the defaults of
// the other values are those of Llama 3.1.
inline constexpr std::array<std::string_view, 6> kRopeTypes{"default", "linear", "dynamic",
                                                            "llama3",  "yarn",   "longrope"};

struct RopeScaling {
  // default: not at all; linear: all angles are divided by `factor`; llama3, yarn: slow ones. dynamic: those
  // of sequences beyond max_position_embeddings alone, which there are none of here; longrope: each by a
  // number of its own.
  std::string type = "default";
  double factor = 8;  // 0 until config.json's max_position_embeddings is known
  // llama3: turns within the original length from which on angles are as they were; up to which they are
  // divided.
  double high_freq_factor = 4, low_freq_factor = 1;
  // yarn (Peng et al., arXiv:2309.00071): llama3's limits.
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;  // these limits fall between channels, not on them
  // longrope (Ding et al., arXiv:2402.13753): what the frequency of each pair of channels is divided by, in
  // sequences of up to the original length, and in longer ones.
  std::vector<double> short_factor, long_factor;
  // yarn, longrope: what cosines and sines are multiplied by. 0: 0.1 ln(factor) + 1, and with longrope
  // sqrt(1 + ln(factor) / ln(original length)).
  double attention_factor = 0;
  double mscale = 0, mscale_all_dim = 0;  // until the factor is known: attention_factor, said otherwise
  int64_t original_max_position_embeddings = 8192;  // 0 until config.json's max_position_embeddings is known

  bool operator==(const RopeScaling&) const = default;
  void describe(Options& o);
  void validate(const ConfigErrors& errors) const;
  // Throws Error (PL_ERROR_CONFIG) for values that make no sense together, or for heads of this width.
  void check(int64_t head_width) const;
  // The positions' frequencies, (head_width / 2) fp32, as transformers computes them; `is_long`: of sequences
  // beyond the original length, where longrope has others for them.
  at::Tensor frequencies(int64_t head_width, double base, bool is_long = false) const;
  // Which rows, at these positions (N) of their sequences, are of sequences beyond the original length: (N)
  // bool. A sequence is here from position 0 on, up to its end so far, or with one row alone.
  at::Tensor is_long(const at::Tensor& positions) const;
  // What cosines and sines are multiplied by.
  double magnitude() const;
};

// A value, and the types that must have it in config.json, or may.
struct RopeField {
  hugging_face::ModelField<RopeScaling> field;
  std::vector<std::string_view> needed = {}, optional = {};
};
const std::vector<RopeField>& rope_fields();

// visit(key, value, whether config.json must have it) for what the type has.
template <class Scaling, class Visit>
void visit_rope_values(Scaling& scaling, const Visit& visit) {
  for (const auto& [field, needed, optional] : rope_fields()) {
    const bool is_needed = std::ranges::find(needed, scaling.type) != needed.end();
    if (is_needed || std::ranges::find(optional, scaling.type) != optional.end())
      std::visit([&, name = field.name](const auto member) { visit(name, scaling.*member, is_needed); },
                 field.member);
  }
}

// Fills in what follows from the length that the model is for, where its folder does not say it: as in
// transformers, the original length is that one, and else the factor their quotient.
void complete_rope(RopeScaling& scaling, int64_t max_position_embeddings);
// Reads config.json's rope_scaling, or rope_parameters since version 5 of transformers; both may be missing,
// and have rope_theta, too. Throws for a type that we do not compute.
void read_rope(const hugging_face::ConfigFile& config, const char* config_class, RopeScaling& scaling,
               double& rope_theta);
// Reads the object itself.
void read_rope_values(const hugging_face::ConfigFile& rope, const char* config_class, RopeScaling& scaling,
                      double& rope_theta);
// The JSON of rope_scaling; null where there is none.
nlohmann::json rope_json(const RopeScaling& scaling);
// Compares by the names that options have in [task.language.rope_scaling].
void compare_rope(const RopeScaling& ours, const RopeScaling& theirs, hugging_face::Differences& differences);

}  // namespace pipeline::language
