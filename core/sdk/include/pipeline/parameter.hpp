#pragma once

#include <pipeline/host.hpp>
#include <pipeline/namespace.hpp>
#include <pipeline/tensor.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

PIPELINE_SDK_BEGIN

struct Parameter {
  std::string name;
  std::vector<int64_t> shape;
  bool trainable = true;
  bool decay = true;           // weight decay applies
  uint32_t unit = 0;           // layer index
  double lr_multiplier = 1;    // scales the learning rate
  uint32_t optimizer = 0;      // for strategies: index of its optimizer, set by the host
  bool is_new = false;         // keeps its initial value if the weights that a stage starts from lack it
  bool droppable = false;      // a later stage may do without it
  uint32_t forms = 0;          // PL_FORM_... in which its value may be kept where it is not trained
  bool hidden_matrix = false;  // neither embedding nor head: for rules such as Muon
  uint32_t form = 0;           // for strategies: the one of `forms` in force; 0: the run's parameter_dtype
  uint64_t form_bytes = 0;     // for strategies: of the value in PL_FORM_INT8 or PL_FORM_NF4
  uint32_t loss = 0;           // that trains it, where a task has several: see pl_loss

  uint64_t count() const { return element_count(shape); }

  // For strategies: whether the value is bytes of the task's own, and how it is stored.
  bool is_coded() const { return (form & (PL_FORM_INT8 | PL_FORM_NF4)) != 0; }
  std::string_view value_kind() const {
    return form == PL_FORM_INT8 ? "int8" : form == PL_FORM_NF4 ? "nf4" : "value";
  }
  std::vector<int64_t> stored_shape() const {
    return is_coded() ? std::vector<int64_t>{static_cast<int64_t>(form_bytes)} : shape;
  }

  static Parameter from(const pl_parameter& p) {
    return {std::string(view(p.name)),
            {p.shape, p.shape + p.ndim},
            (p.flags & PL_PARAMETER_TRAINABLE) != 0,
            (p.flags & PL_PARAMETER_DECAY) != 0,
            p.unit,
            p.lr_multiplier,
            p.optimizer,
            (p.flags & PL_PARAMETER_NEW) != 0,
            (p.flags & PL_PARAMETER_DROPPABLE) != 0,
            p.forms,
            (p.flags & PL_PARAMETER_HIDDEN_MATRIX) != 0,
            p.form,
            p.form_bytes,
            p.loss};
  }

  // Borrows the name and the shape.
  pl_parameter raw() const {
    auto out = sized<pl_parameter>();
    out.flags = (trainable ? PL_PARAMETER_TRAINABLE : 0) | (decay ? PL_PARAMETER_DECAY : 0) |
                (is_new ? PL_PARAMETER_NEW : 0) | (droppable ? PL_PARAMETER_DROPPABLE : 0) |
                (hidden_matrix ? PL_PARAMETER_HIDDEN_MATRIX : 0);
    out.ndim = static_cast<uint32_t>(shape.size());
    out.unit = unit;
    out.shape = shape.data();
    out.name = str(name);
    out.lr_multiplier = lr_multiplier;
    out.optimizer = optimizer;
    out.forms = forms;
    out.form = form;
    out.form_bytes = form_bytes;
    out.loss = loss;
    return out;
  }
};

// A finished gradient on its way from a task to a strategy. If it carries the task's own tensor, it owns
// that memory, and frees it unless take_owner() has moved it out.
class Gradient {
 public:
  // Owns a gradient's memory; the destructor frees it.
  class Owner {
   public:
    Owner() = default;
    Owner(void* owner, void (*release)(void*)) : owner_(owner), release_(release) {}
    Owner(Owner&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), release_(other.release_) {}
    Owner& operator=(Owner&& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(release_, other.release_);
      return *this;
    }
    ~Owner() {
      if (owner_ != nullptr) release_(owner_);
    }
    explicit operator bool() const { return owner_ != nullptr; }

   private:
    void* owner_ = nullptr;
    void (*release_)(void*) = nullptr;
  };

  explicit Gradient(const pl_gradient* sent) : raw_(receive(sent)) {
    if (raw_.owner != nullptr) owner_ = Owner(raw_.owner, raw_.release);
    require_known_flags("a gradient", raw_.flags, 0);
    if (raw_.tensor == nullptr) fail("gradient ", raw_.index, " comes without a tensor");
  }

  uint64_t index() const { return raw_.index; }             // of the parameter
  const pl_tensor& tensor() const { return *raw_.tensor; }  // valid during the call
  pl_stream stream() const { return raw_.stream; }          // on which it is complete
  // (K) int64: the tensor, (K, ...), is added to these rows of the gradient; NULL: it covers all rows. Set
  // only if the strategy's flags have PL_STRATEGY_TAKES_ROWS. Valid during the call.
  const pl_tensor* rows() const { return raw_.rows; }
  bool is_handed_over() const { return raw_.owner != nullptr; }
  Owner take_owner() { return std::move(owner_); }  // to keep the tensor's memory after the call

 private:
  pl_gradient raw_;
  Owner owner_;
};

PIPELINE_SDK_END
