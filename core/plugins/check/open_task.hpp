#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/plugins/check/subject.hpp"
#include "core/plugins/task.hpp"

namespace pipeline::plugins {

// Memory aligned to 64 bytes, as pl_task_api.bind promises, with NaN beside it and behind that pages that
// nobody may touch: what a plugin writes beside it shows, what it reads there is NaN, and far off it crashes.
class Guarded {
 public:
  explicit Guarded(size_t bytes = 0);  // zeros
  Guarded(Guarded&& other) noexcept { *this = std::move(other); }
  Guarded& operator=(Guarded&& other) noexcept;
  ~Guarded();

  template <class T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data_), bytes_ / sizeof(T)};
  }

  // "in front of", "behind": where something was written beside it; "": nowhere.
  std::string written_beside() const;

 private:
  size_t bytes_ = 0, mapped_ = 0;
  std::byte* map_ = nullptr;   // a guard, pages that are open, a guard
  std::byte* data_ = nullptr;  // in these
};

enum class Gradients { kInPlace, kHandedOver, kInRows };
// How frozen values, which the host may keep in bf16, are: like the rest; rounded, in float32; in bf16.
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
  std::vector<uint64_t> some_ids(uint32_t split = PL_SPLIT_TRAIN, uint64_t most = 2) const;
  Batch load(const std::vector<uint64_t>& ids, uint32_t purpose = PL_PURPOSE_TRAIN) const;

  // Passes of the task. They throw where it writes beside its storage or changes a value.
  struct TrainHow {
    const pl_tensor* outputs = nullptr;  // of all samples of its step, of which the batch has the first;
                                         // NULL: it is the whole step
    double scale = 1;
    bool clear = true;         // trains from zero gradients
    uint64_t idle_losses = 0;  // bits of those without a turn
  };
  // The loss and all gradients.
  std::vector<float> train(const Batch& batch, const TrainHow& how);
  std::vector<float> train(const Batch& batch) { return train(batch, TrainHow{}); }
  // Writes the outputs of a batch that train() would take, from `first_row` on in the room for them.
  void write_outputs(const Batch& batch, uint64_t first_row);
  void evaluate(const Batch& batch, uint32_t purpose, const EvaluationSink& sink);
  void predict(const Batch& batch, const PredictionSink& sink);

  double loss() const;                // as the last train() left it
  std::vector<float> values() const;  // of all parameters
  std::span<float> value(size_t index) { return parameters_.at(index).value.as<float>(); }
  std::span<const float> gradient(size_t index) const { return parameters_.at(index).gradient.as<float>(); }
  const std::string& passes() const { return passes_; }  // the units that the last train() entered and left

  bool gave_rows() const { return gave_rows_; }

 private:
  // A parameter's values and gradient as float32 or, behind it, as bf16 (the upper half of a float32).
  struct Storage {
    std::string name;
    uint32_t flags = 0, unit = 0;
    std::vector<int64_t> shape;
    Guarded value, gradient, narrow_value, narrow_gradient;
    bool is_bound = false;    // its gradient
    std::vector<float> kept;  // `value`, while its unit is not open
    // In this micro-batch: how often the gradient came, and what the bound one was then.
    int times = 0;
    uint64_t reported = 0;

    uint64_t bound_bits() const;
  };

  void allocate(const pl_parameter& parameter);
  void bind(size_t index, const pl_parameter& parameter);
  void watch(const char* slot, const std::function<void()>& work);
  static pl_error* ready(void* user, const pl_gradient* gradient) noexcept;
  void add(const pl_gradient& gradient);
  static pl_error* enter(void* user, uint32_t unit, uint32_t pass) noexcept;
  static pl_error* leave(void* user, uint32_t unit, uint32_t pass) noexcept;
  void hide(uint32_t unit);
  void add_rows(Storage& storage, const pl_gradient& gradient);
  void check_reports() const;

  const OpenHow how_;
  Subject subject_;
  Task task_;
  bool gave_rows_ = false;
  pl_tensor loss_{};
  std::vector<Storage> parameters_;
  std::map<uint32_t, int> open_units_;  // how often each is entered
  std::string passes_;
  pl_unit_hooks hooks_{};
};

// The promise without which hardly another one of a task's says anything.
inline constexpr const char* kSame = "the same ids and seed give the same loss and gradients, bit for bit";

// "" where both are the same but for rounding.
std::string difference(const std::vector<float>& expected, const std::vector<float>& seen);
bool same_bits(const std::vector<float>& a, const std::vector<float>& b);

// Parts of task_promises().
std::vector<Promise> data_promises();
std::vector<Promise> gradient_promises();
std::vector<Promise> evaluation_promises();

}  // namespace pipeline::plugins
