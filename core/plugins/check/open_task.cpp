#include "core/plugins/check/open_task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"

namespace pipeline::plugins {
namespace {

constexpr uint64_t kSeed = 42;  // of every batch's dropout

double scalar(const pl_tensor& tensor) {
  if (tensor.dtype.code != PL_DTYPE_FLOAT || (tensor.dtype.bits != 32 && tensor.dtype.bits != 64))
    throw Error("the loss is neither float32 nor float64");
  const char* data = data_of<const char>(tensor);
  double wide = 0;
  float narrow = 0;
  if (tensor.dtype.bits == 64)
    std::memcpy(&wide, data, sizeof wide);
  else
    std::memcpy(&narrow, data, sizeof narrow), wide = static_cast<double>(narrow);
  return wide;
}

// Cut off rather than rounded: any bf16 number near the float32 one will do.
uint16_t narrowed(float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); }

}  // namespace

OpenTask::OpenTask(const CheckArgs& args, const OpenHow& how)
    : how_(how),
      subject_(args, {.purpose = how.purpose, .dtype = how.dtype}),
      task_(subject_.plugin(), subject_.context(), subject_.config()) {
  if (task_.has_prepare()) task_.prepare();
  task_.open();
  const std::vector<pl_parameter>& parameters = task_.parameters();
  parameters_.reserve(parameters.size());
  for (const pl_parameter& parameter : parameters) allocate(parameter);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const size_t index = how.backwards ? parameters.size() - 1 - i : i;
    task_.initialize(index, parameters_[index].value);
  }
  if (how.frozen != Frozen::kAsTheRest && task_.keep_frozen_in_bfloat16() == 0)
    throw Skip{"it has no frozen weights that may be kept so"};
  for (size_t i = 0; i < parameters.size(); ++i) bind(i, parameters[i]);
  if (!how.by_unit) return;
  hooks_ = sized<pl_unit_hooks>();
  hooks_.user = this;
  hooks_.enter = enter;
  hooks_.leave = leave;
  task_.set_unit_hooks(hooks_);
  for (const Storage& storage : parameters_) hide(storage.unit);
}

std::vector<uint64_t> OpenTask::some_ids(uint32_t split) const {
  const uint64_t count = task_.sample_count(split), most = 2;
  if (count == 0) throw Error("sample_count of the training split is 0");
  std::vector<uint64_t> ids(std::min(count, most));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

void OpenTask::allocate(const pl_parameter& parameter) {
  Storage& storage = parameters_.emplace_back();
  storage.shape.assign(parameter.shape, parameter.shape + parameter.ndim);
  size_t count = 1;
  for (const int64_t size : storage.shape) count *= static_cast<size_t>(size);
  storage.value.resize(count);
  storage.gradient.resize(count);
  storage.unit = parameter.unit;
}

void OpenTask::bind(size_t index, const pl_parameter& parameter) {
  Storage& storage = parameters_[index];
  pl_tensor value{};
  value.data = storage.value.data();
  value.device = {PL_DEVICE_CPU, 0};
  value.ndim = static_cast<int32_t>(storage.shape.size());
  value.dtype = how_.dtype;
  value.shape = storage.shape.data();
  pl_tensor gradient = value;
  gradient.data = storage.gradient.data();
  const bool kept = parameter.dtype.bits == 16;
  if (kept)
    for (float& wide : storage.value) wide = widened(narrowed(wide));
  if (how_.dtype.bits == 16 || (kept && how_.frozen == Frozen::kNarrow)) {
    value.dtype = {PL_DTYPE_BFLOAT, 16, 1};
    for (const float wide : storage.value) storage.narrow_value.push_back(narrowed(wide));
    storage.narrow_gradient.resize(storage.value.size());
    value.data = storage.narrow_value.data();
    gradient.data = storage.narrow_gradient.data();
  }
  const bool trainable = parameter.flags & PL_PARAMETER_TRAINABLE;
  if (how_.gradients != Gradients::kInPlace || !trainable) gradient.data = nullptr;
  task_.bind(index, value, gradient);
}

void OpenTask::write_outputs(const Batch& batch, uint64_t first_row) {
  auto args = sized<pl_outputs_args>();
  args.seed = kSeed;
  args.first_row = first_row;
  task_.write_outputs(batch, args);
}

std::vector<float> OpenTask::train(const Batch& batch, const pl_tensor* outputs) {
  for (Storage& storage : parameters_) {
    std::ranges::fill(storage.gradient, 0.0f);
    std::ranges::fill(storage.narrow_gradient, uint16_t{0});
  }
  auto sink = sized<pl_gradient_sink>();
  sink.user = this;
  sink.ready = ready;
  sink.flags =
      (how_.gradients == Gradients::kInRows ? PL_GRADIENTS_IN_ROWS : 0) | (how_.hints ? 0x10000u : 0);
  auto args = sized<pl_train_args>();
  args.scale = 1;
  args.seed = kSeed;
  args.gradients = &sink;
  args.outputs = outputs;
  loss_ = task_.train(batch, args);
  std::vector<float> result{loss()};
  for (const Storage& storage : parameters_) {
    if (how_.dtype.bits == 16)
      std::ranges::transform(storage.narrow_gradient, std::back_inserter(result), widened);
    else
      result.insert(result.end(), storage.gradient.begin(), storage.gradient.end());
  }
  return result;
}

float OpenTask::loss() const { return static_cast<float>(scalar(loss_)); }

std::vector<float> OpenTask::values() const {
  std::vector<float> all;
  for (const Storage& storage : parameters_)
    all.insert(all.end(), storage.value.begin(), storage.value.end());
  return all;
}

pl_error* OpenTask::ready(void* user, const pl_gradient* gradient) noexcept {
  return guard([&] { static_cast<OpenTask*>(user)->add(*gradient); });
}

// A gradient that is handed over is added here, as a strategy would.
void OpenTask::add(const pl_gradient& gradient) {
  Storage& storage = parameters_.at(gradient.index);
  if (PL_HAS(pl_gradient, &gradient, rows) && gradient.rows) return add_rows(storage, gradient);
  if (!gradient.owner) return;
  if (!gradient.release) throw Error("a gradient is handed over without `release`");
  const auto* data = data_of<const float>(*gradient.tensor);
  if (gradient.tensor->dtype.bits != 32) throw Error("a gradient of a float32 parameter is not float32");
  for (size_t i = 0; i < storage.gradient.size(); ++i) storage.gradient[i] += data[i];
  gradient.release(gradient.owner);
}

pl_error* OpenTask::enter(void* user, uint32_t unit, uint32_t) noexcept {
  return guard([&] {
    auto& open = *static_cast<OpenTask*>(user);
    if (open.open_units_[unit]++ > 0) return;
    for (Storage& storage : open.parameters_)
      if (storage.unit == unit) std::ranges::copy(std::exchange(storage.kept, {}), storage.value.begin());
  });
}

pl_error* OpenTask::leave(void* user, uint32_t unit, uint32_t) noexcept {
  return guard([&] {
    auto& open = *static_cast<OpenTask*>(user);
    if (open.open_units_[unit] <= 0) throw Error(fmt::format("unit {} is left, and was not entered", unit));
    if (--open.open_units_[unit] == 0) open.hide(unit);
  });
}

void OpenTask::hide(uint32_t unit) {
  for (Storage& storage : parameters_) {
    if (storage.unit != unit || !storage.kept.empty()) continue;
    storage.kept = storage.value;
    std::ranges::fill(storage.value, std::numeric_limits<float>::quiet_NaN());
  }
}

void OpenTask::add_rows(Storage& storage, const pl_gradient& gradient) {
  if (how_.gradients != Gradients::kInRows)
    throw Error("a gradient comes in rows, which the sink's flags do not allow");
  gave_rows_ = true;
  const size_t rows = static_cast<size_t>(storage.shape.at(0));
  const size_t width = storage.gradient.size() / rows, given = static_cast<size_t>(gradient.rows->shape[0]);
  const auto* row = data_of<const int64_t>(*gradient.rows);
  const auto* values = data_of<const float>(*gradient.tensor);
  if (gradient.rows->dtype.code != PL_DTYPE_INT || gradient.rows->dtype.bits != 64)
    throw Error("the rows of a gradient are not int64");
  if (gradient.tensor->dtype.bits != 32) throw Error("a gradient of a float32 parameter is not float32");
  if (gradient.tensor->shape[0] != gradient.rows->shape[0])
    throw Error(fmt::format("a gradient comes in {} rows, but has {}", given, gradient.tensor->shape[0]));
  for (size_t i = 0; i < given; ++i) {
    if (row[i] < 0 || static_cast<size_t>(row[i]) >= rows)
      throw Error(fmt::format("a gradient comes for row {} of {}", row[i], rows));
    float* of_row = storage.gradient.data() + static_cast<size_t>(row[i]) * width;
    for (size_t k = 0; k < width; ++k) of_row[k] += values[i * width + k];
  }
}

}  // namespace pipeline::plugins
