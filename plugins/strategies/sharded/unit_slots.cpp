#include "plugins/strategies/sharded/unit_slots.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <pipeline/error.hpp>

#include <ATen/ops/full.h>

namespace pipeline::strategies {

UnitSlots::UnitSlots(std::shared_ptr<const Layout> layout, const Partition& partition, const RankGroup& ranks,
                     const Shard& shard, at::ScalarType dtype, size_t slots)
    : layout_(std::move(layout)),
      partition_(partition),
      ranks_(ranks),
      shard_(shard),
      offsets_(layout_->slots().size()),
      slots_(slots + 1) {
  for (const Region& region : layout_->regions()) place_region(region);
  std::vector<std::array<int64_t, kStoredWays.size()>> lengths(slots_.size());
  size_t index = 0;
  for (auto& [number, unit] : units_) {
    unit.slot = number == 0 ? 0 : 1 + index++ % slots;
    for (size_t way = 0; way < kStoredWays.size(); ++way)
      lengths[unit.slot][way] = std::max(lengths[unit.slot][way], unit.lengths[way]);
  }
  const at::TensorOptions options(ranks_.device());
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    // Nobody may read what no unit has put there: it is not a number, nor are floats among bytes.
    for (const Stored how : kStoredWays) {
      const auto way = static_cast<size_t>(how);
      const double none = how == Stored::kBytes ? 0xff : std::numeric_limits<double>::quiet_NaN();
      slots_[slot].memory[way] = at::full({lengths[slot][way]}, none, options.dtype(type_of(how, dtype)));
    }
  }
}

// A unit's trained and frozen parameters are two regions, one after the other in its slot; those that are
// kept in bfloat16, or as bytes, have memory of their own.
void UnitSlots::place_region(const Region& region) {
  Unit& unit = units_[region.unit];
  unit.number = region.unit;
  int64_t& length = unit.lengths[way(region.begin)];
  const int64_t shift = length - region.begin;
  const auto [first, last] = partition_.buckets_of(region.begin, region.end);
  for (size_t bucket = first; bucket < last; ++bucket) {
    unit.buckets.emplace_back(bucket, partition_.buckets()[bucket].begin + shift);
  }
  const std::vector<strategies::Slot>& places = layout_->slots();
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i].offset >= region.begin && places[i].offset < region.end)
      offsets_[i] = places[i].offset + shift;
  }
  length += region.end - region.begin;
}

void* UnitSlots::address(size_t index) const {
  const size_t place = layout_->slot_index(index);
  for (const Region& region : layout_->regions()) {
    const int64_t offset = layout_->slots()[place].offset;
    if (offset < region.begin || offset >= region.end) continue;
    const at::Tensor& memory = slots_[units_.at(region.unit).slot].memory[way(offset)];
    return static_cast<std::byte*>(memory.mutable_data_ptr()) +
           static_cast<size_t>(offsets_[place]) * memory.element_size();
  }
  fail("parameter ", index, " has no place");
}

const UnitSlots::Unit* UnitSlots::find(uint32_t unit) const {
  const auto found = units_.find(unit);
  return found == units_.end() ? nullptr : &found->second;  // a unit without parameters
}

void UnitSlots::enter(uint32_t number) {
  const Unit* unit = find(number);
  if (unit == nullptr) return;
  Slot& slot = slots_[unit->slot];
  if (slot.unit != unit) {
    if (slot.users > 0) {
      fail("unit ", number,
           " is entered while another unit uses its slot: use strategy.unit_slots = ", slots_.size(),
           " or more");
    }
    gather(*unit);
  }
  wait(slot);
  ++slot.users;
}

void UnitSlots::leave(uint32_t number) {
  const Unit* unit = find(number);
  if (unit == nullptr) return;
  Slot& slot = slots_[unit->slot];
  if (slot.unit != unit || slot.users == 0) fail("unit ", number, " is left and was not entered");
  --slot.users;
}

void UnitSlots::prefetch(uint32_t number) {
  const Unit* unit = find(number);
  if (unit != nullptr && slots_[unit->slot].unit != unit && slots_[unit->slot].users == 0) gather(*unit);
}

void UnitSlots::gather(const Unit& unit) {
  Slot& slot = slots_[unit.slot];
  wait(slot);
  slot.unit = &unit;
  for (const auto& [bucket, offset] : unit.buckets) {
    const Range& range = partition_.buckets()[bucket];
    const at::Tensor memory = slot.memory[way(range.begin)].narrow(0, offset, range.length());
    shard_.place(bucket, memory);
    ranks_.all_gather(memory, slot.pending.emplace_back(), concat("weights of unit ", unit.number));
  }
}

void UnitSlots::wait(Slot& slot) {
  for (RankGroup::Pending& pending : slot.pending) ranks_.wait(pending);
  slot.pending.clear();
}

void UnitSlots::invalidate() {
  for (Slot& slot : slots_) {
    wait(slot);
    slot.unit = nullptr;
  }
}

void UnitSlots::abandon() {
  for (Slot& slot : slots_) slot.users = 0;
}

uint64_t UnitSlots::bytes() const {
  uint64_t bytes = 0;
  for (const Slot& slot : slots_)
    for (const at::Tensor& memory : slot.memory) bytes += memory.nbytes();
  return bytes;
}

}  // namespace pipeline::strategies
