#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/plugins/check/subject.hpp"
#include "core/plugins/task.hpp"

namespace pipeline::plugins {

enum class Gradients { kInPlace, kHandedOver, kInRows };
// What the host may keep in bf16: as the rest; rounded to it, in float32; so.
enum class Frozen { kAsTheRest, kRounded, kNarrow };

struct OpenHow {
  Gradients gradients = Gradients::kInPlace;
  uint32_t purpose = PL_PURPOSE_TRAIN;
  pl_dtype dtype = {
      PL_DTYPE_FLOAT, 32,
      1};  // of parameters, their gradients and products: float32 or, with gradients in place, bf16
  Frozen frozen = Frozen::kAsTheRest;
  bool backwards = false;  // initial values from the last parameter on
  bool hints = false;      // flags that nobody knows, and who does not may ignore
  bool by_unit = false;  // values are NaN outside of their unit, as under a strategy that holds one at a time
};

// A task that is open and bound to storage of its own. Stays where it is, since the task has its address.
class OpenTask {
 public:
  explicit OpenTask(const CheckArgs& args, const OpenHow& how = {});
  OpenTask(const OpenTask&) = delete;
  OpenTask& operator=(const OpenTask&) = delete;

  Task& task() { return task_; }

  // The first of a split's samples. Throws where there are none.
  std::vector<uint64_t> some_ids(uint32_t split = PL_SPLIT_TRAIN) const;

  // Trains on one batch from zero gradients and returns the loss and all gradients. `outputs`: of all samples
  // of its step, of which the batch has the first; NULL: it is the whole step.
  std::vector<float> train(const Batch& batch, const pl_tensor* outputs = nullptr);
  // Of a batch that train() would take, from `first_row` on in the room for them.
  void write_outputs(const Batch& batch, uint64_t first_row);
  float loss() const;                 // as the last train() left it
  std::vector<float> values() const;  // of all parameters

  bool gave_rows() const { return gave_rows_; }

 private:
  // A parameter's values and gradient as float32 or, behind it, as bf16 (the upper half of a float32).
  struct Storage {
    std::vector<int64_t> shape;
    std::vector<float> value, gradient;
    uint32_t unit = 0;
    std::vector<float> kept;  // `value`, while its unit is not open
    std::vector<uint16_t> narrow_value, narrow_gradient;
  };

  void allocate(const pl_parameter& parameter);
  void bind(size_t index, const pl_parameter& parameter);
  static pl_error* ready(void* user, const pl_gradient* gradient) noexcept;
  void add(const pl_gradient& gradient);
  static pl_error* enter(void* user, uint32_t unit, uint32_t pass) noexcept;
  static pl_error* leave(void* user, uint32_t unit, uint32_t pass) noexcept;
  void hide(uint32_t unit);
  void add_rows(Storage& storage, const pl_gradient& gradient);

  const OpenHow how_;
  Subject subject_;
  Task task_;
  bool gave_rows_ = false;
  pl_tensor loss_{};
  std::vector<Storage> parameters_;
  std::map<uint32_t, int> open_units_;  // how often each is entered
  pl_unit_hooks hooks_{};
};

}  // namespace pipeline::plugins
