#include "core/train/stage_folder.hpp"

#include <chrono>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

// --fresh once a launch: what a restarted launch finds of its own goes on.
RunFolder open_own_folder(const World& world, const fs::path& path, bool fresh) {
  if (fresh && world.attempt > 0) {
    std::ifstream in(path / RunFolder::kBegunBy);
    std::string by;
    if (std::getline(in, by) && by == world.run_id) fresh = false;
  }
  RunFolder folder(path, fresh);
  if (fresh && !world.run_id.empty()) folder.write_file(RunFolder::kBegunBy, world.run_id + "\n");
  return folder;
}

// A file that was just made on another host shows up late on some file systems.
bool appears(const fs::path& file) {
  constexpr auto kPatience = std::chrono::seconds(60);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!fs::exists(file)) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::error_code ignored;
    for (fs::directory_iterator entry(file.parent_path(), ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  return true;
}

}  // namespace

RunFolder open_folder(const Workspace& workspace, const fs::path& path, bool fresh) {
  Team& team = workspace.team;
  if (team.world().size == 1) return open_own_folder(team.world(), path, fresh);
  std::optional<RunFolder> folder;
  std::string mark;
  try {
    mark = team.on_first("opening the run folder", [&] {
      folder.emplace(open_own_folder(team.world(), path, fresh));
      const std::string name = fmt::format("{}{:08x}", RunFolder::kMarkPrefix, std::random_device()());
      folder->write_file(name, "");
      return name;
    });
    if (!folder && !appears(path / mark))
      throw Error(PL_ERROR_CONFIG, fmt::format("run.dir = {}: is not the folder that rank 0 uses on {}: all hosts must share it, so choose one on a "
                                               "file system that they share",
                                               fs::absolute(path).string(), team.world().address));
    team.peers().barrier("opened the run folder");
  } catch (...) {
    if (folder) {
      fs::remove(path / mark);
      folder->put_back_unless_begun();
    }
    throw;
  }
  if (folder) fs::remove(path / mark);
  return folder ? std::move(*folder) : RunFolder::of_first_rank(path);
}

Outcome in_folder(RunFolder& folder, observe::Log& log, const std::function<Outcome()>& work) {
  const auto put_back = [&] {
    try {
      if (folder.put_back_unless_begun())
        log.info(fmt::format("nothing was begun, so the older run is back in {}", folder.path().string()));
    } catch (const std::exception& error) {  // what led here is the error to tell
      log.warning(fmt::format("the older run could not be put back from {}: {}", folder.moved_aside()->string(), error.what()));
    }
  };
  try {
    const Outcome outcome = work();
    if (outcome == Outcome::interrupted) put_back();
    return outcome;
  } catch (...) {
    put_back();
    throw;
  }
}

}  // namespace pipeline::train
