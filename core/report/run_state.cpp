#include "core/report/run_record.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "core/base/fail.hpp"
#include "core/base/files.hpp"
#include "core/observe/format.hpp"
#include "core/report/table.hpp"

namespace pipeline::report {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 4;  // folders below the one that is searched

bool is_run(const fs::path& folder) {
  return has_steps(folder) || (is_there(folder / ".lock") && is_there(folder / "logs"));
}

// Whether the process that the lock names holds it. Asking for the lock would be in the way of a run that
// starts at that moment.
bool is_locked(const fs::path& lock) {
  struct stat of {};
  std::string holder;
  if (::stat(lock.c_str(), &of) != 0 || !S_ISREG(of.st_mode) || !(std::ifstream(lock) >> holder))
    return false;
  std::ifstream locks("/proc/locks");  // "1: FLOCK ADVISORY WRITE 1234 fd:01:5678 0 EOF"
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, type, access, process, file;
    words >> number >> kind >> type >> access >> process >> file;
    if (kind == "FLOCK" && process == holder && file.ends_with(":" + std::to_string(of.st_ino))) return true;
  }
  return false;
}

// What the end of a run's record and its summary say; nullopt: it has not come to its first step.
std::optional<RunRecord> read(const fs::path& folder) {
  if (!has_steps(folder)) return std::nullopt;
  RunRecord run{.path = folder, .training = read_last_steps(folder / "metrics.jsonl")};
  if (const fs::path summary = folder / "summary.json"; is_there(summary))
    run.summary = read_summary(summary);
  return run;
}

// The state, where it can be told without the records; asked before they are read: a run may end meanwhile.
std::optional<RunState> marked(const fs::path& folder) {
  // The lock of a run with stages is held on the stage that is under way.
  if (is_locked(folder / ".lock")) return RunState::running;
  if (is_there(folder / "finished.txt")) return RunState::finished;
  if (is_there(folder / "diverged.txt")) return RunState::diverged;
  return std::nullopt;
}

// The state of a run that has ended without being finished.
RunState state_by(const std::optional<RunRecord>& run) {
  if (!run || run->training.steps.empty()) return RunState::begun;
  const bool saved = run->summary.is_object() && run->summary.value("steps", uint64_t{0}) == run->last_step();
  return saved ? RunState::stopped : RunState::cut_off;
}

std::string ago(fs::file_time_type time) {
  const double seconds = std::chrono::duration<double>(fs::file_time_type::clock::now() - time).count();
  return observe::human_duration(std::max(0.0, seconds)) + " ago";
}

}  // namespace

std::string_view name_of(RunState state) {
  switch (state) {
    case RunState::begun:
      return "begun";
    case RunState::running:
      return "running";
    case RunState::finished:
      return "finished";
    case RunState::diverged:
      return "diverged";
    case RunState::stopped:
      return "stopped";
    case RunState::cut_off:
      return "cut off";
  }
  return "";
}

RunState state_of(const fs::path& folder) {
  const auto state = marked(folder);
  return state ? *state : state_by(read(folder));
}

std::string last_checkpoint(const fs::path& folder) {
  std::string last;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder / "checkpoints", none))
    if (const std::string name = entry.path().filename(); name.starts_with("step-"))
      last = std::max(last, name);
  return last;
}

bool comes_before(const fs::path& a, const fs::path& b) {
  const std::string &one = a.native(), &other = b.native();
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  // A number without the zeros before it; `at`: where it begins, and then what follows it.
  const auto number = [&](const std::string& text, size_t& at) {
    while (at < text.size() && text[at] == '0') ++at;
    const size_t begin = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return text.substr(begin, at - begin);
  };
  size_t i = 0, j = 0;
  while (i < one.size() && j < other.size()) {
    if (!is_digit(one[i]) || !is_digit(other[j])) {
      if (one[i] != other[j]) return one[i] < other[j];
      ++i, ++j;
      continue;
    }
    const std::string mine = number(one, i), theirs = number(other, j);
    if (mine != theirs) return mine.size() != theirs.size() ? mine.size() < theirs.size() : mine < theirs;
  }
  if (i < one.size() || j < other.size()) return i == one.size();
  return one < other;  // they differ in zeros
}

std::vector<fs::path> find_runs(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw Error(PL_ERROR_CONFIG, folder.string() + ": there is no such folder");
  std::vector<fs::path> runs;
  if (is_run(folder)) runs.push_back(folder);
  for (fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && at != end; at.increment(error)) {
    std::error_code no_folder;  // such as a link to itself
    if (!at->is_directory(no_folder)) continue;
    if (at.depth() + 1 >= kDeepest || at->path().filename() == "checkpoints") at.disable_recursion_pending();
    if (is_run(at->path())) runs.push_back(at->path());
  }
  if (error) fail("{}: cannot be read: {}", folder.string(), error.message());
  // The folder of a run with stages has a lock of its own and nothing else: its stages say it all.
  std::ranges::sort(runs, comes_before);
  std::erase_if(runs, [&](const fs::path& run) {
    return !has_steps(run) && std::ranges::any_of(runs, [&](const fs::path& other) {
      return other != run && other.parent_path() == run;
    });
  });
  return runs;
}

namespace {

// "loss 3.9289 (step-00000400)", or where that checkpoint is gone, "loss 3.9289 at step 400".
std::string shown_in_list(const RunRecord::Best& best, const fs::path& folder) {
  const fs::path checkpoint = folder / best.checkpoint();
  return fmt::format("{} {:.4f} {}", best.metric, best.value,
                     is_there(checkpoint) ? "(" + checkpoint.filename().string() + ")"
                                          : fmt::format("at step {}", best.step));
}

struct ListedRun {
  std::vector<std::string> row;
  std::optional<RunRecord::Best> best;
};

bool is_better(const ListedRun& a, const ListedRun& b) {
  if (!a.best || !b.best) return a.best.has_value() && !b.best;
  if (a.best->metric != b.best->metric) return a.best->metric < b.best->metric;
  return a.best->higher_is_better ? a.best->value > b.best->value : a.best->value < b.best->value;
}

}  // namespace

RunList list_runs(const std::vector<fs::path>& folders, bool best_first) {
  std::vector<ListedRun> runs;
  RunList list;
  for (const fs::path& folder : folders) {
    ListedRun& listed = runs.emplace_back(ListedRun{.row = {folder.string()}});
    std::vector<std::string>& row = listed.row;
    try {
      const auto state = marked(folder);
      const auto run = read(folder);
      row.emplace_back(name_of(state ? *state : state_by(run)));
      if (run) {
        const std::vector<double>* const loss = run->training.find("loss");
        listed.best = run->best();
        row.push_back(std::to_string(run->last_step()));
        row.push_back(loss == nullptr ? "" : fmt::format("{:.4f}", loss->back()));
        row.push_back(listed.best ? shown_in_list(*listed.best, folder) : "");
        row.push_back(run->throughput() > 0 ? observe::human_count(run->throughput()) : "");
        row.push_back(last_checkpoint(folder));
        row.push_back(ago(fs::last_write_time(folder / "metrics.jsonl")));
      }
    } catch (const Error& error) {
      row.resize(1);
      row.emplace_back("unreadable");
      list.problems.emplace_back(error.what());
    }
  }
  if (best_first) std::ranges::stable_sort(runs, is_better);
  std::vector<std::vector<std::string>> rows{
      {"run", "state", "step", "loss", "best", "per second", "checkpoint", "last written"}};
  for (ListedRun& listed : runs) rows.push_back(std::move(listed.row));
  list.table = aligned(rows);
  return list;
}

}  // namespace pipeline::report
