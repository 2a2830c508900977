#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <map>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/plugins/check/subject.hpp"
#include "core/plugins/strategy.hpp"

namespace pipeline::plugins {
namespace {

constexpr int64_t kShape[] = {3, 5};
constexpr size_t kCount = 15;
using State = std::map<std::string, std::vector<std::byte>>;  // "weight/exp_avg" -> its bytes

// A strategy over one parameter of 3 x 5, at its start.
class Bench {
 public:
  explicit Bench(const CheckArgs& args, uint32_t flags = PL_RUN_REPRODUCIBLE)
      : subject_(args, {.flags = flags}) {
    parameter_ = sized<pl_parameter>();
    parameter_.flags = PL_PARAMETER_TRAINABLE | PL_PARAMETER_DECAY;
    parameter_.ndim = 2;
    parameter_.shape = kShape;
    parameter_.name = to_pl("weight");
    parameter_.lr_multiplier = 1;
    try {
      create({"adamw", {{"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}, {"weight_decay", 0}}});
    } catch (const Error& e) {
      if (e.code() != PL_ERROR_UNSUPPORTED) throw;
      create({"sgd", {{"momentum", 0.9}, {"nesterov", 0}, {"weight_decay", 0}}});
    }
    storage_ = strategy().storage(0);
    strategy().load_state(
        [](const pl_piece& piece, void* destination) {
          auto* out = static_cast<float*>(destination);
          for (uint64_t i = 0; i < piece.count; ++i) out[i] = 0.1f * static_cast<float>(piece.offset + i);
        },
        true);
  }

  Strategy& strategy() { return *strategy_; }
  const Storage& storage() const { return storage_; }

  // One step with one micro-batch whose gradient is `value` everywhere.
  pl_step_report step(float value) {
    strategy().begin_step(1);
    std::vector<float> mine(kCount, value);
    pl_tensor tensor = storage_.grad;
    if (!tensor.data) {
      tensor = own_tensor(mine);
    } else {
      auto* gradient = data_of<float>(tensor);
      for (size_t i = 0; i < kCount; ++i) gradient[i] += value;
    }
    auto gradient = sized<pl_gradient>();
    gradient.tensor = &tensor;
    if (!storage_.grad.data) {
      gradient.owner = mine.data();
      gradient.release = [](void*) {};
      kept_.push_back(std::move(mine));  // the strategy may keep it
    }
    strategy().gradient_ready(gradient);
    return end_step();
  }

  // One step whose gradient, `value` everywhere, comes in rows, the first row in two halves.
  pl_step_report step_in_rows(float value) {
    strategy().begin_step(1);
    int64_t rows[] = {0, 2, 1, 0};
    int64_t count[] = {4}, shape[] = {4, kShape[1]};
    std::vector<float> values(20, value);
    for (size_t i = 0; i < 5; ++i) values[i] = values[15 + i] = 0.5f * value;
    pl_tensor tensor = own_tensor(values), indices = tensor;
    tensor.shape = shape;
    indices.data = rows;
    indices.dtype = {PL_DTYPE_INT, 64, 1};
    indices.ndim = 1;
    indices.shape = count;
    auto gradient = sized<pl_gradient>();
    gradient.tensor = &tensor;
    gradient.rows = &indices;
    strategy().gradient_ready(gradient);
    std::fill(values.begin(), values.end(), 1e6f);  // borrowed-call: it had to be taken
    return end_step();
  }

  State state(uint32_t mode = PL_SNAPSHOT_COPY) {
    State state;
    strategy().snapshot(mode).pieces([&](const pl_piece& piece) {
      const auto* data = static_cast<const std::byte*>(piece.data);
      state[fmt::format("{}/{}", view(piece.parameter), view(piece.kind))].assign(
          data, data + piece.count * piece.dtype.bits / 8);
    });
    return state;
  }

 private:
  pl_tensor own_tensor(std::vector<float>& data) const {
    pl_tensor tensor = storage_.value;
    tensor.dtype = kFloat32;
    tensor.data = data.data();
    tensor.byte_offset = 0;
    return tensor;
  }

  pl_step_report end_step() {
    double loss = 2.5;
    const pl_tensor loss_tensor = host_tensor(&loss, {PL_DTYPE_FLOAT, 64, 1});
    strategy().end_micro_batch(&loss_tensor);
    auto args = sized<pl_step_args>();
    args.learning_rate = 0.01;
    args.inverse_scale = 1;
    return strategy().collect(strategy().step(args));
  }

  void create(const Optimizer& optimizer) {
    strategy_ = std::make_unique<Strategy>(subject_.plugin(), subject_.context(), subject_.config(),
                                           std::span(&parameter_, 1), std::span(&optimizer, 1), nullptr);
  }

  Subject subject_;
  pl_parameter parameter_{};
  std::unique_ptr<Strategy> strategy_;
  Storage storage_{};
  std::vector<std::vector<float>> kept_;
};

void is_created(const CheckArgs& args) {
  Bench bench(args);
  if (bench.strategy().memory().empty()) throw Error("memory reports nothing");
}

void a_step_changes_the_value(const CheckArgs& args) {
  Bench bench(args);
  const State before = bench.state();
  const pl_step_report report = bench.step(1.0f);
  if (!report.finite) throw Error("a step with finite gradients is reported as not finite");
  if (report.loss_sum != 2.5) fail("loss_sum is {}, the micro-batch's loss was 2.5", report.loss_sum);
  if (std::abs(report.grad_norm - std::sqrt(15.0)) > 1e-5)
    fail("grad_norm is {}, must be sqrt(15)", report.grad_norm);
  if (bench.state().at("weight/value") == before.at("weight/value")) throw Error("the value did not change");
}

void addresses_never_change(const CheckArgs& args) {
  Bench bench(args);
  bench.step(1.0f);
  const Storage later = bench.strategy().storage(0);
  if (later.value.data != bench.storage().value.data || later.grad.data != bench.storage().grad.data)
    throw Error("the storage of a parameter moved");
}

void a_bad_gradient_is_skipped(const CheckArgs& args) {
  Bench bench(args);
  bench.step(1.0f);
  const State before = bench.state();
  for (float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    if (bench.step(bad).finite) throw Error("a gradient that is not finite is reported as finite");
    if (bench.state() != before) throw Error("a gradient that is not finite changed the state");
  }
}

// Checks the fast mode, where rows are of use.
void rows_add_up(const CheckArgs& args) {
  Bench whole(args, 0), rows(args, 0);
  if (!(rows.strategy().info().flags & PL_STRATEGY_TAKES_ROWS)) throw Skip{"it takes no gradients in rows"};
  for (const float value : {1.0f, -0.5f}) {
    whole.step(value);
    rows.step_in_rows(value);
    if (rows.state() != whole.state())
      throw Error("a gradient in rows changed the state as no whole one does");
  }
}

void state_comes_back(const CheckArgs& args) {
  Bench trained(args);
  trained.step(1.0f);
  trained.step(-0.5f);
  const State state = trained.state();
  if (state != trained.state(PL_SNAPSHOT_VIEW)) throw Error("a view of the state differs from a copy");
  Bench fresh(args);
  fresh.strategy().load_state(
      [&](const pl_piece& piece, void* destination) {
        const auto found = state.find(fmt::format("{}/{}", view(piece.parameter), view(piece.kind)));
        if (found == state.end())
          fail("asks for {}/{}, which it did not save", view(piece.parameter), view(piece.kind));
        const size_t width = piece.dtype.bits / 8u;
        if ((piece.offset + piece.count) * width > found->second.size())
          throw Error("asks for more than it saved");
        std::memcpy(destination, found->second.data() + piece.offset * width, piece.count * width);
      },
      false);
  if (fresh.state() != state) throw Error("the state that was loaded is not the state that was saved");
  trained.step(0.25f);
  fresh.step(0.25f);
  if (fresh.state() != trained.state())
    throw Error("a step after loading differs from the same step without");
}

}  // namespace

std::vector<Promise> strategy_promises() {
  return {{"is created and says what memory it uses", is_created},
          {"a step updates the parameter and reports loss and gradient norm", a_step_changes_the_value},
          {"addresses of parameters never change", addresses_never_change},
          {"a gradient that is not finite changes nothing", a_bad_gradient_is_skipped},
          {"gradients in rows are as good as whole ones", rows_add_up},
          {"its state can be saved and loaded, bit for bit", state_comes_back}};
}

}  // namespace pipeline::plugins
