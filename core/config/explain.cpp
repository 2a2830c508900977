#include "core/config/explain.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <vector>

#include "core/config/error.hpp"
#include "core/config/option.hpp"
#include "core/config/sources.hpp"

namespace pipeline::config {
namespace {

// Terminal columns of UTF-8 text, for scripts whose characters are one column wide.
size_t columns(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string padded(std::string text, size_t width) {
  const size_t used = columns(text);
  if (used < width) text.append(width - used, ' ');
  return text;
}

// `text` in lines of at most `width` columns, broken at spaces; a longer word stays whole.
std::vector<std::string> wrapped(std::string_view text, size_t width) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!lines.back().empty() && columns(lines.back()) + 1 + columns(word) > width) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

bool follows_model(const pl_option& option) {
  return (option.flags & (PL_OPTION_OF_MODEL | PL_OPTION_FOLLOWS)) != 0;
}

constexpr std::string_view kFollows =
    "follows the model: where it is not set, it is as in the folder or run that the weights come from";

// What may be done with the option when a run is continued. `prefix`: empty for the core's own.
std::string mark(const pl_option& option, std::string_view prefix) {
  if (option.flags & PL_OPTION_MAY_CHANGE) return "*";
  return prefix.empty() && (option.flags & kChangesByName) ? "+" : "";
}

std::string default_text(const pl_option& option) {
  if (option.flags & PL_OPTION_REQUIRED) return "required";
  return option.default_value.len == 0 ? "-" : std::string(view(option.default_value));
}

std::string help_text(const pl_option& option) {
  std::string text(view(option.help));
  const bool named_in_help = option.choice_count > 0 && text.find(range_text(option)) != std::string::npos;
  std::string facts(view(option.unit));
  if (!named_in_help && !range_text(option).empty())
    facts += (facts.empty() ? "" : ", ") + range_text(option);
  if (follows_model(option)) facts += facts.empty() ? "follows the model" : "; follows the model";
  if (!facts.empty()) text += " (" + facts + ")";
  return text;
}

struct SplitKey {
  std::string table;
  std::string name;
};

SplitKey split(const pl_option& option, std::string_view prefix) {
  const std::string key = std::string(prefix) + std::string(view(option.key)) + mark(option, prefix);
  const size_t dot = key.rfind('.');
  return dot == std::string::npos ? SplitKey{"", key} : SplitKey{key.substr(0, dot), key.substr(dot + 1)};
}

std::string escaped(std::string text) {
  for (size_t bar = text.find('|'); bar != std::string::npos; bar = text.find('|', bar + 2))
    text.insert(bar, "\\");
  return text;
}

}  // namespace

std::string explain(std::span<const pl_option> options, std::string_view prefix, size_t width) {
  constexpr size_t kGap = 2;
  // Widest entries of the first three columns; a longer one moves the rest to the next line.
  size_t key_width = 3, type_width = 4, default_width = 7;
  for (const pl_option& option : options) {
    key_width = std::max(key_width, std::min<size_t>(28, columns(split(option, prefix).name)));
    type_width = std::max(type_width, std::min<size_t>(15, type_name(option.type).size()));
    default_width = std::max(default_width, std::min<size_t>(16, columns(default_text(option))));
  }
  const size_t help_column = key_width + type_width + default_width + 3 * kGap;
  const size_t help_width = std::max<size_t>(24, width > help_column ? width - help_column : 0);

  std::string out, table;
  for (const pl_option& option : options) {
    const SplitKey key = split(option, prefix);
    if (out.empty() || key.table != table) {
      table = key.table;
      if (!table.empty()) out += (out.empty() ? "[" : "\n[") + table + "]\n";
    }
    std::string line;
    size_t end = 0;  // of the columns so far
    const auto cell = [&](const std::string& text, size_t cell_width) {
      line = padded(line, end) + text;
      end += cell_width + kGap;
      if (columns(line) < end) return;
      out += line + '\n';
      line.clear();
    };
    cell(key.name, key_width);
    cell(type_name(option.type), type_width);
    cell(default_text(option), default_width);
    for (const std::string& help : wrapped(help_text(option), help_width)) {
      out += padded(line, help_column) + help + '\n';
      line.clear();
    }
  }
  const auto has = [&](const char* wanted) {
    return std::ranges::any_of(options,
                               [&](const pl_option& option) { return mark(option, prefix) == wanted; });
  };
  if (has("*")) out += "\n* may change when a run is continued\n";
  if (has("+")) out += "+ may, if named: pipeline run FILE --change KEY=VALUE\n";
  if (std::ranges::any_of(options, follows_model)) out += "\n" + std::string(kFollows) + "\n";
  return out;
}

std::string explain_markdown(std::span<const pl_option> options, std::string_view prefix) {
  std::string out = "| key | type | default | meaning |\n| --- | --- | --- | --- |\n";
  for (const pl_option& option : options) {
    const std::string value = default_text(option);
    const bool is_code = option.default_value.len > 0;
    out += "| `" + std::string(prefix) + std::string(view(option.key)) + "`" + mark(option, prefix) + " | " +
           type_name(option.type) + " | " + (is_code ? "`" + escaped(value) + "`" : value) + " | " +
           escaped(help_text(option)) + " |\n";
  }
  return out;
}

namespace {

constexpr std::string_view kReadmeIntroduction = R"(# Configurations

Generated by `pipeline explain --readme configs`: edit the files' first comments or the options' help instead.

    scripts/pipeline run configs/NAME.toml
    scripts/pipeline check configs/NAME.toml -v      # every value in force, and where it was set

)";

constexpr std::string_view kRules = R"(
## Rules

- `extends = "base.toml"` builds on another file, relative to this one: tables are merged, values and lists
  replaced. `train.global_batch = "unset"` removes an inherited value of an option without a default; for a text
  or a path, such as `train.init_from`, write `""`.
- `--set train.max_steps=20` comes last; the value is TOML, and a bare word is a string.
  `--set stage.NAME.KEY=VALUE` applies to one stage.
- `[[stage]]` tables run in order. Each has a `name`, may have a `kind` and `init_from` (an earlier stage), and
  overrides tables: `[stage.optimizer]` below a `[[stage]]` is `[optimizer]` of that stage. The kind `pool` adds
  the sums of all earlier evaluations and prints the figures of all their samples, as for cross-validation. The
  evaluations must be whole (`evaluate.max_samples = 0`), of one split, and of different parts of the data.
- Unknown keys and tables are errors.
- Keys marked with * may change when a run is continued, those with + if `run --change KEY=VALUE` names them.
- A key that follows the model is, where it is not set, as in the folder or run that the weights come from.
- `#:schema ./pipeline.schema.json` in a file's first line makes editors with Taplo (VS Code: Even Better TOML)
  complete and check it. `pipeline explain --schema > pipeline.schema.json` writes that file, with the options of your
  own plugins as well.

## Options
)";

// The comment lines that the file begins with, as one paragraph.
std::string first_comment(const std::string& text) {
  std::istringstream lines(text);
  std::string summary;
  for (std::string line; std::getline(lines, line) && line.starts_with('#');) {
    if (line.starts_with("#:")) continue;  // for editors
    const size_t begin = line.find_first_not_of("# \t");
    if (begin == std::string::npos) break;
    if (line.compare(begin, 5, "data:") == 0) continue;  // for scripts/pipeline
    if (!summary.empty()) summary += ' ';
    summary += line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
  }
  return summary;
}

}  // namespace

std::vector<ConfigFile> list_configs(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<ConfigFile> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".toml")
      files.push_back(
          {entry.path().filename().string(), first_comment(read_file(entry.path().string(), ""))});
  if (error) throw ConfigError(folder + ": cannot be listed: " + error.message());
  std::ranges::sort(files, {}, &ConfigFile::name);
  return files;
}

std::string configs_readme(std::span<const ConfigFile> files, std::span<const pl_option> core,
                           std::span<const PluginSchema> plugins) {
  std::string out(kReadmeIntroduction);
  for (const ConfigFile& file : files)
    out += "- [`" + file.name + "`](" + file.name + ")" + (file.summary.empty() ? "" : ": " + file.summary) +
           "\n";
  out += kRules;
  out += '\n' + explain_markdown(core);
  for (const PluginSchema& plugin : plugins) {
    out += "\n## `" + plugin.table + ".plugin = \"" + plugin.name + "\"`\n\n" + plugin.summary + "\n";
    if (!plugin.options.empty()) out += '\n' + explain_markdown(plugin.options, plugin.table + ".");
  }
  return out;
}

}  // namespace pipeline::config
