#include "plugins/strategies/common/layout.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace pipeline::strategies {

Layout::Layout(const std::vector<Parameter>& parameters) : slot_index_(parameters.size()) {
  // Groups in the order in which their first parameter comes.
  std::vector<std::vector<size_t>> members;
  std::map<std::pair<double, bool>, size_t> known;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    if (!parameter.trainable) continue;
    const auto [found, is_new] =
        known.try_emplace({parameter.lr_multiplier, parameter.decay}, members.size());
    if (is_new) {
      members.emplace_back();
      groups_.push_back({parameter.lr_multiplier, parameter.decay, 0, 0});
    }
    members[found->second].push_back(i);
  }
  for (size_t group = 0; group < members.size(); ++group) {
    groups_[group].first_slot = slots_.size();
    groups_[group].slot_count = members[group].size();
    for (const size_t index : members[group]) place(parameters, index);
    length_ = round_up(length_, kChunk);
  }
  trainable_slots_ = slots_.size();
  trainable_length_ = length_;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].trainable) place(parameters, i);
  }
  length_ = round_up(length_, kChunk);
}

void Layout::place(const std::vector<Parameter>& parameters, size_t index) {
  const auto count = static_cast<int64_t>(parameters[index].count());
  slot_index_[index] = slots_.size();
  slots_.push_back({index, length_, count, round_up(count, kRun)});
  // A parameter without elements has a place, too, so that every part of the arena knows what is in it.
  length_ += round_up(std::max<int64_t>(count, 1), kAlignment);
}

}  // namespace pipeline::strategies
