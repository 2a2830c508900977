#include "core/checkpoint/store.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "core/abi/pipeline.h"
#include "core/plugins/error.hpp"

namespace pipeline::checkpoint {
namespace {

constexpr std::string_view kStep = "step-";
constexpr std::string_view kTemporary = ".tmp-";
constexpr std::string_view kReplaced = ".old-";

const Found* best_of(const std::vector<Found>& newest_first, bool higher_is_better) {
  const Found* best = nullptr;
  for (const Found& found : newest_first) {
    if (!found.metric || !std::isfinite(*found.metric)) continue;
    if (!best || (higher_is_better ? *found.metric >= *best->metric : *found.metric <= *best->metric))
      best = &found;
  }
  return best;
}

}  // namespace

Store::Store(StoreOptions options, FileSystem& file_system)
    : options_(std::move(options)), file_system_(file_system) {}

Scan Store::scan() const {
  Scan scan;
  for (const std::string& name : list_folder(options_.folder)) {
    const std::optional<uint64_t> step = step_of(name);
    if (!step) {
      const bool ours = name.starts_with(kTemporary) || name.starts_with(kReplaced);
      scan.rejected.push_back({name, ours
                                         ? "is being written or was left by a killed run"
                                         : "is not a checkpoint: its name is not of the form step-00000123"});
      continue;
    }
    const std::string path = options_.folder + "/" + name;
    try {
      const Manifest manifest = read_manifest(path);
      if (manifest.contents.step == *step) {
        scan.checkpoints.push_back({*step, path, manifest.contents.metric});
      } else {
        scan.rejected.push_back({name, path + ": is of step " + std::to_string(manifest.contents.step) +
                                           ": the folder was renamed"});
      }
    } catch (const Error& error) {
      scan.rejected.push_back({name, error.what()});
    }
  }
  std::sort(scan.checkpoints.begin(), scan.checkpoints.end(),
            [](const Found& a, const Found& b) { return a.step > b.step; });
  return scan;
}

std::optional<Checkpoint> Store::newest_good(std::vector<Rejected>* rejected) const {
  Scan found = scan();
  std::optional<Checkpoint> good;
  for (const Found& candidate : found.checkpoints) {
    try {
      Checkpoint checkpoint = Checkpoint::open(candidate.path);
      checkpoint.verify();
      good = std::move(checkpoint);
      break;
    } catch (const Error& error) {
      found.rejected.push_back({folder_name(candidate.step), error.what()});
    }
  }
  if (rejected) rejected->insert(rejected->end(), found.rejected.begin(), found.rejected.end());
  return good;
}

std::optional<Found> Store::best() const {
  const Scan found = scan();
  const Found* best = best_of(found.checkpoints, options_.higher_is_better);
  return best ? std::optional(*best) : std::nullopt;
}

std::vector<std::string> Store::recover() {
  std::vector<std::string> done;
  for (const std::string& name : list_folder(options_.folder)) {
    const std::string path = options_.folder + "/" + name;
    if (name.starts_with(kTemporary) && step_of(name.substr(kTemporary.size()))) {
      file_system_.remove(path);
      done.push_back(path + ": removed, left half-written by a killed run");
    } else if (name.starts_with(kReplaced) && step_of(name.substr(kReplaced.size()))) {
      const std::string original = options_.folder + "/" + name.substr(kReplaced.size());
      if (exists(original)) {
        file_system_.remove(path);
        done.push_back(path + ": removed, its successor is complete");
      } else {
        file_system_.rename(path, original);
        done.push_back(original + ": brought back, its successor was not complete when the run was killed");
      }
    }
  }
  if (!done.empty()) file_system_.sync_folder(options_.folder);
  return done;
}

std::vector<std::string> Store::prune(uint64_t step) {
  std::vector<std::string> removed;
  if (options_.keep == 0) return removed;
  const Scan found = scan();
  const Found* best = options_.keep_best ? best_of(found.checkpoints, options_.higher_is_better) : nullptr;
  uint64_t seen = 0;
  for (const Found& candidate : found.checkpoints) {
    if (candidate.step > step || seen++ < options_.keep || &candidate == best) continue;
    // Renamed first: a run that is killed in between leaves no checkpoint with missing files.
    const std::string doomed = temporary_path_of(candidate.step);
    file_system_.rename(candidate.path, doomed);
    file_system_.remove(doomed);
    removed.push_back(folder_name(candidate.step));
  }
  return removed;
}

std::string Store::path_of(uint64_t step) const { return options_.folder + "/" + folder_name(step); }

std::string Store::temporary_path_of(uint64_t step) const {
  return options_.folder + "/" + std::string(kTemporary) + folder_name(step);
}

std::string Store::replaced_path_of(uint64_t step) const {
  return options_.folder + "/" + std::string(kReplaced) + folder_name(step);
}

std::string folder_name(uint64_t step) {
  char text[32];
  std::snprintf(text, sizeof text, "step-%08llu", static_cast<unsigned long long>(step));
  return text;
}

std::optional<uint64_t> step_of(std::string_view name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  const std::string_view digits = name.substr(kStep.size());
  uint64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || end != digits.data() + digits.size() || folder_name(step) != name)
    return std::nullopt;
  return step;
}

Checkpoint open_any(const std::string& path, Which which, bool higher_is_better) {
  if (exists(path + "/" + kManifestName)) {
    Checkpoint checkpoint = Checkpoint::open(path);
    checkpoint.verify();
    return checkpoint;
  }
  const std::string nested = path + "/checkpoints";
  const Store store({exists(nested) ? nested : path, 0, true, higher_is_better});
  if (which == Which::kBest) {
    if (const std::optional<Found> best = store.best()) {
      Checkpoint checkpoint = Checkpoint::open(best->path);
      checkpoint.verify();
      return checkpoint;
    }
  }
  std::vector<Rejected> rejected;
  if (std::optional<Checkpoint> checkpoint = store.newest_good(&rejected)) return std::move(*checkpoint);
  std::string message =
      path +
      ": holds no good checkpoint; give a checkpoint (a folder with manifest.json), a folder of "
      "them (step-00000123), or a run's folder (with checkpoints/ in it)";
  for (const Rejected& entry : rejected) {
    if (step_of(entry.name)) message += "\n  " + entry.name + ": " + entry.reason;
  }
  throw Error(PL_ERROR_CONFIG, message);
}

}  // namespace pipeline::checkpoint
