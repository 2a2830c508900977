#include "core/config/explain.hpp"

#include <nlohmann/json.hpp>

#include "core/config/option.hpp"
#include "core/config/sources.hpp"

namespace pipeline::config {
namespace {

using Json = nlohmann::ordered_json;

Json default_json(const Value& value) {
  return std::visit([](const auto& content) { return Json(content); }, value);
}

Json option_schema(const pl_option& option) {
  const uint32_t type = element_type(option.type);
  Json schema = {{"type", type == PL_OPTION_PATH ? "string" : type_name(type)}};
  if (option.flags & PL_OPTION_HAS_MINIMUM)
    schema[option.flags & PL_OPTION_ABOVE_MINIMUM ? "exclusiveMinimum" : "minimum"] = option.minimum;
  if (option.flags & PL_OPTION_HAS_MAXIMUM)
    schema[option.flags & PL_OPTION_BELOW_MAXIMUM ? "exclusiveMaximum" : "maximum"] = option.maximum;
  Json choices = Json::array();
  for (uint32_t i = 0; option.choices && i < option.choice_count; ++i)
    choices.push_back(view(option.choices[i]));
  if (type == PL_OPTION_STRING && !choices.empty()) schema["enum"] = choices;
  if (is_list(option.type)) schema = {{"type", "array"}, {"items", schema}};
  Json any = Json::array({schema});
  if (type == PL_OPTION_INT && !choices.empty()) any.push_back({{"enum", choices}});
  if (can_be_unset(option)) any.push_back({{"const", kUnset}});
  if (any.size() > 1) schema = {{"anyOf", any}};
  std::string help(view(option.help));
  if (option.unit.len > 0) help += " (" + std::string(view(option.unit)) + ")";
  schema["description"] = help;
  if (const std::optional<Value> value = default_value(option)) schema["default"] = default_json(*value);
  return schema;
}

Json closed_object() {
  return {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
}

// Puts an option at its dotted place below `table`, and makes the tables on the way. Nothing is marked as
// required: a value may come from a file that is extended.
void place(const pl_option& option, Json& table) {
  std::string_view key = view(option.key);
  Json* at = &table;
  for (size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.')) {
    Json& properties = (*at)["properties"];
    const std::string part(key.substr(0, dot));
    if (!properties.contains(part)) properties[part] = closed_object();
    at = &properties[part];
    key.remove_prefix(dot + 1);
  }
  (*at)["properties"][std::string(key)] = option_schema(option);
}

// A table below this one whose options are all lists may be an array of tables, with a value of each list in
// each.
void allow_arrays_of_tables(Json& table) {
  for (auto& [name, below] : table["properties"].items()) {
    if (!below.contains("properties")) continue;
    Json element = closed_object();
    bool is_of_lists = true;
    for (const auto& [key, option] : below["properties"].items()) {
      is_of_lists = is_of_lists && option.value("type", "") == "array";
      if (!is_of_lists) break;
      element["properties"][key] = option["items"];
      element["properties"][key]["description"] = option["description"];
    }
    if (is_of_lists)
      below = {{"anyOf", {{{"type", "array"}, {"minItems", 1}, {"items", element}}, below}}};
    else
      allow_arrays_of_tables(below);
  }
}

Json reference(const std::string& definition) { return {{"$ref", "#/definitions/" + definition}}; }

// A plugin's table, judged by the schema of the plugin that it names: if plugin == NAME then (core's keys and
// NAME's). Without a name, in a stage or a file that extends another, any key may be right. `anyOf`, which
// the last, empty alternative makes hold always, is for editors: those with Taplo find completions in it, but
// none behind a condition, nor in what has an `allOf`.
Json plugin_table(const Json& core_table, const std::string& table, std::span<const PluginSchema> plugins,
                  Json& definitions) {
  Json choice = {{"type", "object"}, {"properties", core_table["properties"]}};
  Json& names = choice["properties"]["plugin"]["examples"];
  names = Json::array();
  const bool has_auto = table == "strategy" || table == "backend";
  if (has_auto) names.push_back("auto");
  Json any = Json::array(), conditions;
  const auto add = [&](const std::string& name, Json whole) {
    const std::string definition = table + "." + name;
    definitions[definition] = std::move(whole);
    any.push_back(reference(definition));
    Json condition = {{"if", {{"properties", {{"plugin", {{"const", name}}}}}, {"required", {"plugin"}}}},
                      {"then", reference(definition)}};
    if (!conditions.is_null()) condition["else"] = std::move(conditions);
    conditions = std::move(condition);
  };
  Json of_all = core_table;  // "auto" may become any of them
  of_all["description"] = "chosen by the number of processes and their devices";
  for (const PluginSchema& plugin : plugins) {
    if (plugin.table != table) continue;
    names.push_back(plugin.name);
    Json whole = core_table;
    whole["description"] = plugin.summary;
    for (const pl_option& option : plugin.options) {
      place(option, whole);
      place(option, of_all);
    }
    allow_arrays_of_tables(whole);
    add(plugin.name, std::move(whole));
  }
  allow_arrays_of_tables(of_all);
  // An update rule is seldom a plugin's: where none is named the keys are the core's.
  if (table == "optimizer") {
    Json keys = Json::array();
    for (const auto& [key, unused] : core_table["properties"].items()) keys.push_back(key);
    Json of_rule = std::move(conditions);
    conditions = {{"if", {{"not", {{"required", {"plugin"}}}}}},
                  {"then", {{"propertyNames", {{"enum", keys}}}}}};
    if (!of_rule.is_null()) conditions["else"] = std::move(of_rule);
  }
  if (any.empty()) {
    if (!conditions.is_null()) choice.update(conditions);
    return choice;
  }
  if (has_auto) add("auto", std::move(of_all));
  any.push_back(Json::object());
  choice["anyOf"] = any;
  choice.update(conditions);
  return choice;
}

}  // namespace

std::string json_schema(std::span<const pl_option> core, std::span<const PluginSchema> plugins) {
  Json root = closed_object();
  for (const pl_option& option : core) place(option, root);
  Json tables = root["properties"], definitions = Json::object();
  for (const std::string_view table : kPluginTables)
    if (tables.contains(table))
      tables[table] = plugin_table(tables[table], std::string(table), plugins, definitions);

  Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "pipeline configuration"}};
  schema.update(closed_object());
  Json stage = closed_object(), resolved = closed_object();
  if (tables.contains("stage")) {
    stage["properties"] = tables["stage"]["properties"];
    stage["properties"]["name"]["pattern"] = "^[A-Za-z0-9_-]+$";
    stage["required"] = {"name"};
    resolved = stage;
    tables.erase("stage");
  }
  Json& properties = schema["properties"];
  properties["extends"] = {{"type", "string"},
                           {"minLength", 1},
                           {"description", "a file whose values this one builds on, relative to this file"}};
  for (const auto& [name, table] : tables.items()) {
    definitions[name] = table;
    properties[name] = reference(name);
    Json own = closed_object();
    for (const auto& [key, option] : table["properties"].items())
      if (!belongs_to_run(name + "." + key)) own["properties"][key] = option;
    const size_t left = own["properties"].size();
    if (left > 0)
      stage["properties"][name] = left == table["properties"].size() ? reference(name) : std::move(own);
  }
  resolved["description"] = "the one stage that a run's configuration, or what check -v prints, is of";
  properties["stage"] = {{"if", {{"type", "object"}}},
                         {"then", resolved},
                         {"else", {{"type", "array"}, {"items", stage}}},
                         {"description", "stages run in order; each overrides the tables above"}};
  schema["definitions"] = std::move(definitions);
  return schema.dump(2) + "\n";
}

}  // namespace pipeline::config
