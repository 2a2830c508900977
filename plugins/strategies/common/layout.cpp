#include "plugins/strategies/common/layout.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace pipeline::strategies {

Layout::Layout(const std::vector<Parameter>& parameters, int64_t alignment)
    : alignment_(alignment), slot_index_(parameters.size()) {
  std::set<uint32_t> units;
  for (const Parameter& parameter : parameters) {
    units.insert(parameter.unit);
    losses_ = std::max<size_t>(losses_, parameter.loss + 1);
  }
  for (const uint32_t unit : units) place_region(parameters, unit, true, Stored::kWide);
  trainable_slots_ = slots_.size();
  trainable_length_ = length_;
  for (const Stored how : kStoredWays) {
    for (const uint32_t unit : units) place_region(parameters, unit, false, how);
    begins_[static_cast<size_t>(how) + 1] = length_;
  }
}

void Layout::place_region(const std::vector<Parameter>& parameters, uint32_t unit, bool trainable,
                          Stored how) {
  std::vector<size_t> members;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    const Stored its = parameter.is_coded()  ? Stored::kBytes
                       : parameter.form != 0 ? Stored::kNarrow
                                             : Stored::kWide;
    if (parameter.unit == unit && parameter.trainable == trainable && its == how) members.push_back(i);
  }
  if (members.empty()) return;
  const int64_t begin = length_;
  if (trainable) {
    place_groups(parameters, members);
  } else {
    for (const size_t index : members) place(parameters, index);
  }
  length_ = round_up(length_, alignment_);
  regions_.push_back({unit, begin, length_});
}

void Layout::place_groups(const std::vector<Parameter>& parameters, const std::vector<size_t>& members) {
  // Groups in the order in which their first parameter comes.
  std::vector<std::vector<size_t>> groups;
  std::map<std::tuple<double, uint32_t, uint32_t>, size_t> known;
  for (const size_t index : members) {
    const Parameter& parameter = parameters[index];
    const auto [found, is_new] =
        known.try_emplace({parameter.lr_multiplier, parameter.optimizer, parameter.loss}, groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(index);
  }
  for (const std::vector<size_t>& group : groups) {
    const Parameter& first = parameters[group.front()];
    const size_t first_slot = slots_.size();
    const int64_t begin = length_;
    for (const size_t index : group) place(parameters, index);
    length_ = round_up(length_, kChunk);
    groups_.push_back(
        {first.lr_multiplier, first.optimizer, first.loss, first_slot, group.size(), begin, length_});
  }
}

void Layout::place(const std::vector<Parameter>& parameters, size_t index) {
  std::vector<int64_t> shape = parameters[index].stored_shape();
  const auto count = static_cast<int64_t>(element_count(shape));
  slot_index_[index] = slots_.size();
  slots_.push_back({index, length_, count, round_up(count, kRun), std::move(shape)});
  // A parameter without elements has a place, too, so that every part of the arena knows what is in it.
  length_ += round_up(std::max<int64_t>(count, 1), kAlignment);
}

const Slot& Layout::slot_at(int64_t offset) const {
  const auto found = std::ranges::lower_bound(slots_, offset, {}, &Slot::offset);
  if (found == slots_.end() || found->offset != offset) fail("no parameter begins at element ", offset);
  return *found;
}

std::shared_ptr<const Layout> make_layout(std::vector<Parameter> parameters, const pl_run_info& run,
                                          int64_t alignment) {
  if (same(run.parameter_dtype, kFloat64)) {
    fail_with(PL_ERROR_UNSUPPORTED, "parameters in float64: must be float32, bfloat16 or float16");
  }
  for (const Parameter& parameter : parameters) {
    if (parameter.form != 0 &&
        (parameter.trainable || (parameter.form != PL_FORM_BFLOAT16 && !parameter.is_coded())))
      fail_with(PL_ERROR_UNSUPPORTED, "parameter ", parameter.name, " is to be kept in form ", parameter.form,
                ": only what is frozen may be, in bfloat16, 8 or 4 bits");
  }
  if (run.purpose != PL_PURPOSE_TRAIN) {
    for (Parameter& parameter : parameters) parameter.trainable = false;
  }
  return std::make_shared<const Layout>(parameters, alignment);
}

}  // namespace pipeline::strategies
