#include "core/checkpoint/store.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "core/abi/pipeline.h"
#include "core/base/error.hpp"

namespace pipeline::checkpoint {
namespace {

constexpr std::string_view kStep = "step-";
constexpr std::string_view kTemporary = ".tmp-";
constexpr std::string_view kReplaced = ".old-";
constexpr std::string_view kSetAside = "diverged-";

const Found* best_of(const std::vector<Found>& newest_first) {
  const Found* best = nullptr;
  for (const Found& found : newest_first) {
    if (!found.metric || !std::isfinite(found.metric->value)) continue;
    if (!best) {
      best = &found;
      continue;
    }
    const Metric &a = *found.metric, &b = *best->metric;
    if (a.name == b.name && (b.higher_is_better ? a.value >= b.value : a.value <= b.value)) best = &found;
  }
  return best;
}

const Found* newest_up_to(uint64_t step, const std::vector<Found>& newest_first) {
  const auto found = std::ranges::find_if(newest_first, [&](const Found& f) { return f.step <= step; });
  return found == newest_first.end() ? nullptr : &*found;
}

// Opens and verifies a checkpoint; a damaged one is added to `rejected`.
std::optional<Checkpoint> open_good(const Found& found, std::vector<Rejected>& rejected) {
  try {
    Checkpoint checkpoint = Checkpoint::open(found.path);
    checkpoint.verify();
    return checkpoint;
  } catch (const Error& error) {
    rejected.push_back({folder_name(found.step), error.what()});
    return std::nullopt;
  }
}

// The best, where that is wanted and there is one, else the newest: the first that verifies. `scan` ends up
// with all that were passed over.
std::optional<Checkpoint> choose(Scan& scan, Which which) {
  std::vector<Found>& left = scan.checkpoints;
  while (!left.empty()) {
    const Found* best = which == Which::kBest ? best_of(left) : nullptr;
    const auto candidate = best ? left.begin() + (best - left.data()) : left.begin();
    if (std::optional<Checkpoint> good = open_good(*candidate, scan.rejected)) return good;
    left.erase(candidate);
  }
  return std::nullopt;
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
      const bool set_aside = name.starts_with(kSetAside) && step_of(name.substr(kSetAside.size()));
      scan.rejected.push_back({name, ours ? "is being written or was left by a killed run"
                                     : set_aside
                                         ? "was set aside when the run diverged"
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
  std::optional<Checkpoint> good = choose(found, Which::kLast);
  if (rejected) rejected->insert(rejected->end(), found.rejected.begin(), found.rejected.end());
  return good;
}

std::optional<Found> Store::best() const {
  const Scan found = scan();
  const Found* best = best_of(found.checkpoints);
  return best ? std::optional(*best) : std::nullopt;
}

std::vector<std::string> Store::recover() {
  std::vector<std::string> done;
  for (const std::string& name : list_folder(options_.folder)) {
    const std::string path = options_.folder + "/" + name;
    if (name.starts_with(kTemporary) && step_of(name.substr(kTemporary.size()))) {
      file_system_.remove(path);
      done.push_back(path + ": removed, left half-written or half-removed by a killed run");
    } else if (is_replaced(name)) {
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
  const Found* best = options_.keep_best ? best_of(found.checkpoints) : nullptr;
  const Found* sound = newest_up_to(std::min(sound_, step), found.checkpoints);
  uint64_t seen = 0;
  for (const Found& candidate : found.checkpoints) {
    if (candidate.step > step || seen++ < options_.keep || &candidate == best || &candidate == sound)
      continue;
    // Renamed first: a run that is killed in between leaves no checkpoint with missing files.
    const std::string doomed = temporary_path_of(candidate.step);
    file_system_.rename(candidate.path, doomed);
    file_system_.remove(doomed);
    removed.push_back(folder_name(candidate.step));
  }
  return removed;
}

std::optional<Found> Store::newest_sound() const {
  const Scan found = scan();
  const Found* sound = newest_up_to(sound_, found.checkpoints);
  return sound ? std::optional(*sound) : std::nullopt;
}

std::vector<std::string> Store::set_aside(uint64_t step) {
  std::vector<std::string> names;
  const Scan found = scan();
  const Found* sound = newest_up_to(sound_, found.checkpoints);
  if (!sound) return names;
  for (const Found& candidate : found.checkpoints) {
    if (candidate.step <= sound->step || candidate.step > step) continue;
    const std::string name = std::string(kSetAside) + folder_name(candidate.step);
    file_system_.remove(options_.folder + "/" + name);  // of an earlier attempt
    file_system_.rename(candidate.path, options_.folder + "/" + name);
    names.push_back(name);
  }
  if (!names.empty()) file_system_.sync_folder(options_.folder);
  return names;
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

bool is_replaced(std::string_view name) {
  return name.starts_with(kReplaced) && step_of(name.substr(kReplaced.size()));
}

Checkpoint open_any(const std::string& path, Which which, std::vector<Rejected>* rejected) {
  if (exists(path + "/" + kManifestName)) {
    Checkpoint checkpoint = Checkpoint::open(path);
    checkpoint.verify();
    return checkpoint;
  }
  if (!exists(path))
    throw Error(PL_ERROR_CONFIG,
                path + ": there is no such folder: train first, or give the path of a checkpoint");
  const std::string nested = path + "/checkpoints";
  Scan scan = Store({.folder = exists(nested) ? nested : path}).scan();
  if (std::optional<Checkpoint> checkpoint = choose(scan, which)) {
    if (rejected) *rejected = std::move(scan.rejected);
    return std::move(*checkpoint);
  }
  std::string message = path +
                        ": holds no good checkpoint; give a checkpoint (a folder with manifest.json), a "
                        "folder of them (step-00000123), or a run's folder (with checkpoints/ in it)";
  for (const Rejected& entry : scan.rejected) {
    if (step_of(entry.name)) message += "\n  " + entry.name + ": " + entry.reason;
  }
  throw Error(PL_ERROR_CONFIG, message);
}

}  // namespace pipeline::checkpoint
