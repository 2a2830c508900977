#pragma once

#include <ATen/ATen.h>

#include "plugins/models/protein/protein_model.hpp"
#include "tests/support/declared.hpp"

namespace pipeline::protein::testing {

// The parameters become bf16, as the core makes them where it trains in it.
inline void to_bf16(const ProteinModel& model) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : tests::named(model))
    at::Tensor(parameter).set_data(parameter.to(at::kBFloat16));
}

}  // namespace pipeline::protein::testing
