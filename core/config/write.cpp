#include <algorithm>
#include <filesystem>

#include "core/base/program.hpp"
#include "core/config/config.hpp"
#include "core/config/option.hpp"
#include "core/config/settings.hpp"
#include "core/config/sources.hpp"

namespace pipeline::config {
namespace {

constexpr size_t kCommentColumn = 44;

// The dot before the last part of a key, which may be quoted and then hold dots of its own.
size_t last_dot(std::string_view key) {
  size_t dot = std::string_view::npos;
  bool quoted = false;
  for (size_t i = 0; i < key.size(); ++i) {
    if (key[i] == '\\') {
      ++i;
    } else if (key[i] == '"') {
      quoted = !quoted;
    } else if (key[i] == '.' && !quoted) {
      dot = i;
    }
  }
  return dot;
}

// A text made fit for a comment: arguments of --set and file names may hold anything.
std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return text;
}

std::string with_comment(std::string line, const std::string& comment) {
  line.resize(std::max(line.size() + 2, kCommentColumn), ' ');
  return line + "# " + one_line(comment) + '\n';
}

std::string line_of(const Row& row, std::string_view name, bool with_origins) {
  if (row.value.empty()) return with_origins ? "# " + std::string(name) + ": not set\n" : "";
  const std::string line = std::string(name) + " = " + row.value;
  return with_origins ? with_comment(line, row.origin.describe()) : line + '\n';
}

// Tables in the order in which their first key comes; a table directly before those below it.
std::string tables(const std::vector<Row>& rows, const std::string& header_prefix, bool with_origins) {
  struct Text {
    std::string table;
    std::string lines;
  };
  std::vector<Text> texts;
  std::vector<std::string> roots;
  const auto root_of = [](const std::string& table) { return table.substr(0, table.find('.')); };
  std::string bare;  // keys that are in no table
  for (const Row& row : rows) {
    const size_t dot = last_dot(row.key);
    const std::string table = dot == std::string::npos ? "" : row.key.substr(0, dot);
    const std::string line =
        line_of(row, dot == std::string::npos ? row.key : row.key.substr(dot + 1), with_origins);
    if (line.empty()) continue;
    if (table.empty()) {
      bare += line;
      continue;
    }
    if (std::ranges::find(roots, root_of(table)) == roots.end()) roots.push_back(root_of(table));
    auto text = std::ranges::find(texts, table, &Text::table);
    if (text == texts.end()) text = texts.insert(texts.end(), {table, ""});
    text->lines += line;
  }
  std::ranges::stable_sort(texts, {}, [&](const Text& text) {
    const auto rank = std::ranges::find(roots, root_of(text.table)) - roots.begin();
    return std::pair(rank, text.table);
  });
  std::string out = bare;
  for (const Text& text : texts) {
    if (!out.empty()) out += '\n';
    out += "[" + header_prefix + text.table + "]\n" + text.lines;
  }
  return out;
}

// What the stage overrides. The values are those in force, since --set wins over the stage's own.
std::string stage_text(const StageLayer& stage, const Sources& sources, bool with_origins) {
  Table own = stage.table;
  if (const auto sets = sources.stage_sets.find(stage.name); sets != sources.stage_sets.end())
    own.merge(sets->second);
  const Table merged = sources.merged(stage.name);
  std::vector<Row> rows;
  for (const auto& [key, unused] : own.entries) {
    const ConfigEntry& entry = merged.entries.at(key);
    const std::string name = key.starts_with("stage.") ? key.substr(6) : key;
    rows.push_back({name, config::to_toml(entry.value), entry.origin, false});
  }
  return "\n[[stage]]\n" + tables(rows, "stage.", with_origins);
}

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

std::string Config::to_toml(bool with_origins, std::span<const PluginConfig* const> plugins) const {
  std::string out = tables(rows(plugins), "", with_origins);
  if (stage_.empty() && sources_->has_stages)
    for (const StageLayer& stage : sources_->stages) out += stage_text(stage, *sources_, with_origins);
  return out;
}

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
    throw ConfigError(format_problem(
        origin, "started_in", shown(value),
        "counts in the folder of a run alone: name that folder in place of the file, or remove this line "
        "from a copy: its paths are relative to where the program is started"));
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
  ConfigEntry here{Literal::of_string(seen_from(base.empty() ? start_folder() : fs::path(base), run)),
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
