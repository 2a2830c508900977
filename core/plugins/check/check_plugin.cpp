#include "core/plugins/check/check_plugin.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/plugins/check/subject.hpp"
#include "core/plugins/child.hpp"
#include "core/plugins/error.hpp"

namespace pipeline::plugins {
namespace {

// What a child reports when the check does not apply.
constexpr std::string_view kSkipMark = "skipped: ";

std::string first_line(std::string text) { return text.substr(0, text.find('\n')); }

Check run(const Promise& promise, const CheckArgs& args) {
  const ChildResult child = run_in_child(args.limit, [&]() -> std::string {
    try {
      promise.test(args);
      return {};
    } catch (const Skip& skip) {
      return std::string(kSkipMark) + skip.reason;
    }
  });
  Check check{promise.name, Outcome::kPassed, {}};
  if (!child.ok) {
    check.outcome = Outcome::kFailed;
    check.detail = child.problem;
  } else if (!child.output.empty()) {
    check.outcome = Outcome::kFailed;
    check.detail =
        fmt::format("wrote to stdout or stderr, which are the host's: \"{}\"", first_line(child.output));
  } else if (child.value.starts_with(kSkipMark)) {
    check.outcome = Outcome::kSkipped;
    check.detail = child.value.substr(kSkipMark.size());
  }
  return check;
}

// "task summarization 1.0" and its kind, from a process of its own.
std::pair<std::string, std::uint32_t> identity(const CheckArgs& args) {
  const ChildResult child = run_in_child(args.limit, [&] {
    const Plugin& plugin = Plugin::load(args.plugin);
    return fmt::format("{}{} {}", static_cast<std::uint32_t>(plugin.kind()), plugin.label(),
                       plugin.version());
  });
  if (!child.ok) return {};
  return {child.value.substr(1), static_cast<std::uint32_t>(child.value.front() - '0')};
}

std::vector<Promise> promises_of(std::uint32_t kind) {
  if (kind == PL_PLUGIN_TASK) return task_promises();
  if (kind == PL_PLUGIN_STRATEGY) return strategy_promises();
  return backend_promises();
}

}  // namespace

bool CheckReport::passed() const {
  return std::none_of(checks.begin(), checks.end(),
                      [](const Check& check) { return check.outcome == Outcome::kFailed; });
}

CheckReport check_plugin(const CheckArgs& args) {
  CheckReport report;
  report.path = args.plugin;
  const auto [label, kind] = identity(args);
  report.label = label;
  for (const Promise& promise : library_promises()) {
    report.checks.push_back(run(promise, args));
    if (label.empty()) return report;  // it does not load, and the first check says why
  }
  for (const Promise& promise : promises_of(kind)) report.checks.push_back(run(promise, args));
  return report;
}

std::string to_text(const CheckReport& report) {
  std::string text =
      fmt::format("{}{}{}\n", report.path.string(), report.label.empty() ? "" : ": ", report.label);
  int failed = 0, skipped = 0;
  for (const Check& check : report.checks) {
    const char* mark = check.outcome == Outcome::kPassed   ? "ok  "
                       : check.outcome == Outcome::kFailed ? "FAIL"
                                                           : "skip";
    text += fmt::format("  {} {}{}{}\n", mark, check.name, check.detail.empty() ? "" : ": ", check.detail);
    failed += check.outcome == Outcome::kFailed ? 1 : 0;
    skipped += check.outcome == Outcome::kSkipped ? 1 : 0;
  }
  text += failed ? fmt::format("{} of {} checks failed", failed, report.checks.size())
                 : fmt::format("{} checks passed", report.checks.size() - static_cast<std::size_t>(skipped));
  if (skipped) text += fmt::format(", {} skipped", skipped);
  return text + "\n";
}

}  // namespace pipeline::plugins
