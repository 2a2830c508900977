#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <pipeline.h>

namespace pipeline::strategies {

// The units that a micro-batch goes through, forward and back. Every micro-batch goes the same way, on all
// ranks; so the last one says what comes next in this one, and what a rank without a micro-batch must do to
// keep step.
class UnitOrder {
 public:
  struct Event {
    uint32_t unit;
    uint32_t pass;
    bool enter;
    bool operator==(const Event&) const = default;
  };

  void add(const Event& event) {
    follows_ = follows_ && events_.size() < last_.size() && last_[events_.size()] == event;
    events_.push_back(event);
    if (event.enter && event.pass == PL_PASS_FORWARD) ++open_[event.unit];
    if (!event.enter && event.pass == PL_PASS_BACKWARD) --open_[event.unit];
  }

  // Whether the backward pass has been through the unit as often as the forward pass.
  bool is_through(uint32_t unit) const {
    const auto found = open_.find(unit);
    return found != open_.end() && found->second <= 0;
  }

  // The unit that is entered next, as far as is known.
  std::optional<uint32_t> next() const {
    if (!follows_) return std::nullopt;
    for (size_t i = events_.size(); i < last_.size(); ++i) {
      if (last_[i].enter) return last_[i].unit;
    }
    return std::nullopt;
  }

  // The unit that is entered after `unit` in a forward pass, as far as is known: units that a forward pass
  // enters twice are taken for their first time.
  std::optional<uint32_t> after_forward(uint32_t unit) const {
    bool is_after = false;
    for (const Event& event : last_) {
      if (!event.enter || event.pass != PL_PASS_FORWARD) continue;
      if (is_after) return event.unit;
      is_after = event.unit == unit;
    }
    return std::nullopt;
  }

  // Whether this micro-batch has been through any unit.
  bool has_begun() const { return !events_.empty(); }

  // What the last micro-batch went through.
  const std::vector<Event>& last() const { return last_; }

  void end() {
    if (!events_.empty()) last_ = std::move(events_);
    abandon();
  }
  // Begins a micro-batch anew.
  void abandon() {
    events_.clear();
    open_.clear();
    follows_ = true;
  }

 private:
  std::vector<Event> last_;
  std::vector<Event> events_;
  std::map<uint32_t, int64_t> open_;
  bool follows_ = true;
};

}  // namespace pipeline::strategies
