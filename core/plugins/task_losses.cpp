// The part of plugins::Task that is about several losses: which there are, and when each has its turn.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "core/base/abi_values.hpp"
#include "core/base/fail.hpp"
#include "core/plugins/task.hpp"

namespace pipeline::plugins {
namespace {

uint64_t all_of(const std::vector<Loss>& losses) {
  return losses.size() == PL_MAX_LOSSES ? ~uint64_t{0} : (uint64_t{1} << losses.size()) - 1;
}

uint64_t idle_at(const std::vector<Loss>& losses, uint64_t step) {
  uint64_t idle = 0;
  for (size_t i = 0; i < losses.size(); ++i)
    if (!losses[i].has_turn(step)) idle |= uint64_t{1} << i;
  return idle;
}

// The step with the most turns, from 1. Throws if there is one in which no loss has any. Behind the last
// one's first turn they repeat.
uint64_t busiest_of(const std::string& plugin, const std::vector<Loss>& losses) {
  constexpr uint64_t kMost = 1'000'000;  // steps that are looked at
  uint64_t begun = 0, period = 1, busiest = 1;
  std::string turns;
  for (const Loss& loss : losses) {
    begun = std::max(begun, loss.first);
    period = std::min(std::lcm(period, std::min(loss.every, kMost)), kMost);
    turns += fmt::format("{}'{}' (first = {}, every = {})", turns.empty() ? "" : ", ", loss.name, loss.first,
                         loss.every);
  }
  for (uint64_t step = 1; step < std::min(begun + period, kMost); ++step) {
    const uint64_t idle = idle_at(losses, step);
    if (std::popcount(idle) < std::popcount(idle_at(losses, busiest))) busiest = step;
    if (idle == all_of(losses))
      fail(PL_ERROR_CONFIG, "{}: in step {} no loss has a turn, of {}: a step must train something", plugin,
           step, turns);
  }
  return busiest;
}

}  // namespace

const std::vector<Loss>& Task::losses() {
  if (losses_) return *losses_;
  std::vector<Loss> read;
  std::set<std::string> names;
  const uint64_t count =
      api_.loss_count ? call_.main("loss_count", [&] { return api_.loss_count(self_); }) : 0;
  if (count > PL_MAX_LOSSES)
    fail("{}: has {} losses, at most {} are possible", plugin().label(), count, PL_MAX_LOSSES);
  for (uint64_t i = 0; i < count; ++i) {
    auto raw = sized<pl_loss>();
    call_.main("loss", [&] { return api_.loss(self_, i, &raw); });
    Loss loss{std::string(view(raw.name)), raw.first, raw.every, {}};
    for (uint64_t k = 0; k < raw.option_count; ++k)
      loss.options[std::string(view(raw.options[k].name))] = raw.options[k].value;
    if (loss.name.empty() || !names.insert(loss.name).second || loss.first == 0 || loss.every == 0)
      fail(
          "{}: loss {} '{}' (first = {}, every = {}): must have a name of its own, and turns that count from "
          "1",
          plugin().label(), i, loss.name, loss.first, loss.every);
    read.push_back(std::move(loss));
  }
  if (count > 0) busiest_step_ = busiest_of(plugin().label(), read) - 1;
  return losses_.emplace(std::move(read));
}

void Task::require_work_for_losses(const std::vector<pl_parameter>& parameters) {
  for (size_t i = 0; i < losses().size(); ++i)
    if (std::ranges::none_of(parameters, [&](const pl_parameter& p) {
          return p.loss == i && (p.flags & PL_PARAMETER_TRAINABLE) != 0;
        }))
      fail(PL_ERROR_CONFIG, "{}: loss '{}' trains nothing: no trainable parameter is of it", plugin().label(),
           losses()[i].name);
}

uint64_t Task::busiest_step() {
  losses();
  return busiest_step_;
}

uint64_t Task::idle_losses(uint64_t step) { return idle_at(losses(), step + 1); }

}  // namespace pipeline::plugins
