// Where and in which type the operations of plugins/models are tried.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <pipeline.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/models/transformer/gradients.hpp"
#include "transformer/dropout.hpp"

namespace pipeline::tests {

using transformer::Dropout;
using transformer::testing::expect_close;
using transformer::testing::values;
using Tensors = std::vector<at::Tensor>;

struct Place {
  at::DeviceType device;
  at::ScalarType type;
};
std::string name_of(const ::testing::TestParamInfo<Place>& place);

// Why there is no CUDA device to try anything on; empty: there is one, and it is open.
const std::string& no_device();
// A stream on it, as a run has one: not the default stream.
pl_stream device_stream();

// A test that runs in each place.
class InPlace : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    // Before any test of the CPU: LibTorch looks for CUDA once.
    const std::string& reason = no_device();
    if (GetParam().device == at::kCUDA && !reason.empty()) GTEST_SKIP() << reason;
  }
  at::ScalarType type() const { return GetParam().type; }
  at::Tensor here(const at::Tensor& tensor) const { return tensor.to(GetParam().device); }
  // The error allowed, as a share of a result's norm; a gradient's may be three times as large.
  double tolerance() const;

  // A dropout whose mask is the CPU's here, too; none where the device draws its own.
  Dropout same_dropout(const Dropout& dropout) const {
    return transformer::draws_on_device(here(at::zeros({1}, type()))) ? Dropout{} : dropout;
  }

  // `f`: leaves (all of one type on one device) -> a tensor; `compute` is their type. The result and all
  // gradients of f here are those of f in float64 on the CPU, from the same rounded inputs, also where they
  // are added to bound ones; and with deterministic algorithms f has the same bits twice.
  using Function = std::function<at::Tensor(const Tensors& leaves, at::ScalarType compute)>;
  void expect_same(const Tensors& inputs, const Function& f, double factor = 1);
};

#define PIPELINE_ON_CUDA \
  Place{at::kCUDA, at::kFloat}, Place{at::kCUDA, at::kBFloat16}, Place { at::kCUDA, at::kHalf }
#define PIPELINE_IN_ALL_PLACES(Suite)                                                                     \
  INSTANTIATE_TEST_SUITE_P(Places, Suite,                                                                 \
                           ::testing::Values(Place{at::kCPU, at::kFloat}, Place{at::kCPU, at::kBFloat16}, \
                                             Place{at::kCPU, at::kHalf}, PIPELINE_ON_CUDA),               \
                           name_of)

}  // namespace pipeline::tests
