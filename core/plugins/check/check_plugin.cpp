#include "core/plugins/check/check_plugin.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <iterator>

#include "core/base/child.hpp"
#include "core/base/error.hpp"
#include "core/plugins/check/subject.hpp"

namespace pipeline::plugins {
namespace {

// What a child reports when the check does not apply.
constexpr std::string_view kSkipMark = "skipped: ";

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

Check run(const Promise& promise, const CheckArgs& args) {
  const ChildResult child = run_in_child(args.limit, [&]() -> std::string {
    try {
      promise.test(args);
      // Slots that cannot return an error say there what went wrong.
      if (const std::string error = logged_error(); !error.empty()) throw Error("logged an error: " + error);
      return {};
    } catch (const Skip& skip) {
      return std::string(kSkipMark) + skip.reason;
    }
  });
  Check check{promise.name, Outcome::kPassed, {}};
  if (!child.ok) {
    check.outcome = Outcome::kFailed;
    check.detail = child.problem;
  } else if (!child.output.empty() && !Plugin::in_process(args.plugin)) {  // Python's libraries print
    check.outcome = Outcome::kFailed;
    check.detail =
        fmt::format("wrote to stdout or stderr, which are the host's: \"{}\"", first_line(child.output));
  } else if (child.value.starts_with(kSkipMark)) {
    check.outcome = Outcome::kSkipped;
    check.detail = child.value.substr(kSkipMark.size());
  }
  return check;
}

// The file of LibTorch, where this process has it.
std::string torch_library() {
  std::string path;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        if (std::string_view(info->dlpi_name).ends_with("/libtorch_cpu.so"))
          *static_cast<std::string*>(to) = info->dlpi_name;
        return 0;
      },
      &path);
  return path;
}

// "task summarization 1.0" and its kind, from a process of its own. If it brings LibTorch, this process takes
// it, too: for each check's process to load it anew would take most of the time.
std::pair<std::string, uint32_t> identity(const CheckArgs& args) {
  const ChildResult child = run_in_child(args.limit, [&] {
    const Plugin& plugin = Plugin::load(args.plugin);
    const std::string torch = Plugin::in_process(args.plugin) ? "" : torch_library();
    return fmt::format("{}{} {}\n{}", static_cast<uint32_t>(plugin.kind()), plugin.label(), plugin.version(),
                       torch);
  });
  if (!child.ok) return {};
  const size_t end = child.value.rfind('\n');
  if (const std::string torch = child.value.substr(end + 1); !torch.empty())
    ::dlopen(torch.c_str(), RTLD_NOW | RTLD_LOCAL);
  return {child.value.substr(1, end - 1), static_cast<uint32_t>(child.value.front() - '0')};
}

std::vector<Promise> promises_of(uint32_t kind) {
  if (kind == PL_PLUGIN_TASK) return task_promises();
  if (kind == PL_PLUGIN_STRATEGY) return strategy_promises();
  return kind == PL_PLUGIN_BACKEND ? backend_promises() : optimizer_promises();
}

std::string line_of(const Check& check) {
  const char* mark = check.outcome == Outcome::kPassed   ? "ok  "
                     : check.outcome == Outcome::kFailed ? "FAIL"
                                                         : "skip";
  return fmt::format("  {} {}{}{}", mark, check.name, check.detail.empty() ? "" : ": ", check.detail);
}

// "task summarization 1.0: 17 checks passed, 1 skipped"
std::string summary(const CheckReport& report) {
  const auto count = [&](Outcome outcome) {
    return std::count_if(report.checks.begin(), report.checks.end(),
                         [&](const Check& check) { return check.outcome == outcome; });
  };
  const auto failed = count(Outcome::kFailed), skipped = count(Outcome::kSkipped);
  std::string text = report.label.empty() ? "" : report.label + ": ";
  text += failed ? fmt::format("{} of {} checks failed", failed, report.checks.size())
                 : fmt::format("{} checks passed", count(Outcome::kPassed));
  if (skipped) text += fmt::format(", {} skipped", skipped);
  if (const auto unset = std::ranges::count(report.checks, kNeedsConfig, &Check::detail))
    text +=
        fmt::format("; to run the {} that need options, add --config FILE.toml or --set KEY=VALUE", unset);
  return text;
}

}  // namespace

bool CheckReport::passed() const {
  return std::none_of(checks.begin(), checks.end(),
                      [](const Check& check) { return check.outcome == Outcome::kFailed; });
}

CheckReport check_plugin(const CheckArgs& args, const std::function<void(const std::string& line)>& tell) {
  CheckReport report;
  const auto say = [&](const std::string& line) {
    report.text += line + "\n";
    tell(line);
  };
  say(args.plugin.string());
  const auto [label, kind] = identity(args);
  report.label = label;
  std::vector<Promise> promises = library_promises();
  if (label.empty())
    promises.resize(1);  // it does not load, and the first check says why
  else
    std::ranges::move(promises_of(kind), std::back_inserter(promises));
  for (const Promise& promise : promises) {
    const bool is_moot = std::ranges::any_of(report.checks, [&](const Check& check) {
      return check.name == promise.needs && check.outcome == Outcome::kFailed;
    });
    report.checks.push_back(
        is_moot ? Check{promise.name, Outcome::kSkipped, fmt::format("it needs that {}", promise.needs)}
                : run(promise, args));
    say(line_of(report.checks.back()));
  }
  say(summary(report));
  return report;
}

}  // namespace pipeline::plugins
