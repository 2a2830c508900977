#include "core/plugins/check/open_task.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"

namespace pipeline::plugins {
namespace {

constexpr size_t kGuard = 65536, kAlignment = 64;  // bytes; kGuard: a multiple of every page's size
constexpr std::byte kBeside{0xff};                 // four of them are a NaN in float32, two in bf16

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

// Differs where one bit does, as far as a check needs it.
uint64_t bits_of(auto numbers) {
  uint64_t hash = 1;
  for (const auto number : numbers) {
    if constexpr (sizeof number == sizeof(uint32_t))
      hash = (hash ^ std::bit_cast<uint32_t>(number)) * 0x9e3779b97f4a7c15u;
    else
      hash = (hash ^ number) * 0x9e3779b97f4a7c15u;
  }
  return hash;
}

}  // namespace

Guarded::Guarded(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t used = (bytes + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
  const size_t open = (used + kAlignment + page - 1) / page * page;
  mapped_ = open + 2 * kGuard;
  void* map = ::mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED || ::mprotect(static_cast<std::byte*>(map) + kGuard, open, PROT_READ | PROT_WRITE))
    fail("no memory for {} bytes of a parameter: {}", bytes, std::strerror(errno));
  map_ = static_cast<std::byte*>(map);
  data_ = map_ + kGuard + open - used;
  std::fill(map_ + kGuard, data_, kBeside);
  std::fill(data_ + bytes, map_ + kGuard + open, kBeside);
}

Guarded& Guarded::operator=(Guarded&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  std::swap(map_, other.map_);
  std::swap(data_, other.data_);
  return *this;
}

Guarded::~Guarded() {
  if (map_) ::munmap(map_, mapped_);
}

std::string Guarded::written_beside() const {
  if (!map_) return {};
  const auto is_left = [](std::byte value) { return value == kBeside; };
  if (!std::all_of(map_ + kGuard, data_, is_left)) return "in front of";
  return std::all_of(data_ + bytes_, map_ + mapped_ - kGuard, is_left) ? "" : "behind";
}

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
    task_.initialize(index, value(index));
  }
  if (how.frozen != Frozen::kAsTheRest && task_.keep_frozen_in(PL_FORM_BFLOAT16) == 0)
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

std::vector<uint64_t> OpenTask::some_ids(uint32_t split, uint64_t most) const {
  const uint64_t count = task_.sample_count(split);
  if (count == 0) throw Error("sample_count of the training split is 0");
  std::vector<uint64_t> ids(std::min(count, most));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

Batch OpenTask::load(const std::vector<uint64_t>& ids, uint32_t purpose) const {
  return task_.load({PL_SPLIT_TRAIN, purpose, ids, 0});
}

uint64_t OpenTask::Storage::bound_bits() const {
  return bits_of(narrow_gradient.as<uint16_t>()) ^ bits_of(gradient.as<float>());
}

void OpenTask::allocate(const pl_parameter& parameter) {
  Storage& storage = parameters_.emplace_back();
  storage.name = view(parameter.name);
  storage.flags = parameter.flags;
  storage.shape.assign(parameter.shape, parameter.shape + parameter.ndim);
  const size_t count = element_count(parameter);
  storage.value = Guarded(count * sizeof(float));
  storage.gradient = Guarded(count * sizeof(float));
  storage.unit = parameter.unit;
}

void OpenTask::bind(size_t index, const pl_parameter& parameter) {
  Storage& storage = parameters_[index];
  const std::span<float> wide_value = storage.value.as<float>();
  pl_tensor value = host_tensor(wide_value.data(), how_.dtype, storage.shape.data(),
                                static_cast<int32_t>(storage.shape.size()));
  pl_tensor gradient = value;
  gradient.data = storage.gradient.as<float>().data();
  const bool kept = parameter.form == PL_FORM_BFLOAT16;
  if (kept)
    for (float& wide : wide_value) wide = widened(narrowed(wide));
  if (how_.dtype.bits == 16 || (kept && how_.frozen == Frozen::kNarrow)) {
    value.dtype = {PL_DTYPE_BFLOAT, 16, 1};
    storage.narrow_value = Guarded(wide_value.size() * sizeof(uint16_t));
    storage.narrow_gradient = Guarded(wide_value.size() * sizeof(uint16_t));
    std::ranges::transform(wide_value, storage.narrow_value.as<uint16_t>().begin(), narrowed);
    value.data = storage.narrow_value.as<uint16_t>().data();
    gradient.data = storage.narrow_gradient.as<uint16_t>().data();
  }
  const bool trainable = parameter.flags & PL_PARAMETER_TRAINABLE;
  if (how_.gradients != Gradients::kInPlace || !trainable) gradient.data = nullptr;
  storage.is_bound = gradient.data != nullptr;
  task_.bind(index, value, gradient);
}

// Nothing but a strategy changes values, and nothing writes beside what it was given.
void OpenTask::watch(const char* slot, const std::function<void()>& work) {
  const auto bits = [&] {
    uint64_t all = 0;
    if (!how_.by_unit)
      for (const Storage& storage : parameters_)
        all = 31 * all + (bits_of(storage.value.as<float>()) ^ bits_of(storage.narrow_value.as<uint16_t>()));
    return all;
  };
  const uint64_t before = bits();
  work();
  for (const Storage& storage : parameters_)
    for (const auto& [memory, what] :
         {std::pair(&storage.value, "value"), std::pair(&storage.gradient, "gradient"),
          std::pair(&storage.narrow_value, "value"), std::pair(&storage.narrow_gradient, "gradient")})
      if (const std::string where = memory->written_beside(); !where.empty())
        fail("{} wrote {} the {} of '{}', {} elements: only what is bound may be written", slot, where, what,
             storage.name, storage.value.as<float>().size());
  if (bits() != before) fail("{} changed a parameter's value: only the strategy may", slot);
}

void OpenTask::write_outputs(const Batch& batch, uint64_t first_row) {
  auto args = sized<pl_outputs_args>();
  args.seed = kSeed;
  args.first_row = first_row;
  watch("outputs", [&] { task_.write_outputs(batch, args); });
}

void OpenTask::evaluate(const Batch& batch, uint32_t purpose, const EvaluationSink& sink) {
  auto args = sized<pl_evaluate_args>();
  args.purpose = purpose;
  watch("evaluate", [&] { task_.evaluate(batch, args, sink); });
}

void OpenTask::predict(const Batch& batch, const PredictionSink& sink) {
  auto args = sized<pl_evaluate_args>();
  args.purpose = PL_PURPOSE_PREDICT;
  watch("predict", [&] { task_.predict(batch, args, sink); });
}

std::vector<float> OpenTask::train(const Batch& batch, const TrainHow& how) {
  for (Storage& storage : parameters_) {
    storage.times = 0;
    if (!how.clear) continue;
    std::ranges::fill(storage.gradient.as<float>(), 0.0f);
    std::ranges::fill(storage.narrow_gradient.as<uint16_t>(), uint16_t{0});
  }
  passes_.clear();
  auto sink = sized<pl_gradient_sink>();
  sink.user = this;
  sink.ready = ready;
  sink.flags =
      (how_.gradients == Gradients::kInRows ? PL_GRADIENTS_IN_ROWS : 0) | (how_.hints ? 0x10000u : 0);
  auto args = sized<pl_train_args>();
  args.scale = how.scale;
  args.seed = kSeed;
  args.gradients = &sink;
  args.outputs = how.outputs;
  args.idle_losses = how.idle_losses;
  watch("train", [&] { loss_ = task_.train(batch, args); });
  check_reports();
  std::vector<float> result{static_cast<float>(loss())};
  for (const Storage& storage : parameters_) {
    const std::span<float> wide = storage.gradient.as<float>();
    if (how_.dtype.bits == 16)
      std::ranges::transform(storage.narrow_gradient.as<uint16_t>(), std::back_inserter(result), widened);
    else
      result.insert(result.end(), wide.begin(), wide.end());
  }
  return result;
}

// What holds of gradients and units when a micro-batch is over.
void OpenTask::check_reports() const {
  for (const Storage& storage : parameters_) {
    if (!storage.is_bound) continue;
    const auto is_zero = [](auto value) { return value == 0; };
    if (storage.times == 0) {
      if (!std::ranges::all_of(storage.gradient.as<float>(), is_zero) ||
          !std::ranges::all_of(storage.narrow_gradient.as<uint16_t>(), is_zero))
        fail("the gradient of '{}' was never reported as ready, and is not zero", storage.name);
    } else if (storage.bound_bits() != storage.reported) {
      fail("the gradient of '{}' changed after it was reported as ready", storage.name);
    }
  }
  for (const auto& [unit, times] : open_units_)
    if (times != 0) fail("unit {} was entered, and never left", unit);
}

double OpenTask::loss() const { return scalar(loss_); }

std::vector<float> OpenTask::values() const {
  std::vector<float> all;
  for (const Storage& storage : parameters_) {
    const std::span<float> wide = storage.value.as<float>();
    all.insert(all.end(), wide.begin(), wide.end());
  }
  return all;
}

pl_error* OpenTask::ready(void* user, const pl_gradient* gradient) noexcept {
  return guard([&] { static_cast<OpenTask*>(user)->add(*gradient); });
}

// A gradient that is handed over is added here, as a strategy would.
void OpenTask::add(const pl_gradient& gradient) {
  if (gradient.index >= parameters_.size())
    fail("a gradient came for parameter {} of {}", gradient.index, parameters_.size());
  Storage& storage = parameters_[gradient.index];
  const auto wrong = [&](std::string_view problem) {
    fail("the gradient of '{}' {}", storage.name, problem);
  };
  if (!(storage.flags & PL_PARAMETER_TRAINABLE)) wrong("came, and it is not trainable");
  if (how_.by_unit && open_units_[storage.unit] <= 0)
    wrong(fmt::format("came when its unit {} had been left", storage.unit));
  if (PL_HAS(pl_gradient, &gradient, rows) && gradient.rows) return add_rows(storage, gradient);
  if (storage.is_bound && !gradient.owner) {
    if (++storage.times > 1) wrong("came twice, must come once in a micro-batch");
    storage.reported = storage.bound_bits();
    return;
  }
  if (!gradient.owner) wrong("is neither bound nor handed over: its `owner` is NULL");
  if (!gradient.release) wrong("is handed over without `release`");
  if (gradient.tensor->dtype.code != PL_DTYPE_FLOAT || gradient.tensor->dtype.bits != 32)
    wrong(fmt::format("is {}, the parameter is float32", dtype_name(gradient.tensor->dtype)));
  const std::span given(gradient.tensor->shape, static_cast<size_t>(gradient.tensor->ndim));
  if (!std::ranges::equal(given, storage.shape))
    wrong(fmt::format("has the shape ({}), the parameter ({})", fmt::join(given, ", "),
                      fmt::join(storage.shape, ", ")));
  const auto* data = data_of<const float>(*gradient.tensor);
  const std::span<float> sum = storage.gradient.as<float>();
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += data[i];
  gradient.release(gradient.owner);
}

pl_error* OpenTask::enter(void* user, uint32_t unit, uint32_t pass) noexcept {
  return guard([&] {
    auto& open = *static_cast<OpenTask*>(user);
    open.passes_ += fmt::format("enter {} {} ", unit, pass);
    if (open.open_units_[unit]++ > 0) return;
    for (Storage& storage : open.parameters_)
      if (storage.unit == unit)
        std::ranges::copy(std::exchange(storage.kept, {}), storage.value.as<float>().begin());
  });
}

pl_error* OpenTask::leave(void* user, uint32_t unit, uint32_t pass) noexcept {
  return guard([&] {
    auto& open = *static_cast<OpenTask*>(user);
    open.passes_ += fmt::format("leave {} {} ", unit, pass);
    if (open.open_units_[unit] <= 0) fail("unit {} is left, and was not entered", unit);
    if (--open.open_units_[unit] == 0) open.hide(unit);
  });
}

void OpenTask::hide(uint32_t unit) {
  for (Storage& storage : parameters_) {
    if (storage.unit != unit || !storage.kept.empty()) continue;
    const std::span<float> value = storage.value.as<float>();
    storage.kept.assign(value.begin(), value.end());
    std::ranges::fill(value, std::numeric_limits<float>::quiet_NaN());
  }
}

void OpenTask::add_rows(Storage& storage, const pl_gradient& gradient) {
  if (how_.gradients != Gradients::kInRows)
    throw Error("a gradient comes in rows, which the sink's flags do not allow");
  gave_rows_ = true;
  const size_t rows = static_cast<size_t>(storage.shape.at(0));
  const std::span<float> sum = storage.gradient.as<float>();
  const size_t width = sum.size() / rows, given = static_cast<size_t>(gradient.rows->shape[0]);
  const auto* row = data_of<const int64_t>(*gradient.rows);
  const auto* values = data_of<const float>(*gradient.tensor);
  if (gradient.rows->dtype.code != PL_DTYPE_INT || gradient.rows->dtype.bits != 64)
    throw Error("the rows of a gradient are not int64");
  if (gradient.tensor->dtype.bits != 32) throw Error("a gradient of a float32 parameter is not float32");
  if (gradient.tensor->shape[0] != gradient.rows->shape[0])
    fail("a gradient comes in {} rows, but has {}", given, gradient.tensor->shape[0]);
  for (size_t i = 0; i < given; ++i) {
    if (row[i] < 0 || static_cast<size_t>(row[i]) >= rows)
      fail("a gradient comes for row {} of {}", row[i], rows);
    float* of_row = sum.data() + static_cast<size_t>(row[i]) * width;
    for (size_t k = 0; k < width; ++k) of_row[k] += values[i * width + k];
  }
}

}  // namespace pipeline::plugins
