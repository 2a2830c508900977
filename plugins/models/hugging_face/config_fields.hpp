// What becomes of each field of a config.json. A model has one table, made from the list of fields of
// transformers' class; tests/parity/config_parity.py holds the tables against the classes.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "hugging_face/config_file.hpp"

namespace pipeline::hugging_face {

// Accepted with these values alone, the first of which is meant where the field is absent.
struct Only {
  std::vector<nlohmann::json> values;
  bool is_required = false;  // transformers' default is none of them
};
inline Only only(std::initializer_list<nlohmann::json> values) { return {values}; }
inline Only required(nlohmann::json value) { return {{std::move(value)}, true}; }

struct WithoutEffect {};  // on training: accepted with any value
struct ReadElsewhere {};  // by code beside the table

inline constexpr WithoutEffect kWithoutEffect;
inline constexpr ReadElsewhere kReadElsewhere;

// `use`: a member of the model's configuration holds the value; or one of the above.
template <class Config>
struct Field {
  template <class... Others>
  using Held = std::variant<Others..., int64_t Config::*, double Config::*, bool Config::*,
                            std::string Config::*, std::vector<std::string> Config::*,
                            std::vector<int64_t> Config::*, std::vector<double> Config::*>;
  using Member = Held<>;
  using Use = Held<Only, WithoutEffect, ReadElsewhere>;
  const char* key;
  Use use;
};
template <class Config>
using Fields = std::vector<Field<Config>>;

// Checks a field that the model's table does not have: one that all of transformers' configurations share, or
// another, which may be there as "not used" alone: null, false, 0, empty. `type`: the class's.
void check_shared_field(const ConfigFile& file, const std::string& key, const std::string& type);
void check_only(const ConfigFile& file, const char* key, const Only& only);

// `defaults` with what the file has. Throws an Error (PL_ERROR_CONFIG) that names the first field whose value
// the model here does not compute.
template <class Config>
Config read_fields(const ConfigFile& file, const Fields<Config>& fields, const std::string& type,
                   Config defaults) {
  for (const Field<Config>& field : fields) {
    std::visit(
        [&](const auto& use) {
          using Use = std::decay_t<decltype(use)>;
          if constexpr (std::is_same_v<Use, Only>)
            check_only(file, field.key, use);
          else if constexpr (std::is_member_pointer_v<Use>)
            file.read(field.key, defaults.*use);
        },
        field.use);
  }
  for (const std::string& key : file.keys()) {
    const auto is_it = [&](const Field<Config>& field) { return key == field.key; };
    if (std::none_of(fields.begin(), fields.end(), is_it)) check_shared_field(file, key, type);
  }
  return defaults;
}

// The members' values, for a config.json of ours.
template <class Config>
void write_fields(const Config& config, const Fields<Config>& fields, nlohmann::json& values) {
  for (const Field<Config>& field : fields)
    std::visit(
        [&](const auto& use) {
          if constexpr (std::is_member_pointer_v<std::decay_t<decltype(use)>>)
            values[field.key] = config.*use;
        },
        field.use);
}

}  // namespace pipeline::hugging_face
