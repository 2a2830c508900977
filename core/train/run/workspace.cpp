#include "core/train/run/workspace.hpp"

#include "core/train/run/signals.hpp"

namespace pipeline::train {

namespace fs = std::filesystem;

fs::path run_dir(const config::Config& config) {
  if (const auto given = config.find_path("run.dir"); given && !given->empty()) {
    const fs::path dir = without_trailing_slash(*given);
    const fs::path relative =
        dir.lexically_relative(fs::current_path());  // shorter to read, where it is below
    return relative.empty() || *relative.begin() == ".." ? dir : relative;
  }
  const auto name = config.find_string("run.name");
  if (name && (*name == "." || *name == ".." || name->find('/') != std::string::npos))
    throw config.error("run.name",
                       "must be a plain name, which the folder below runs/ gets: for a path use run.dir");
  return fs::path("runs") / (name && !name->empty() ? *name : fs::path(config.file()).stem().string());
}

fs::path without_trailing_slash(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  return normal.has_filename() || normal == normal.root_path() ? normal : normal.parent_path();
}

SessionArgs session_args(const Workspace& workspace, uint32_t purpose, const fs::path& folder) {
  return {.purpose = purpose,
          .run_dir = folder,
          .cancelled = [] { return Signals::received() != 0; },
          .world = workspace.team.world(),
          .team = &workspace.team};
}

}  // namespace pipeline::train
