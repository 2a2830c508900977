// A model's gradients against differences of its loss.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "plugins/models/protein/protein_model.hpp"
#include "tests/support/declared.hpp"

namespace pipeline::protein::testing {

// Values with which every parameter has a say: as a model starts, most gradients are too small for
// differences to tell.
inline void enliven(const ProteinModel& model) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : tests::named(model)) {
    at::Tensor value = parameter;
    const at::Tensor wave =
        at::sin(at::arange(value.numel(), at::kDouble).square() * 0.37 + static_cast<double>(name.size()))
            .view(value.sizes());
    if (value.dim() > 1) {
      value.copy_(wave * 1.4 / std::sqrt(static_cast<double>(value.size(-2))));
    } else {
      value.copy_(name.find("norm.weight") == std::string::npos ? wave * 0.3 : 1 + wave * 0.3);
    }
  }
}

// Checks each parameter for which `looked_at(name)`, along its gradient and along two directions that have
// nothing to do with it: an error at right angles to the gradient shows there. What float32 rounds off of the
// loss is about 1e-3 of a difference.
template <class Predicate>
void expect_gradients_of_the_loss(ProteinModel& model, const PackedProteins& batch,
                                  const ForwardPass& options, const Predicate& looked_at) {
  enliven(model);
  model.loss(batch, options).scaled.backward();
  for (const auto& [name, parameter] : tests::named(model)) {
    if (!looked_at(name)) continue;
    ASSERT_TRUE(parameter.grad().defined()) << name;
    const at::NoGradGuard no_grad;
    const at::Tensor gradient = parameter.grad();
    const double norm = gradient.norm().item<double>();
    EXPECT_GT(norm, 0.01) << name << ": too small for differences to tell";
    at::Tensor value = parameter;
    for (const int number : {0, 1, 2}) {
      at::Tensor direction = gradient;
      if (number > 0)
        direction = at::sin(at::arange(value.numel(), at::kDouble).square() * 0.7 + number)
                        .view(value.sizes())
                        .to(at::kFloat);
      direction = direction / direction.norm();
      const double step = 2e-3;
      value.add_(direction, step);
      const double up = model.loss(batch, options).sum.item<double>();
      value.sub_(direction, 2 * step);
      const double down = model.loss(batch, options).sum.item<double>();
      value.add_(direction, step);
      EXPECT_NEAR((up - down) / (2 * step), (gradient * direction).sum().item<double>(), 0.01 * norm + 2e-3)
          << name << ", direction " << number;
    }
  }
}

}  // namespace pipeline::protein::testing
