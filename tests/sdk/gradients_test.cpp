// Gradients leave the task without a copy.
#include "fake_host.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <pipeline/torch/parameters.hpp>
#include <pipeline/torch/recompute.hpp>

namespace {

// An identity whose gradient is a tensor of its own making, so that its memory can be recognised later.
struct Marked : torch::autograd::Function<Marked> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.detach(); }
  static pipeline::Tensors backward(torch::autograd::AutogradContext*, const pipeline::Tensors& gradients) {
    at::Tensor own = gradients[0].clone();
    memory = own.data_ptr();
    return {own};
  }
  static inline void* memory = nullptr;
};

class GradientsTest : public testing::Test {
 protected:
  GradientsTest() {
    pipeline::globals().host = fake::host();
    raw_sink_.struct_size = sizeof(raw_sink_);
    raw_sink_.user = this;
    raw_sink_.ready = [](void* user, const pl_gradient* g) {
      static_cast<GradientsTest*>(user)->seen_.emplace_back(g);
      static_cast<GradientsTest*>(user)->data_.push_back(g->tensor->data);
      static_cast<GradientsTest*>(user)->values_.push_back(pipeline::to_torch(*g->tensor).clone());
      return static_cast<pl_error*>(nullptr);
    };
  }

  void bind(const at::Tensor& w, bool hand_over) {
    table_.add("w", w);
    const pl_tensor value = pipeline::to_pl(value_);
    pl_tensor grad = pipeline::to_pl(grad_);
    if (hand_over) grad.data = nullptr;
    table_.bind(0, value, grad);
    EXPECT_EQ(w.data_ptr(), value_.data_ptr());
  }

  at::Tensor w_ = at::zeros({2, 3}).requires_grad_(true);
  at::Tensor value_ = at::ones({2, 3}), grad_ = at::full({2, 3}, 10.0);
  pipeline::ParameterTable table_;
  pl_gradient_sink raw_sink_{};
  std::vector<pipeline::Gradient> seen_;
  std::vector<void*> data_;
  std::vector<at::Tensor> values_;
};

TEST_F(GradientsTest, handing_over_moves_the_memory) {
  bind(w_, /*hand_over=*/true);
  const pipeline::GradientSink sink(&raw_sink_);
  const pipeline::ParameterTable::Delivery delivery(table_, sink);
  Marked::apply(w_).sum().backward();
  ASSERT_EQ(seen_.size(), 1u);
  EXPECT_EQ(data_[0], Marked::memory);
  EXPECT_FALSE(w_.grad().defined()) << "nothing is left behind";

  pipeline::recompute([&](const pipeline::Tensors&) { return pipeline::Tensors{Marked::apply(w_).sum()}; },
                      {}, {w_})[0]
      .backward();
  ASSERT_EQ(seen_.size(), 2u);
  EXPECT_EQ(data_[1], Marked::memory) << "also out of a recomputed layer";
  EXPECT_TRUE(at::equal(values_[1], at::ones({2, 3})));
}

// A gradient that was added up in float32, of a parameter in bfloat16: autograd would round it.
TEST_F(GradientsTest, a_wider_gradient_stays_as_wide) {
  struct Wide : torch::autograd::Function<Wide> {
    static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
      return x.to(at::kFloat);
    }
    static pipeline::Tensors backward(torch::autograd::AutogradContext*, const pipeline::Tensors& gradients) {
      return {gradients[0] * (1 + 0x1p-20f)};
    }
  };
  const at::Tensor w = at::zeros({2, 3}, at::kBFloat16).requires_grad_(true);
  value_ = value_.to(at::kBFloat16);
  bind(w, /*hand_over=*/true);
  const pipeline::GradientSink sink(&raw_sink_);
  const pipeline::ParameterTable::Delivery delivery(table_, sink);
  Wide::apply(w).sum().backward();
  pipeline::recompute([&](const pipeline::Tensors&) { return pipeline::Tensors{Wide::apply(w).sum()}; }, {},
                      {w})[0]
      .backward();
  ASSERT_EQ(values_.size(), 2u);
  for (const at::Tensor& value : values_) EXPECT_TRUE(at::equal(value, at::full({2, 3}, 1 + 0x1p-20f)));
  (w * 2).sum().backward();
  EXPECT_EQ(values_.back().scalar_type(), at::kBFloat16) << "others come in the parameter's own type";
}

TEST_F(GradientsTest, a_gradient_that_is_a_view_arrives_whole_and_contiguous) {
  bind(w_, /*hand_over=*/true);
  const pipeline::GradientSink sink(&raw_sink_);
  const pipeline::ParameterTable::Delivery delivery(table_, sink);
  (w_.t() * at::arange(6, at::kFloat).view({3, 2})).sum().backward();
  w_.sum().backward();  // its gradient is one element, expanded
  ASSERT_EQ(seen_.size(), 2u);
  EXPECT_TRUE(at::equal(values_[0], at::arange(6, at::kFloat).view({3, 2}).t()));
  EXPECT_TRUE(at::equal(values_[1], at::ones({2, 3})));
}

TEST_F(GradientsTest, a_bound_gradient_is_added_to_in_place) {
  bind(w_, /*hand_over=*/false);
  const pipeline::GradientSink sink(&raw_sink_);
  const pipeline::ParameterTable::Delivery delivery(table_, sink);
  for (int micro = 0; micro < 2; ++micro) Marked::apply(w_).sum().backward();
  EXPECT_EQ(data_, (std::vector<void*>{grad_.data_ptr(), grad_.data_ptr()}));
  EXPECT_TRUE(at::equal(grad_, at::full({2, 3}, 12.0)));
}

TEST_F(GradientsTest, gradients_of_ones_own_go_the_same_ways) {
  for (const bool hand_over : {true, false}) {
    pipeline::ParameterTable table;
    const at::Tensor w = at::zeros({2, 3}).requires_grad_(true);
    table.add("w", w);
    const pl_tensor value = pipeline::to_pl(value_);
    pl_tensor grad = pipeline::to_pl(grad_);
    if (hand_over) grad.data = nullptr;
    table.bind(0, value, grad);
    const pipeline::GradientSink sink(&raw_sink_);
    const pipeline::ParameterTable::Delivery delivery(table, sink);
    at::Tensor own = at::ones({2, 3});
    void* memory = own.data_ptr();
    table.deliver(w, std::move(own));
    EXPECT_EQ(data_.back(), hand_over ? memory : grad_.data_ptr());
    EXPECT_TRUE(at::equal(values_.back(), at::full({2, 3}, hand_over ? 1.0 : 11.0)));
    EXPECT_THROW(table.deliver(w, at::ones({3, 2})), pipeline::Error);
    EXPECT_THROW(table.deliver(at::ones({2, 3}), at::ones({2, 3})), pipeline::Error);
  }
}

TEST_F(GradientsTest, a_backward_pass_outside_of_training_is_an_error) {
  bind(w_, /*hand_over=*/true);
  EXPECT_THROW(w_.sum().backward(), pipeline::Error);
}

TEST_F(GradientsTest, a_tensor_under_two_names_is_one_parameter) {
  table_.add("wte", w_);
  table_.add("lm_head", w_);
  EXPECT_EQ(table_.size(), 1u);
  EXPECT_EQ(table_.info(0).name, "wte");
}

}  // namespace
