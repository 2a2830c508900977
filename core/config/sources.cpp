#include "core/config/sources.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/program.hpp"
#include "core/config/suggest.hpp"

namespace pipeline::config {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargest = 1 << 20;  // bytes: hundreds of times any real configuration
constexpr size_t kLongestChain = 16;  // of files that extend each other

// "did you mean configs/summarization.toml?", or where to look.
std::string near_files(const fs::path& file) {
  const fs::path folder = file.parent_path(), path = from_start(folder.empty() ? "." : folder);
  std::error_code error;
  if (!fs::is_directory(path, error)) return "there is no folder " + folder.string();
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error))
    if (entry.path().extension() == ".toml") names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  const std::string wanted = file.filename().string();
  std::string near =
      std::ranges::find(names, wanted + ".toml") != names.end() ? wanted + ".toml" : closest(wanted, names);
  if (near.empty()) near = closest(wanted + ".toml", names);
  if (!near.empty()) return "did you mean " + (folder / near).string() + "?";
  return names.empty() ? "there are no .toml files in that folder" : "there is " + alternatives(names);
}

// A file being read, and those that it was reached from.
struct Chain {
  std::vector<std::string> files;  // as shown
  std::vector<fs::path> real;

  std::string describe(const std::string& next) const {
    std::string text;
    for (const std::string& file : files) text += file + " -> ";
    return text + next;
  }
};

Document read(const std::string& file, const std::string& problem_prefix, Chain& chain) {
  const std::string text = read_file(file, problem_prefix);
  Document document = parse(text, file, static_cast<int>(chain.files.size()));
  if (!document.extends) return document;

  const ConfigEntry& extends = *document.extends;
  const auto fail = [&](const std::string& problem) {
    return ConfigError(format_problem(extends.origin, "extends", shown(extends.value), problem));
  };
  if (extends.value.kind != Literal::Kind::kString || extends.value.text.empty())
    throw fail("must be the name of one file, relative to this one, is " +
               (extends.value.kind == Literal::Kind::kString ? "empty" : kind_name(extends.value)));
  const std::string base = (fs::path(file).parent_path() / extends.value.text).lexically_normal().string();

  std::error_code error;
  chain.files.push_back(file);
  chain.real.push_back(fs::weakly_canonical(from_start(file), error));
  if (std::ranges::find(chain.real, fs::weakly_canonical(from_start(base), error)) != chain.real.end())
    throw fail("the files extend each other in a circle: " + chain.describe(base));
  if (chain.files.size() >= kLongestChain)
    throw fail("more than " + std::to_string(kLongestChain) +
               " files extend each other: " + chain.describe(base));

  Document merged = read(base, format_problem(extends.origin, "extends", shown(extends.value), ""), chain);
  merged.root.merge(document.root);
  if (document.stages || document.stage_value || document.resolved_stage) {
    merged.stages = document.stages;
    merged.stage_value = document.stage_value;
    merged.resolved_stage = document.resolved_stage;
  }
  return merged;
}

constexpr std::string_view kImpliedStage = "train";

std::string text_of(const Table& table, std::string_view key) {
  const auto found = table.entries.find(key);
  return found == table.entries.end() ? "" : found->second.value.text;
}

class StageReader {
 public:
  StageReader(Sources& sources, Problems& problems) : sources_(sources), problems_(problems) {}

  void read(const Document& document) {
    if (document.stage_value)
      add_problem(*document.stage_value, "stage", "must be tables: write [[stage]] and its keys below it");
    if (document.stages)
      for (const StageTable& stage : *document.stages) add(stage, false);
    if (document.resolved_stage) add_resolved(*document.resolved_stage);
    sources_.has_stages = !sources_.stages.empty();
    if (!sources_.has_stages) {
      sources_.stages.push_back({.name = std::string(kImpliedStage)});
    }
  }

 private:
  void add_problem(const ConfigEntry& entry, const std::string& key, const std::string& problem) {
    problems_.add(entry.origin, key, shown(entry.value), problem);
  }

  // [stage], as a resolved configuration writes the one stage it is for; stages before it are not in that
  // file.
  void add_resolved(const StageTable& stage) {
    for (const auto& [key, entry] : stage.table.entries)
      if (key != "name" && key != "kind" && key != "init_from") {
        problems_.add(stage.origin, "[stage]", "", "one stage of several: write [[stage]]");
        return;
      }
    add(stage, true);
  }

  void add(const StageTable& stage, bool resolved) {
    StageLayer layer;
    layer.origin = stage.origin;
    for (const auto& [key, entry] : stage.table.entries) {
      const std::string full = key.find('.') == std::string::npos ? "stage." + key : key;
      if (belongs_to_run(full))
        add_problem(entry, full, "cannot differ between the stages of a run: put it above the stages");
      layer.table.entries.emplace(full, entry);
    }
    layer.table.tables = stage.table.tables;
    layer.name = text_of(layer.table, "stage.name");
    if (layer.name.empty() || !is_bare_key(layer.name)) {
      const std::string problem =
          layer.name.empty() ? "a stage needs a name: write name = \"...\""
                             : "must be made of letters, digits, _ and -: it becomes the name of a folder";
      problems_.add(stage.origin, layer.name.empty() ? "[[stage]]" : "stage.name",
                    layer.name.empty() ? "" : to_toml(std::string_view(layer.name)), problem);
    } else if (const StageLayer* other = sources_.find_stage(layer.name)) {
      add_problem(layer.table.entries.at("stage.name"), "stage.name",
                  "is the name of the stage at " + other->origin.describe() + ", too: give each its own");
    }
    if (!resolved) check_init_from(layer);
    sources_.stages.push_back(std::move(layer));
  }

  void check_init_from(const StageLayer& layer) {
    const auto found = layer.table.entries.find("stage.init_from");
    if (found == layer.table.entries.end()) return;
    const std::string& wanted = found->second.value.text;
    if (wanted == layer.name)
      return add_problem(found->second, "stage.init_from", "a stage cannot start from itself");
    if (sources_.find_stage(wanted)) return;
    std::string problem = "there is no stage of that name before this one";
    const std::vector<std::string> names = sources_.stage_names();
    const std::string near = closest(wanted, names);
    if (!near.empty()) {
      problem += ": did you mean " + near + "?";
    } else {
      problem += ": " +
                 (names.empty() ? std::string("this is the first") : "there is " + alternatives(names)) +
                 "; for a checkpoint or a folder use train.init_from";
    }
    add_problem(found->second, "stage.init_from", problem);
  }

  Sources& sources_;
  Problems& problems_;
};

void read_set(const std::string& argument, Origin::Kind kind, Sources& sources, Problems& problems) {
  const Origin origin{kind, "", 0, 0, argument};
  Assignment assignment;
  try {
    assignment = parse_set(argument, kind);
  } catch (const ConfigError& error) {
    problems.add(origin, error.what());
    return;
  }
  if (assignment.key != "stage" && !assignment.key.starts_with("stage.")) {
    sources.sets.merge(assignment.table);
    return;
  }
  if (!sources.has_stages) {
    problems.add(origin, shorten(origin.describe(), 200) +
                             ": this configuration has no [[stage]]: leave stage.NAME. out");
    return;
  }
  // stage.NAME.TABLE.KEY, from an argument or from an inline table.
  const std::vector<std::string> names = sources.stage_names();
  for (const auto& [key, entry] : assignment.table.entries) {
    const auto fail = [&, &full = key, &value = entry](const std::string& problem) {
      problems.add(value.origin, full, "", problem);
    };
    const size_t name_end = std::min(key.find('.', 6), key.size());
    const std::string name = key.size() > 6 ? key.substr(6, name_end - 6) : "";
    const std::string rest = name_end < key.size() ? key.substr(name_end + 1) : "";
    if (rest.find('.') == std::string::npos) {
      fail("write stage.NAME.TABLE.KEY=VALUE, where NAME is " + alternatives(names));
    } else if (!sources.find_stage(name)) {
      fail("no stage is named so: " + did_you_mean(name, names));
    } else if (belongs_to_run(rest)) {
      fail("cannot differ between the stages of a run: write --set " + rest + "=VALUE");
    } else {
      sources.stage_sets[name].entries.insert_or_assign(rest, entry);
    }
  }
}

// Marks arguments as relative to where this program was started, beside a run that was started elsewhere.
// train.init_from, a path or a stage, is made absolute here; other paths where their options are read.
void mark_as_from_here(Table& sets, const Sources& sources) {
  for (auto& [key, entry] : sets.entries) {
    entry.origin.base = start_folder().string();
    const Literal& value = entry.value;
    if (key == "train.init_from" && value.kind == Literal::Kind::kString && value.text != kUnset &&
        !sources.find_stage(value.text))
      entry.value = Literal::of_string(absolute_path(value.text));
  }
}

}  // namespace

const StageLayer* Sources::find_stage(std::string_view name) const {
  const auto found = std::ranges::find(stages, name, &StageLayer::name);
  return found == stages.end() ? nullptr : &*found;
}

std::vector<std::string> Sources::stage_names() const {
  std::vector<std::string> names;
  for (const StageLayer& stage : stages)
    if (!stage.name.empty()) names.push_back(stage.name);
  return names;
}

Table Sources::merged(std::string_view stage) const {
  Table table = base;
  if (const StageLayer* layer = find_stage(stage)) table.merge(layer->table);
  table.merge(sets);
  if (const auto found = stage_sets.find(stage); found != stage_sets.end()) table.merge(found->second);
  return table;
}

Sources read_sources(const LoadArgs& args, Problems& problems) {
  Sources sources;
  sources.file = file_of_run(args.file);
  sources.selected_stage = args.stage;
  Document document;
  Chain chain;
  if (!args.file.empty()) {
    document = read(sources.file, "", chain);
    sources.paths_from = place_in_run(document, sources.file, sources.file != args.file);
  }
  sources.is_resolved_stage = document.resolved_stage.has_value();
  sources.base = std::move(document.root);
  StageReader(sources, problems).read(document);
  for (const std::string& argument : args.sets) read_set(argument, Origin::Kind::kSet, sources, problems);
  for (const std::string& argument : args.changes)
    read_set(argument, Origin::Kind::kChange, sources, problems);
  if (!sources.paths_from.empty()) {
    mark_as_from_here(sources.sets, sources);
    for (auto& [name, sets] : sources.stage_sets) mark_as_from_here(sets, sources);
  }

  if (!args.stage.empty() && !sources.find_stage(args.stage)) {
    const Origin origin{Origin::Kind::kSet, "", 0, 0, ""};
    problems.add(origin,
                 "--stage " + args.stage + ": " +
                     (sources.has_stages ? "no such stage: " + did_you_mean(args.stage, sources.stage_names())
                                         : "this configuration has no [[stage]]: leave --stage out"));
  }
  return sources;
}

std::string read_file(const std::string& file, const std::string& problem_prefix) {
  const auto fail = [&](const std::string& problem) {
    return ConfigError(problem_prefix + file + ": " + problem);
  };
  std::error_code error;
  const fs::path path = from_start(file);
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw fail("no such file: " + near_files(file));
  if (fs::is_directory(status)) throw fail("is a folder: name a .toml file in it");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw fail(std::string("cannot be read: ") + std::strerror(errno));
  std::string text(kLargest + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) throw fail(std::string("cannot be read: ") + std::strerror(errno));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (text.size() > kLargest) throw fail("is larger than 1 MiB: this is not a configuration file");
  return text;
}

}  // namespace pipeline::config
