#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "plugins/tasks/protein/esm2/esm2_config.hpp"

namespace pipeline::protein::esm2 {

// What a folder of ESM-2 has besides the parameters that are trained here, fp32 in host memory. It is kept,
// and written back on export. Undefined: the folder had none, or there was no folder.
struct Extras {
  at::Tensor contact_weight;  // (1, layers * heads): predicts contacts from attention, not computed here
  at::Tensor contact_bias;    // (1)
  at::Tensor frequencies;     // (head width / 2), where they are others than rotary_frequencies(): as
                              // transformers says, those of older folders were rounded to fp16

  // All that is there as text, empty where nothing is, and back.
  std::string pack(const Esm2Config& config) const;
  // Throws std::runtime_error where the text is damaged or of a model of another size.
  static Extras unpack(std::string_view text, const Esm2Config& config);

  // visit(name in the folder, tensor, its shape) for each
  template <class Self, class Visit>
  static void each(Self& self, const Esm2Config& config, Visit&& visit) {
    const int64_t maps = config.num_layers * config.num_heads;
    visit("esm.contact_head.regression.weight", self.contact_weight, std::vector<int64_t>{1, maps});
    visit("esm.contact_head.regression.bias", self.contact_bias, std::vector<int64_t>{1});
    visit("esm.rotary_embeddings.inv_freq", self.frequencies, std::vector<int64_t>{config.head_width() / 2});
  }
};

}  // namespace pipeline::protein::esm2
