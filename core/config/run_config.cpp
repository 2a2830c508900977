// The configuration that a run keeps in its folder, and what its paths are relative to.
#include <filesystem>

#include "core/base/program.hpp"
#include "core/config/settings.hpp"
#include "core/config/sources.hpp"

namespace pipeline::config {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "config.toml";

fs::path normal(const fs::path& path) {
  const fs::path full = from_start(path).lexically_normal();
  return full.has_filename() ? full : full.parent_path();
}

void mark(Table& table, const std::string& base) {
  for (auto& [key, entry] : table.entries) {
    entry.origin.base = base;
    entry.origin.kept = true;
  }
}

// What the paths of the run in `folder` are relative to (see Config::paths_from()).
std::string base_of(const Document& document, const fs::path& folder) {
  if (!document.started_in) return "";
  const auto& [value, origin] = *document.started_in;
  if (value.kind != Literal::Kind::kString)
    throw ConfigError(
        format_problem(origin, "started_in", shown(value),
                       "must be the folder that paths are relative to, is " + kind_name(value)));
  const std::string base = normal(folder / value.text).string();
  return base == start_folder() ? "" : base;
}

}  // namespace

std::string file_of_run(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(from_start(path), error)) return path;
  const fs::path file = fs::path(path) / kFile;
  if (fs::exists(from_start(file), error)) return file.string();
  if (fs::exists(from_start(path) / "config.json", error))
    throw ConfigError(path +
                      ": is the folder of a model, which a run begins with: name a .toml file that says what "
                      "is learnt, with train.init_from = \"" +
                      path + "\"; evaluate, predict and export take the folder itself");
  throw ConfigError(
      path + ": is a folder without a " + kFile +
      ": name a .toml file, or the folder of a run, or of a stage of it, that has begun to train");
}

std::string place_in_run(Document& document, const std::string& file, bool named_as_folder) {
  const fs::path folder = normal(file).parent_path();
  std::error_code error;
  const bool lies_in_run = document.started_in && fs::exists(folder / ".lock", error);
  const std::string base = base_of(document, folder);
  if (!named_as_folder && !lies_in_run) {
    if (!document.started_in) return "";
    const auto& [value, origin] = *document.started_in;
    throw ConfigError(format_problem(origin, "started_in", shown(value),
                                     "counts in the folder of a run alone: name that folder in place of the "
                                     "file, or remove this line from a copy: its paths are relative to where "
                                     "the program is started"));
  }
  mark(document.root, base);
  if (document.resolved_stage) mark(document.resolved_stage->table, base);
  if (document.stages)
    for (StageTable& stage : *document.stages) mark(stage.table, base);

  fs::path run = folder;
  if (document.resolved_stage) {
    const auto& entries = document.resolved_stage->table.entries;
    const auto stage = entries.find("name");
    if (stage != entries.end() && stage->second.value.text != folder.filename())
      throw ConfigError(file + ": is of the stage " + stage->second.value.text +
                        ", so its folder must be called that, and lie in the folder of the run");
    run = folder.parent_path();
  }
  const auto stored = document.root.entries.find("run.dir");
  if (stored != document.root.entries.end() && normal(absolute_path(stored->second.value.text, base)) == run)
    return base;
  Entry here{Literal::of_string(seen_from(base.empty() ? start_folder() : fs::path(base), run)),
             Origin{Origin::Kind::kFile, file, 0, 0, ""}};
  here.origin.base = base;
  document.root.entries.insert_or_assign("run.dir", std::move(here));
  return base;
}

std::string path_for(const std::string& path, const std::string& base, const std::string& other_base) {
  if (path.empty() || path.starts_with("~/") || fs::path(path).is_absolute()) return path;
  return seen_from(other_base.empty() ? start_folder() : fs::path(other_base), absolute_path(path, base));
}

std::string paths_base_of_run(const fs::path& run_folder) {
  const fs::path file = run_folder / kFile;
  std::error_code error;
  if (!fs::exists(file, error)) return "";
  return base_of(parse(read_file(file.string(), ""), file.string(), 0), normal(run_folder));
}

std::string stored_config(const Config& config, const std::string& resolved_toml,
                          const fs::path& run_folder) {
  const fs::path start = config.paths_from().empty() ? start_folder() : fs::path(config.paths_from());
  const fs::path folder = normal(run_folder);
  const bool is_below = fs::path(seen_from(start, folder)).is_relative();
  const std::string started_in = (is_below ? start.lexically_relative(folder) : start).string();
  return "started_in = " + to_toml(std::string_view(started_in)) +
         "  # from this folder; paths are relative to it\n\n" + resolved_toml;
}

}  // namespace pipeline::config
