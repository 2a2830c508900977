#pragma once

#include <pipeline.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "plugins/strategies/common/layout.hpp"
#include "plugins/strategies/sharded/partition.hpp"
#include "plugins/strategies/sharded/rank_group.hpp"
#include "plugins/strategies/sharded/shard.hpp"

namespace pipeline::strategies {

// Memory for the weights of a few units. Unit 0 has a slot of its own: what the whole pass uses, such as an
// embedding that is also the head, stays in place, and may be in use while layers come and go. The k-th of
// the others is always in slot k mod `slots`, at the same addresses. A unit is put together from the ranks'
// shards before it is used, unless it is still there from the last time. [collective]
class UnitSlots {
 public:
  UnitSlots(std::shared_ptr<const Layout> layout, const Partition& partition, const RankGroup& ranks,
            const Shard& shard, at::ScalarType dtype, size_t slots);

  // Where parameter `index` is while its unit is in use; borrowed from this object.
  void* address(size_t index) const;

  // Waits until the unit is in place; it stays there until it is left as often as it was entered.
  void enter(uint32_t unit);
  void leave(uint32_t unit);
  // Starts to put a unit in place, where its slot is not in use.
  void prefetch(uint32_t unit);
  // The weights have changed: nothing that is in the slots counts any more.
  void invalidate();
  // Leaves what a pass that was given up has not left.
  void abandon();

  uint64_t bytes() const;

 private:
  struct Unit {
    uint32_t number = 0;
    size_t slot = 0;
    std::array<int64_t, kStoredWays.size()> lengths{};  // of values kept in each way
    std::vector<std::pair<size_t, int64_t>> buckets;    // and where each begins in the slot's memory
  };
  struct Slot {
    std::array<at::Tensor, kStoredWays.size()> memory;
    const Unit* unit = nullptr;  // that is in place or on its way
    uint32_t users = 0;
    std::vector<RankGroup::Pending> pending;  // goes before the memory
  };

  size_t way(int64_t offset) const { return static_cast<size_t>(layout_->stored(offset)); }
  const Unit* find(uint32_t unit) const;
  void place_region(const Region& region);
  void gather(const Unit& unit);
  void wait(Slot& slot);

  std::shared_ptr<const Layout> layout_;
  const Partition& partition_;
  const RankGroup& ranks_;
  const Shard& shard_;
  std::map<uint32_t, Unit> units_;
  std::vector<int64_t> offsets_;  // in its slot, by place in the layout
  std::vector<Slot> slots_;
};

// The units that a micro-batch goes through, forward and back. Every micro-batch of a step goes the same way,
// on all ranks, and mostly so do those of the next step; so the last one says what comes next in this one,
// and what a rank without a micro-batch must do to keep step.
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
