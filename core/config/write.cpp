#include <algorithm>
#include <map>
#include "core/config/config.hpp"
#include "core/config/document.hpp"
#include "core/config/option.hpp"
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
    const Entry& entry = merged.entries.at(key);
    const std::string name = key.starts_with("stage.") ? key.substr(6) : key;
    rows.push_back({name, config::to_toml(entry.value), entry.origin, false});
  }
  return "\n[[stage]]\n" + tables(rows, "stage.", with_origins);
}

}  // namespace

std::string Config::to_toml(bool with_origins, std::span<const PluginConfig* const> plugins) const {
  std::string out = tables(rows(plugins), "", with_origins);
  if (stage_.empty() && sources_->has_stages)
    for (const StageLayer& stage : sources_->stages) out += stage_text(stage, *sources_, with_origins);
  return out;
}

}  // namespace pipeline::config
