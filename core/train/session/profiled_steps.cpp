#include "core/train/session/profiled_steps.hpp"

#include <charconv>
#include <string>

#include <fmt/format.h>

namespace pipeline::train {
namespace {

constexpr uint64_t kMostSteps = 100;  // more make a file that nothing opens

}  // namespace

std::optional<ProfiledSteps> profiled_steps(const config::Config& config) {
  constexpr const char* kKey = "observe.profile";
  const std::string& text = config.options().observe.profile;
  if (text.empty()) return std::nullopt;
  ProfiledSteps steps;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, steps.first);
  const bool dash = first.ec == std::errc() && first.ptr != end && *first.ptr == '-';
  const auto last = dash ? std::from_chars(first.ptr + 1, end, steps.last) : first;
  if (!dash || last.ec != std::errc() || last.ptr != end)
    throw config.error(kKey, "expected the first and the last step to record, as in \"10-14\"");
  if (steps.first < 1) throw config.error(kKey, "steps are counted from 1: begin with 1 or more");
  if (steps.last < steps.first) throw config.error(kKey, "the last step is before the first: exchange them");
  if (steps.last - steps.first >= kMostSteps)
    throw config.error(kKey, fmt::format("{} steps make a trace that is too large to open: record {} at most",
                                         steps.last - steps.first + 1, kMostSteps));
  return steps;
}

}  // namespace pipeline::train
