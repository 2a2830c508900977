#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "plugins/strategies/common/layout.hpp"
#include "plugins/strategies/sharded/partition.hpp"
#include "plugins/strategies/sharded/peers.hpp"
#include "plugins/strategies/sharded/shard.hpp"

namespace pipeline::strategies {

// Memory for the weights of a few units. Unit 0 has a slot of its own: what the whole pass uses, such as an
// embedding that is also the head, stays in place, and may be in use while layers come and go. The k-th of
// the others is always in slot k mod `slots`, at the same addresses. A unit is put together from the ranks'
// shards before it is used, unless it is still there from the last time. [collective]
class UnitSlots {
 public:
  UnitSlots(std::shared_ptr<const Layout> layout, const Partition& partition, const Peers& peers,
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
    std::array<int64_t, 2> lengths{};                 // of wide and of narrow values
    std::vector<std::pair<size_t, int64_t>> buckets;  // and where each begins in the slot's memory
  };
  struct Slot {
    std::array<at::Tensor, 2> memory;  // for wide values, and for those in bfloat16
    const Unit* unit = nullptr;        // that is in place or on its way
    uint32_t users = 0;
    std::vector<Peers::Pending> pending;  // goes before the memory
  };

  size_t is_narrow(int64_t offset) const { return offset >= layout_->narrow_begin() ? 1 : 0; }
  const Unit* find(uint32_t unit) const;
  void place_region(const Region& region);
  void gather(const Unit& unit);
  void wait(Slot& slot);

  std::shared_ptr<const Layout> layout_;
  const Partition& partition_;
  const Peers& peers_;
  const Shard& shard_;
  std::map<uint32_t, Unit> units_;
  std::vector<int64_t> offsets_;  // in its slot, by place in the layout
  std::vector<Slot> slots_;
};

}  // namespace pipeline::strategies
