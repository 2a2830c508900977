// Unit hooks and activation checkpointing change nothing, to the bit.
#include "small_model.hpp"
#include "task_runner.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace {

using fake::Gradients;
using fake::TaskRunner;
using testing::HasSubstr;

const std::vector<uint64_t> kUnitIds = {3, 1, 4, 15, 9, 2};
constexpr uint32_t kUnits = 6;  // in, 4 layers, out

// What a stage 3 strategy does: only `slots` units have their values in memory. Unit k is always at slot k
// mod slots, at fixed addresses; a slot that a unit leaves is filled with NaN at once.
class Ring {
 public:
  Ring(const pl_plugin& plugin, const std::string& toml, uint32_t slots, uint32_t flags)
      : runner_(plugin, toml, Gradients::kHandOver), slots_(slots) {
    runner_.context.run.flags = flags;
    EXPECT_OK(runner_.create().code == 0 ? nullptr : fake::host().error_new(1, fake::str("create")));
    EXPECT_OK(runner_.api().open(runner_.task()));
    runner_.read_parameters();
    place();
    hooks_.struct_size = sizeof(hooks_);
    hooks_.user = this;
    hooks_.enter = [](void* user, uint32_t unit, uint32_t pass) {
      return static_cast<Ring*>(user)->enter(unit, pass);
    };
    hooks_.leave = [](void* user, uint32_t unit, uint32_t pass) {
      return static_cast<Ring*>(user)->leave(unit, pass);
    };
    EXPECT_OK(runner_.api().set_unit_hooks(runner_.task(), &hooks_));
  }

  TaskRunner& runner() { return runner_; }
  std::vector<std::string> calls;  // "+3f", "-3f", ...
  uint32_t fail_at = kUnits;       // enter of this unit in the backward pass fails

 private:
  void place() {
    std::vector<size_t> used(slots_, 0), unit_used(kUnits, 0);
    for (const auto& p : runner_.parameters) unit_used[p.unit] += size_of(p);
    size_t largest = *std::max_element(unit_used.begin(), unit_used.end());
    memory_.assign(slots_, std::vector<float>(largest, std::nanf("")));
    std::fill(unit_used.begin(), unit_used.end(), 0);
    for (size_t i = 0; i < runner_.values.size(); ++i) {
      pl_tensor out = runner_.view(i, runner_.values[i]);  // runner_.values are the masters
      EXPECT_OK(runner_.api().initialize(runner_.task(), i, &out));
    }
    for (size_t i = 0; i < runner_.values.size(); ++i) {
      const auto& p = runner_.parameters[i];
      pl_tensor value = runner_.view(i, runner_.values[i]);
      if (is_resident(i)) {
        addresses_.push_back(runner_.values[i].data());
      } else {
        addresses_.push_back(memory_[p.unit % slots_].data() + unit_used[p.unit]);
        unit_used[p.unit] += size_of(p);
      }
      value.data = addresses_.back();
      pl_tensor grad = value;
      grad.data = nullptr;
      EXPECT_OK(runner_.api().bind(runner_.task(), i, &value, &grad));
    }
  }
  // "unused" and "frozen" are outside of all units.
  bool is_resident(size_t i) const { return runner_.names[i] == "unused" || runner_.names[i] == "frozen"; }
  static size_t size_of(const pl_parameter& p) {
    size_t n = 1;
    for (uint32_t d = 0; d < p.ndim; ++d) n *= static_cast<size_t>(p.shape[d]);
    return n;
  }

  pl_error* enter(uint32_t unit, uint32_t pass) {
    calls.push_back("+" + std::to_string(unit) + (pass != PL_PASS_BACKWARD ? "f" : "b"));
    if (unit == fail_at && pass == PL_PASS_BACKWARD)
      return fake::host().error_new(PL_ERROR_TIMEOUT, fake::str("sharded: no answer"));
    for (size_t i = 0; i < addresses_.size(); ++i) {
      if (runner_.parameters[i].unit == unit && !is_resident(i)) {
        std::copy(runner_.values[i].begin(), runner_.values[i].end(), addresses_[i]);
      }
    }
    return nullptr;
  }
  pl_error* leave(uint32_t unit, uint32_t pass) {
    calls.push_back("-" + std::to_string(unit) + (pass != PL_PASS_BACKWARD ? "f" : "b"));
    auto& slot = memory_[unit % slots_];
    std::fill(slot.begin(), slot.end(), std::numeric_limits<float>::quiet_NaN());
    return nullptr;
  }

  TaskRunner runner_;
  uint32_t slots_;
  std::vector<std::vector<float>> memory_;
  std::vector<float*> addresses_;
  pl_unit_hooks hooks_{};
};

struct Way {
  uint32_t slots;
  bool checkpointing;
};

class SlotsTest : public testing::TestWithParam<Way> {
 protected:
  void TearDown() override { EXPECT_EQ(fake::live_errors(), 0); }
  const pl_plugin& plugin_ = small::plugin(fake::host());
};

TEST_P(SlotsTest, equals_the_plain_model_to_the_bit) {
  const std::string toml = "dropout = 0.3";
  TaskRunner plain(plugin_, toml);
  plain.start();
  Ring ring(plugin_, toml, GetParam().slots, GetParam().checkpointing ? PL_RUN_ACTIVATION_CHECKPOINTING : 0);
  TaskRunner& in_ring = ring.runner();
  for (uint64_t step = 0; step < 3; ++step) {
    for (uint64_t micro = 0; micro < 2; ++micro) {  // two micro-batches
      ASSERT_EQ(plain.train(plain.load(kUnitIds), 0.25, 10 * step + micro).message, "");
      ASSERT_EQ(in_ring.train(in_ring.load(kUnitIds), 0.25, 10 * step + micro).message, "");
      EXPECT_EQ(plain.loss, in_ring.loss);
    }
    EXPECT_EQ(plain.grads, in_ring.grads);
    plain.descend(0.05);
    in_ring.descend(0.05);
    EXPECT_EQ(plain.evaluate(plain.load(kUnitIds)), in_ring.evaluate(in_ring.load(kUnitIds)));
  }
}

TEST_P(SlotsTest, units_are_entered_and_left_in_pairs_in_order) {
  Ring ring(plugin_, "", GetParam().slots, GetParam().checkpointing ? PL_RUN_ACTIVATION_CHECKPOINTING : 0);
  ASSERT_EQ(ring.runner().train(ring.runner().load(kUnitIds)).message, "");
  std::vector<std::string> expected;
  for (uint32_t k = 0; k < kUnits; ++k) {
    expected.push_back("+" + std::to_string(k) + "f");
    expected.push_back("-" + std::to_string(k) + "f");
  }
  for (uint32_t k = kUnits; k-- > 0;) {
    expected.push_back("+" + std::to_string(k) + "b");
    expected.push_back("-" + std::to_string(k) + "b");
  }
  EXPECT_EQ(ring.calls, expected);
  ring.calls.clear();
  ring.runner().evaluate(ring.runner().load(kUnitIds));
  EXPECT_EQ(ring.calls, std::vector<std::string>(expected.begin(), expected.begin() + 2 * kUnits));
}

TEST_P(SlotsTest, a_hook_that_fails_ends_the_backward_pass_with_its_error) {
  Ring ring(plugin_, "", GetParam().slots, GetParam().checkpointing ? PL_RUN_ACTIVATION_CHECKPOINTING : 0);
  ring.fail_at = 2;
  const auto failure = ring.runner().train(ring.runner().load(kUnitIds));
  EXPECT_EQ(failure.code, PL_ERROR_TIMEOUT);
  EXPECT_EQ(failure.message, "sharded: no answer");
}

INSTANTIATE_TEST_SUITE_P(
    Ways, SlotsTest, testing::Values(Way{1, false}, Way{2, false}, Way{3, false}, Way{1, true}, Way{2, true}),
    [](const auto& way) {
      return std::to_string(way.param.slots) + (way.param.checkpointing ? "_checkpointing" : "_plain");
    });

// Three gradients of h, of which two are of one unit: the order of their sum shows in the last bits.
TEST(UnitsTest, gradients_of_an_input_are_added_up_inside_of_the_unit_first) {
  pl_unit_hooks hooks{};
  hooks.struct_size = sizeof(hooks);
  hooks.enter = hooks.leave = [](void*, uint32_t, uint32_t) -> pl_error* { return nullptr; };
  at::manual_seed(1);
  const at::Tensor x = at::randn({64, 16}), w = at::randn({16, 16}).requires_grad_(true);
  const auto gradient = [&](bool hooked, bool checkpointing) {
    pipeline::Units units;
    units.set_hooks(hooked ? &hooks : nullptr);
    units.set_checkpointing(checkpointing);
    using pipeline::Tensors;
    const at::Tensor h = units.run_once(0, [&](const Tensors&) -> Tensors { return {at::mm(x, w)}; }, {})[0];
    const Tensors last =
        units.run(1, [](const Tensors& in) -> Tensors { return {in[0].sin() + in[0].exp() * 0.1}; }, {h}, {});
    units
        .run_once(2, [](const Tensors& in) -> Tensors { return {(in[0] * in[1].tanh()).sum()}; },
                  {last[0], h})[0]
        .backward();
    units.finish_backward();
    const at::Tensor result = w.grad().clone();
    w.mutable_grad() = at::Tensor();
    return result;
  };
  const at::Tensor plain = gradient(false, false);
  EXPECT_TRUE(at::equal(gradient(true, false), plain));
  EXPECT_TRUE(at::equal(gradient(false, true), plain));
  EXPECT_TRUE(at::equal(gradient(true, true), plain));
}

TEST(CheckpointingTest, equals_the_plain_model_to_the_bit_with_dropout) {
  const pl_plugin& plugin = small::plugin(fake::host());
  for (const Gradients mode : {Gradients::kAccumulate, Gradients::kHandOver}) {
    TaskRunner plain(plugin, "dropout = 0.3", mode), checkpointed(plugin, "dropout = 0.3", mode);
    checkpointed.context.run.flags = PL_RUN_ACTIVATION_CHECKPOINTING;
    plain.start();
    checkpointed.start();
    for (uint64_t step = 0; step < 3; ++step) {
      ASSERT_EQ(plain.train(plain.load(kUnitIds), 0.25, step).message, "");
      ASSERT_EQ(checkpointed.train(checkpointed.load(kUnitIds), 0.25, step).message, "");
      EXPECT_EQ(plain.loss, checkpointed.loss);
      EXPECT_EQ(plain.grads, checkpointed.grads);
      plain.descend(0.05);
      checkpointed.descend(0.05);
    }
  }
}

TEST(CheckpointingTest, keeps_the_inputs_only) {
  // A layer whose inside is far larger than its ends: what autograd holds on to is seen from what the layer
  // made.
  const at::Tensor w = at::randn({4, 1000}).requires_grad_(true);
  const at::Tensor x = at::randn({3, 4}).requires_grad_(true);
  c10::weak_intrusive_ptr<c10::TensorImpl> inside(at::Tensor(at::empty({1})).getIntrusivePtr());
  int calls = 0;
  const pipeline::LayerFn layer = [&](const pipeline::Tensors& in) -> pipeline::Tensors {
    ++calls;
    const at::Tensor h = at::mm(in[0], w);
    inside = c10::weak_intrusive_ptr<c10::TensorImpl>(h.getIntrusivePtr());
    return {at::tanh(h).square().sum(1)};
  };
  const at::Tensor plain = layer({x})[0];
  EXPECT_EQ(calls, 1);
  plain.sum().backward();
  const at::Tensor dw = w.grad().clone(), dx = x.grad().clone();
  w.mutable_grad() = x.mutable_grad() = at::Tensor();

  const at::Tensor y = pipeline::recompute(layer, {x}, {w})[0];
  EXPECT_TRUE(inside.expired());
  EXPECT_TRUE(at::equal(y, plain));
  y.sum().backward();
  EXPECT_EQ(calls, 3);
  EXPECT_TRUE(at::equal(w.grad(), dw));
  EXPECT_TRUE(at::equal(x.grad(), dx));
}

TEST(CheckpointingTest, leaves_the_random_stream_where_it_was) {
  const at::Tensor x = at::ones({100}).requires_grad_(true);
  const pipeline::LayerFn layer = [](const pipeline::Tensors& in) -> pipeline::Tensors {
    return {at::dropout(in[0], 0.5, true)};
  };
  std::vector<at::Tensor> results;
  for (const bool checkpointing : {false, true}) {
    pipeline::seed_default_generators(c10::Device(c10::kCPU), 3);
    x.mutable_grad() = at::Tensor();
    const at::Tensor y = checkpointing ? pipeline::recompute(layer, {x}, {})[0] : layer({x})[0];
    const at::Tensor between = at::rand({5});
    y.sum().backward();
    EXPECT_TRUE(at::equal(x.grad(), y.detach())) << "the same elements are dropped";
    results.push_back(at::cat({y.detach(), between, at::rand({5})}));
  }
  EXPECT_TRUE(at::equal(results[0], results[1]));
}

TEST(CheckpointingTest, works_where_the_input_needs_no_gradient_and_an_output_is_not_used) {
  const at::Tensor w = at::randn({4, 4}).requires_grad_(true), unused = at::randn({2}).requires_grad_(true);
  const at::Tensor x = at::randn({3, 4}), ids = at::arange(3);
  const pipeline::LayerFn layer = [&](const pipeline::Tensors& in) -> pipeline::Tensors {
    return {at::mm(in[0], w).index_select(0, in[1]), at::mm(in[0], w).exp()};
  };
  layer({x, ids})[0].sum().backward();
  const at::Tensor expected = w.grad().clone();
  w.mutable_grad() = at::Tensor();
  pipeline::recompute(layer, {x, ids}, {w, unused})[0].sum().backward();
  EXPECT_TRUE(at::equal(w.grad(), expected));
  EXPECT_FALSE(unused.grad().defined());
}

// A micro-batch enters and leaves units that it does not use, in the order of one that uses them.
TEST(UnitsSkipped, AreEnteredAndLeftInTheSameOrder) {
  std::string calls;
  pl_unit_hooks hooks{};
  hooks.struct_size = sizeof hooks;
  hooks.user = &calls;
  hooks.enter = [](void* user, uint32_t unit, uint32_t pass) -> pl_error* {
    *static_cast<std::string*>(user) += "+" + std::to_string(unit) + (pass != PL_PASS_BACKWARD ? "f " : "b ");
    return nullptr;
  };
  hooks.leave = [](void* user, uint32_t unit, uint32_t pass) -> pl_error* {
    *static_cast<std::string*>(user) += "-" + std::to_string(unit) + (pass != PL_PASS_BACKWARD ? "f " : "b ");
    return nullptr;
  };
  pipeline::Units units;
  units.set_hooks(&hooks);
  const std::vector<at::Tensor> w(4, at::full({2}, 3.0));
  const auto pass = [&](bool has_picture) {
    calls.clear();
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& value : w) leaves.push_back(value.clone().requires_grad_());
    const auto run = [&](uint32_t unit, const at::Tensor& x) {
      return units.run_once(
          unit, [&](const pipeline::Tensors& in) { return pipeline::Tensors{in[0] * leaves[unit]}; }, {x})[0];
    };
    const at::Tensor seen = has_picture ? run(1, run(0, at::ones({2}))) : units.skip(1, units.skip(0));
    const at::Tensor text = run(2, at::ones({2}));
    run(3, has_picture ? text + seen : units.joined(text, seen)).sum().backward();
    units.finish_backward();
    EXPECT_EQ(leaves[0].grad().defined(), has_picture);
    EXPECT_TRUE(leaves[2].grad().equal(at::full({2}, 3.0)));
    return calls;
  };
  const std::string with = pass(true);
  EXPECT_EQ(with, "+0f -0f +1f -1f +2f -2f +3f -3f +3b -3b +2b -2b +1b -1b +0b -0b ");
  EXPECT_EQ(pass(false), with);
}

}  // namespace
