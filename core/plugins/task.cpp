#include "core/plugins/task.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/abi_values.hpp"
#include "core/base/fail.hpp"

// The half of plugins::Task that is about parameters: read once, checked, initialised.

namespace pipeline::plugins {
namespace {

constexpr uint32_t kMaxDimensions = 16;
constexpr uint32_t kParameterFlags = PL_PARAMETER_TRAINABLE | PL_PARAMETER_DECAY | PL_PARAMETER_NEW |
                                     PL_PARAMETER_DROPPABLE | PL_PARAMETER_HIDDEN_MATRIX |
                                     PL_FLAGS_MAY_IGNORE;

std::string parameter_problem(const pl_parameter& parameter) {
  if (view(parameter.name).empty()) return "has no name";
  if (parameter.ndim > kMaxDimensions)
    return fmt::format("has {} dimensions, at most {} are possible", parameter.ndim, kMaxDimensions);
  if (parameter.ndim > 0 && !parameter.shape)
    return fmt::format("has {} dimensions and a NULL shape", parameter.ndim);
  const std::span<const int64_t> shape(parameter.shape, parameter.ndim);
  for (int64_t extent : shape)
    if (extent < 1)
      return fmt::format("has the shape ({}), all extents must be at least 1", fmt::join(shape, ", "));
  if (parameter.flags & ~kParameterFlags)
    return fmt::format("flags {:#x} has bits that are unknown", parameter.flags);
  if ((parameter.flags & PL_PARAMETER_HIDDEN_MATRIX) && parameter.ndim != 2)
    return fmt::format("is said to be a matrix, and has the shape ({})", fmt::join(shape, ", "));
  if ((parameter.flags & PL_PARAMETER_TRAINABLE) &&
      !(parameter.lr_multiplier > 0 && std::isfinite(parameter.lr_multiplier)))
    return fmt::format("is trainable and its lr_multiplier is {}, must be above 0 (1 is normal)",
                       parameter.lr_multiplier);
  return {};
}

}  // namespace

Task::Task(const Plugin& plugin, const pl_context& context, const pl_config* config)
    : api_(plugin.task()), call_(plugin, context) {
  call_.main("create", [&] { return api_.create(&host_table(), &call_.context(), config, &self_); });
  if (!self_) throw Error(call_.plugin().label() + ": create returned no error and no object");
}

Task::~Task() {
  call_.cannot_fail("destroy", [&] { api_.destroy(self_); });
}

void Task::prepare() {
  call_.main("prepare", [&] { return api_.prepare(self_); });
}

void Task::open() {
  call_.main("open", [&] { return api_.open(self_); });
}

std::string Task::extra_state() const {
  if (!api_.extra_state) return {};
  const void* state = nullptr;
  uint64_t bytes = 0;
  call_.main("extra_state", [&] { return api_.extra_state(self_, &state, &bytes); });
  if (!state && bytes > 0) fail("{}: extra_state gave {} bytes at NULL", call_.plugin().label(), bytes);
  return {static_cast<const char*>(state), bytes};
}

void Task::set_extra_state(std::string_view state) {
  call_.main("set_extra_state", [&] { return api_.set_extra_state(self_, state.data(), state.size()); });
}

uint64_t Task::sample_count(uint32_t split) const {
  uint64_t count = 0;
  call_.main("sample_count", [&] { return api_.sample_count(self_, split, &count); });
  if (count == UINT64_MAX && split != PL_SPLIT_TRAIN)
    fail(PL_ERROR_UNSUPPORTED,
         "{}: sample_count of the {} split is UINT64_MAX (unbounded), must be a number of samples: only "
         "training data may be unbounded",
         call_.plugin().label(), split == PL_SPLIT_VAL ? "val" : "test");
  return count;
}

void Task::sample_costs(uint32_t split, std::span<const uint64_t> ids, std::span<double> out) const {
  if (ids.size() != out.size()) fail("sample_costs: {} ids and room for {} costs", ids.size(), out.size());
  call_.any("sample_costs",
            [&] { return api_.sample_costs(self_, split, ids.data(), ids.size(), out.data()); });
  for (size_t i = 0; i < out.size(); ++i)  // they are sorted by, and NaN has no place in an order
    if (!std::isfinite(out[i]))
      fail("{}: sample_costs gave sample {} the cost {}, must be a finite number", call_.plugin().label(),
           ids[i], out[i]);
}

std::string Task::data_fingerprint() const {
  if (!api_.data_fingerprint) return {};
  return std::string(view(call_.main("data_fingerprint", [&] { return api_.data_fingerprint(self_); })));
}

Batch Task::load(const LoadArgs& args) const {
  auto raw = sized<pl_load_args>();
  raw.split = args.split;
  raw.purpose = args.purpose;
  raw.ids = args.ids.data();
  raw.count = args.ids.size();
  raw.epoch = args.epoch;
  pl_batch* batch = nullptr;
  call_.any("load", [&] { return api_.load(self_, &raw, &batch); });
  if (!batch) throw Error(call_.plugin().label() + ": load returned no error and no batch");
  return Batch(*this, batch, args.ids);
}

Batch::Batch(const Task& task, pl_batch* handle, std::span<const uint64_t> ids)
    : handle_(handle, {&task}), info_(sized<pl_batch_info>()), ids_(ids.begin(), ids.end()) {
  task.call_.any("batch_info", [&] { return task.api_.batch_info(task.self_, handle, &info_); });
  require_known_flags(task.call_.plugin().label() + ": batch_info", info_.flags, 0);
}

void Batch::GiveBack::operator()(pl_batch* batch) const noexcept {
  task->call_.cannot_fail("batch_free", [&] { task->api_.batch_free(task->self_, batch); });
}

const pl_global_outputs* Task::global_outputs() const {
  const auto* table =
      static_cast<const pl_global_outputs*>(call_.plugin().query(PL_EXTENSION_GLOBAL_OUTPUTS));
  return table != nullptr && PL_HAS(pl_global_outputs, table, outputs) ? table : nullptr;
}

bool Task::has_global_outputs() {
  if (!has_global_outputs_) {
    pl_tensor room{};
    if (global_outputs() != nullptr)
      call_.main("begin", [&] { return global_outputs()->begin(self_, 1, &room); });
    has_global_outputs_ = global_outputs() != nullptr && (room.ndim != 2 || room.shape[1] != 0);
  }
  return *has_global_outputs_;
}

pl_tensor Task::make_room(uint64_t rows) {
  pl_tensor room{};
  call_.main("begin", [&] { return global_outputs()->begin(self_, rows, &room); });
  const pl_device device = call_.context().run_info().device;
  const bool is_there =
      room.data != nullptr && room.device.type == device.type && room.device.id == device.id;
  const bool is_matrix =
      room.ndim == 2 && room.strides == nullptr && room.dtype.code == PL_DTYPE_FLOAT && room.dtype.bits == 32;
  if (!is_there || !is_matrix || room.shape[0] != static_cast<int64_t>(rows) || room.shape[1] < 1) {
    const std::span shape(room.shape, room.data == nullptr ? 0u : static_cast<size_t>(room.ndim));
    fail(
        "{}: begin ({}) gave ({}) of {} on device {}:{} as room for the outputs of {} samples: expected ({}, "
        "K), K > 0, of float32, contiguous, on {}:{}",
        call_.plugin().label(), PL_EXTENSION_GLOBAL_OUTPUTS, fmt::join(shape, ", "), dtype_name(room.dtype),
        room.device.type, room.device.id, rows, rows, device.type, device.id);
  }
  return room;
}

void Task::write_outputs(const Batch& batch, pl_outputs_args args) {
  args.struct_size = sizeof args;
  call_.main("outputs", [&] { return global_outputs()->outputs(self_, batch.handle(), &args); });
}

pl_tensor Task::train(const Batch& batch, pl_train_args args) {
  args.struct_size = sizeof args;
  pl_tensor loss{};
  call_.main("train", [&] { return api_.train(self_, batch.handle(), &args, &loss); });
  if (!loss.data) throw Error(call_.plugin().label() + ": train returned no error and no loss");
  return loss;
}

std::optional<double> Task::flops(const Batch& batch) const {
  if (!api_.flops) return std::nullopt;
  return call_.main("flops", [&] { return api_.flops(self_, batch.handle()); });
}

void Task::export_model(const std::filesystem::path& folder) {
  call_.main("export_model", [&] { return api_.export_model(self_, to_pl(folder.native())); });
}

void Task::import_model(const std::filesystem::path& folder) {
  call_.main("import_model", [&] { return api_.import_model(self_, to_pl(folder.native())); });
}

void Task::bind(uint64_t index, const pl_tensor& value, const pl_tensor& grad) {
  call_.main("bind", [&] { return api_.bind(self_, index, &value, &grad); });
}

void Task::set_unit_hooks(const pl_unit_hooks& hooks) {
  call_.main("set_unit_hooks", [&] { return api_.set_unit_hooks(self_, &hooks); });
}

uint64_t element_count(const pl_parameter& parameter) {
  uint64_t count = 1;
  for (uint32_t i = 0; i < parameter.ndim; ++i) count *= static_cast<uint64_t>(parameter.shape[i]);
  return count;
}

std::string_view value_kind(const pl_parameter& parameter) {
  return parameter.form == PL_FORM_INT8 ? "int8" : parameter.form == PL_FORM_NF4 ? "nf4" : "value";
}

std::vector<int64_t> stored_shape(const pl_parameter& parameter) {
  if (is_coded(parameter)) return {static_cast<int64_t>(parameter.form_bytes)};
  return {parameter.shape, parameter.shape + parameter.ndim};
}

const std::vector<pl_parameter>& Task::parameters() {
  if (!parameters_.empty()) return parameters_;
  const uint64_t count = call_.main("parameter_count", [&] { return api_.parameter_count(self_); });
  if (count == 0)
    throw Error(call_.plugin().label() +
                ": has no parameters, so there is nothing to train; parameter_count is read after open");
  std::vector<pl_parameter> read;
  std::set<std::string_view> names;
  for (uint64_t i = 0; i < count; ++i) {
    auto parameter = sized<pl_parameter>();
    call_.main("parameter", [&] { return api_.parameter(self_, i, &parameter); });
    parameter.struct_size = sizeof parameter;  // the stride of the array that strategies are given
    std::string problem = parameter_problem(parameter);
    if (const size_t losses = std::max<size_t>(this->losses().size(), 1); parameter.loss >= losses)
      problem = fmt::format("is of loss {} of {}", parameter.loss, losses);
    if (problem.empty() && !names.insert(view(parameter.name)).second)
      problem = "has the name of an earlier one";
    if (!problem.empty())
      fail("{}: parameter {} '{}' {}", call_.plugin().label(), i, view(parameter.name), problem);
    parameter.form = 0;
    parameter.form_bytes = 0;
    read.push_back(parameter);
  }
  require_work_for_losses(read);
  return parameters_ = std::move(read);
}

uint64_t Task::keep_frozen_in(uint32_t form) {
  parameters();
  uint64_t elements = 0;
  for (uint64_t i = 0; i < parameters_.size(); ++i) {
    pl_parameter& parameter = parameters_[i];
    if (parameter.flags & PL_PARAMETER_TRAINABLE) continue;
    parameter.form = parameter.forms & (parameter.forms & form ? form : PL_FORM_BFLOAT16);
    if (parameter.form == form) elements += element_count(parameter);
    if (!is_coded(parameter)) continue;
    if (!api_.form_bytes || !api_.encode_value)
      fail("{}: parameter '{}' has forms of 8 or 4 bits, and the task no slots form_bytes and encode_value",
           call_.plugin().label(), view(parameter.name));
    call_.main("form_bytes", [&] { return api_.form_bytes(self_, i, form, &parameter.form_bytes); });
  }
  return elements;
}

void Task::encode(uint64_t index, std::span<const float> values, std::span<std::byte> out) {
  const pl_parameter& parameter = parameters().at(index);
  if (out.size() != parameter.form_bytes || (!values.empty() && values.size() != element_count(parameter)))
    fail("encode '{}': {} of {} elements, and room for {} of {} bytes", view(parameter.name), values.size(),
         element_count(parameter), out.size(), parameter.form_bytes);
  pl_tensor tensor{};
  tensor.data = const_cast<float*>(values.data());
  tensor.device = {PL_DEVICE_CPU, 0};
  tensor.ndim = static_cast<int32_t>(parameter.ndim);
  tensor.dtype = {PL_DTYPE_FLOAT, 32, 1};
  tensor.shape = const_cast<int64_t*>(parameter.shape);
  call_.main("encode_value", [&] {
    return api_.encode_value(self_, index, parameter.form, values.empty() ? nullptr : &tensor, out.data());
  });
}

void Task::initialize(uint64_t index, std::span<float> out) {
  const pl_parameter& parameter = parameters().at(index);
  if (element_count(parameter) != out.size())
    fail("initialize '{}': {} elements and room for {}", view(parameter.name), element_count(parameter),
         out.size());
  std::vector<int64_t> shape(parameter.shape, parameter.shape + parameter.ndim);
  pl_tensor tensor{};
  tensor.data = out.data();
  tensor.device = {PL_DEVICE_CPU, 0};
  tensor.ndim = static_cast<int32_t>(parameter.ndim);
  tensor.dtype = {PL_DTYPE_FLOAT, 32, 1};
  tensor.shape = shape.data();
  call_.main("initialize", [&] { return api_.initialize(self_, index, &tensor); });
}

}  // namespace pipeline::plugins
