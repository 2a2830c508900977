#pragma once

#include <pipeline/torch/units.hpp>

#include <functional>
#include <utility>
#include <vector>

namespace pipeline::tests {

// Units as they are seen by a strategy that has a hook at each one's beginning and end.
class UnitRecorder {
 public:
  // Called where a unit begins (entered) and where it ends, with PL_PASS_FORWARD or PL_PASS_BACKWARD.
  using Told = std::function<void(uint32_t unit, uint32_t pass, bool entered)>;

  explicit UnitRecorder(Told told = nullptr) : told_(std::move(told)) {
    hooks_.struct_size = sizeof hooks_;
    hooks_.user = this;
    hooks_.enter = [](void* user, auto unit, auto pass, auto...) -> pl_error* {
      return tell(user, unit, pass, true);
    };
    hooks_.leave = [](void* user, auto unit, auto pass, auto...) -> pl_error* {
      return tell(user, unit, pass, false);
    };
    units_.set_hooks(&hooks_);
  }
  UnitRecorder(const UnitRecorder&) = delete;
  UnitRecorder& operator=(const UnitRecorder&) = delete;

  Units& units() { return units_; }
  std::vector<uint32_t> forward, backward;  // entered, in order

 private:
  static pl_error* tell(void* user, uint32_t unit, uint32_t pass, bool entered) {
    auto& self = *static_cast<UnitRecorder*>(user);
    if (entered) (pass != PL_PASS_BACKWARD ? self.forward : self.backward).push_back(unit);
    if (self.told_) self.told_(unit, pass, entered);
    return nullptr;
  }

  Told told_;
  pl_unit_hooks hooks_{};
  Units units_;
};

}  // namespace pipeline::tests
