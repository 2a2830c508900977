#include "core/config/sources.hpp"

#include <algorithm>

#include "core/config/files.hpp"
#include "core/config/suggest.hpp"

namespace pipeline::config {
namespace {

constexpr std::string_view kImpliedStage = "train";

// What describes the whole run, so that it cannot differ between its stages.
bool belongs_to_run(std::string_view key) {
  return key.starts_with("launch.") || key.starts_with("plugins.") || key == "run.name" || key == "run.dir";
}

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
      StageLayer implied;
      implied.name = kImpliedStage;
      sources_.stages.push_back(std::move(implied));
    }
  }

 private:
  void add_problem(const Entry& entry, const std::string& key, const std::string& problem) {
    problems_.add(entry.origin, format_problem(entry.origin, key, shown(entry.value), problem));
  }

  // [stage], as a resolved configuration writes the one stage it is for; stages before it are not in that
  // file.
  void add_resolved(const StageTable& stage) {
    for (const auto& [key, entry] : stage.table.entries)
      if (key != "name" && key != "kind" && key != "init_from") {
        problems_.add(stage.origin,
                      format_problem(stage.origin, "[stage]", "", "one stage of several: write [[stage]]"));
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
      problems_.add(stage.origin,
                    format_problem(stage.origin, layer.name.empty() ? "[[stage]]" : "stage.name",
                                   layer.name.empty() ? "" : to_toml(std::string_view(layer.name)), problem));
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

void read_set(const std::string& argument, Sources& sources, Problems& problems) {
  Assignment assignment;
  try {
    assignment = parse_set(argument);
  } catch (const ConfigError& error) {
    problems.add({Origin::Kind::kSet, "", 0, 0, argument}, error.what());
    return;
  }
  if (assignment.key != "stage" && !assignment.key.starts_with("stage.")) {
    sources.sets.merge(assignment.table);
    return;
  }
  if (!sources.has_stages) {
    problems.add(
        {Origin::Kind::kSet, "", 0, 0, argument},
        "--set " + shorten(argument, 200) + ": this configuration has no [[stage]]: leave stage.NAME. out");
    return;
  }
  // stage.NAME.TABLE.KEY, from an argument or from an inline table.
  const std::vector<std::string> names = sources.stage_names();
  for (const auto& [key, entry] : assignment.table.entries) {
    const auto fail = [&, &full = key, &value = entry](const std::string& problem) {
      problems.add(value.origin, format_problem(value.origin, full, "", problem));
    };
    const size_t name_end = std::min(key.find('.', 6), key.size());
    const std::string name = key.size() > 6 ? key.substr(6, name_end - 6) : "";
    const std::string rest = name_end < key.size() ? key.substr(name_end + 1) : "";
    const std::string near = closest(name, names);
    if (rest.find('.') == std::string::npos) {
      fail("write stage.NAME.TABLE.KEY=VALUE, where NAME is " + alternatives(names));
    } else if (!sources.find_stage(name)) {
      fail("no stage is named so: " +
           (near.empty() ? "there is " + alternatives(names) : "did you mean " + near + "?"));
    } else if (belongs_to_run(rest)) {
      fail("cannot differ between the stages of a run: write --set " + rest + "=VALUE");
    } else {
      sources.stage_sets[name].entries.insert_or_assign(rest, entry);
    }
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
  sources.file = args.file;
  sources.selected_stage = args.stage;
  Document document;
  if (!args.file.empty()) document = read_with_bases(args.file);
  sources.base = std::move(document.root);
  StageReader(sources, problems).read(document);
  for (const std::string& argument : args.sets) read_set(argument, sources, problems);

  if (!args.stage.empty() && !sources.find_stage(args.stage)) {
    const std::vector<std::string> names = sources.stage_names();
    const std::string near = closest(args.stage, names);
    const Origin origin{Origin::Kind::kSet, "", 0, 0, ""};
    problems.add(origin, "--stage " + args.stage + ": " +
                             (sources.has_stages
                                  ? "no such stage: " + (near.empty() ? "there is " + alternatives(names)
                                                                      : "did you mean " + near + "?")
                                  : "this configuration has no [[stage]]: leave --stage out"));
  }
  return sources;
}

}  // namespace pipeline::config
