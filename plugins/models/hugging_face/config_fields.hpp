// What becomes of each field of a config.json. A model has one table, made from the list of fields of
// transformers' class; tests/parity/config_parity.py holds the tables against the classes. And the fields of
// a model's configuration as a table with a row for each (ModelField). From a row follow the option, what a
// value may be, what a folder says of the option, and whether two models differ in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>

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
// Refuses an old form of a part, "text_config_dict" of "text_config", which transformers reads first, where
// it says something else.
void check_old_form(const ConfigFile& file, const std::string& part);

// Makes one error (PL_ERROR_CONFIG) of all that several checks find.
class FieldErrors {
 public:
  void collect(const std::function<void()>& check);
  void raise() const;  // throws where there are any

 private:
  std::string lines_;
};

// `defaults` with what the file has. Throws an Error (PL_ERROR_CONFIG) that names each field whose value the
// model here does not compute.
template <class Config>
Config read_fields(const ConfigFile& file, const Fields<Config>& fields, const std::string& type,
                   Config defaults) {
  FieldErrors errors;
  for (const Field<Config>& field : fields) {
    std::visit(
        [&](const auto& use) {
          using Use = std::decay_t<decltype(use)>;
          if constexpr (std::is_same_v<Use, Only>)
            errors.collect([&] { check_only(file, field.key, use); });
          else if constexpr (std::is_member_pointer_v<Use>)
            errors.collect([&] { file.read(field.key, defaults.*use); });
        },
        field.use);
  }
  for (const std::string& key : file.keys()) {
    const auto is_it = [&](const Field<Config>& field) { return key == field.key; };
    if (std::none_of(fields.begin(), fields.end(), is_it))
      errors.collect([&] { check_shared_field(file, key, type); });
  }
  errors.raise();
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

// Says of the options below a table what a folder's file says. `table`: "language.".
class FolderOptions {
 public:
  FolderOptions(const ModelOptions& say, std::string table, std::filesystem::path file)
      : say_(say), table_(std::move(table)), file_(std::move(file)) {}

  template <class T>
  void operator()(const char* key, const T& value) const {
    say_(table_ + key, value, file_);
  }
  // `set` is as good as `value`, where the user has set it.
  template <class T>
  void operator()(const char* key, const T& value, const T& set, bool is_as_good) const {
    (*this)(key, say_.is_set(table_ + key) && is_as_good ? set : value);
  }

 private:
  const ModelOptions& say_;
  std::string table_;
  std::filesystem::path file_;
};

// Limits of a value, in the option and in a configuration from elsewhere.
class Limits {
 public:
  enum class Kind { kNone, kRange, kPositive, kNotNegative, kShare };

  Kind kind = Kind::kNone;
  int64_t least = 0, most = 0;                           // kRange
  std::optional<int64_t> least_set = {}, most_set = {};  // of the option
  std::string unit = {};
  std::vector<std::string_view> choices = {};

  void limit(OptionSpec& option) const;
  // Throw an Error (PL_ERROR_CONFIG) that names `key`, the value and what it must be.
  void check(const std::string& key, int64_t value) const;
  void check(const std::string& key, double value) const;
  void check(const std::string& key, const std::string& value) const;
  template <class T>
  void check(const std::string&, const T&) const {}
};

template <class Config>
struct ModelField {
  using Member = typename Field<Config>::Member;
  using Number = int64_t (*)(const Config& config);

  // `name`: of the option. Without a help there is none.
  ModelField(const char* of, Member held, const char* about = nullptr)
      : name(of), member(held), help(about) {}

  ModelField& range(int64_t least, int64_t most) {
    limits.kind = Limits::Kind::kRange;
    limits.least = least, limits.most = most;
    return set_from(least);
  }
  // Limits of the option alone.
  ModelField& set_from(int64_t least, std::optional<int64_t> most = {}) {
    return limits.least_set = least, limits.most_set = most, *this;
  }
  ModelField& positive() { return limits.kind = Limits::Kind::kPositive, *this; }
  ModelField& not_negative() { return limits.kind = Limits::Kind::kNotNegative, *this; }
  ModelField& share() { return limits.kind = Limits::Kind::kShare, *this; }
  ModelField& choices(std::vector<std::string_view> all) { return limits.choices = std::move(all), *this; }
  ModelField& unit(const char* text) { return limits.unit = text, *this; }
  // config.json's name, where it is another.
  ModelField& called(const char* in_file) { return key = in_file, *this; }
  // The name in errors about the configuration itself, where it is not the option's.
  ModelField& checked_as(const char* in_errors) { return checked = in_errors, *this; }
  // A run may have another value than the model that it starts from.
  ModelField& of_run() { return is_of_run = true, *this; }
  // Models that differ in it may start from each other all the same, or those for which `only` does not hold.
  ModelField& not_compared(bool (*only)(const Config&) = [](const Config&) { return false; }) {
    return is_compared = only, *this;
  }
  // For a 0 that stands for another number. `as_option`: what a folder says of the option; without it the
  // member itself.
  ModelField& stands_for(Number number, Number as_option = nullptr) {
    return value = number, told = as_option, *this;
  }
  // Null in config.json is 0, which is another value than the default.
  ModelField& null_is_0() { return is_0_where_null = true, *this; }
  // Whether a model has the field. Where it has not, nothing is told or compared.
  ModelField& where(bool (*there)(const Config&)) { return is_there = there, *this; }
  // Whether the option `set` is as good as what the folder says, if not by the number that it stands for.
  ModelField& as_good(bool (*good)(const Config& set, const Config& theirs)) {
    return is_as_good = good, *this;
  }

  const char* name;
  Member member;
  const char* help;
  const char *key = name, *checked = name;
  Limits limits = {};
  bool is_of_run = false, is_0_where_null = false;
  Number value = nullptr, told = nullptr;
  bool (*is_compared)(const Config&) = nullptr;
  bool (*is_there)(const Config&) = nullptr;
  bool (*is_as_good)(const Config& set, const Config& theirs) = nullptr;
};

template <class Config>
using ModelFields = std::vector<ModelField<Config>>;

// visit(field, its member) for each.
template <class Config, class Visit>
void each_field(const ModelFields<Config>& fields, const Visit& visit) {
  for (const ModelField<Config>& field : fields)
    std::visit([&](const auto member) { visit(field, member); }, field.member);
}

// The rows for config.json, before `others`.
template <class Config>
Fields<Config> fields_of(const ModelFields<Config>& fields, Fields<Config> others) {
  Fields<Config> all;
  each_field(fields, [&](const auto& field, const auto member) { all.push_back({field.key, member}); });
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

template <class Config>
void describe_fields(Options& o, const ModelFields<Config>& fields, Config& config) {
  each_field(fields, [&](const auto& field, const auto member) {
    if (field.help == nullptr) return;
    OptionSpec& option = o(field.name, config.*member, field.help);
    field.limits.limit(option);
    field.is_of_run ? option.follows() : option.of_model();
  });
}

// named(field): how an error calls it.
template <class Config, class Named>
void check_fields(const ModelFields<Config>& fields, const Config& config, const Named& named) {
  each_field(fields,
             [&](const auto& field, const auto member) { field.limits.check(named(field), config.*member); });
}
template <class Config>
void check_fields(const ModelFields<Config>& fields, const Config& config) {
  check_fields(fields, config, [](const ModelField<Config>& field) { return std::string(field.checked); });
}

// named(field): the option, as the configuration writes it.
template <class Config, class Named>
void compare_fields(const ModelFields<Config>& fields, const Config& ours, const Config& theirs,
                    Differences& differences, const Named& named) {
  each_field(fields, [&](const auto& field, const auto member) {
    if (field.is_of_run || (field.is_compared != nullptr && !field.is_compared(ours))) return;
    if (field.is_there != nullptr && !field.is_there(ours)) return;
    if (field.value != nullptr)
      differences.compare(named(field), field.value(ours), field.value(theirs));
    else
      differences.compare(named(field), ours.*member, theirs.*member);
  });
}

// `run`: the options as they are set.
template <class Config>
void tell_field(const FolderOptions& tell, const ModelField<Config>& field, const Config& theirs,
                const Config& run) {
  if (field.help == nullptr || (field.is_there != nullptr && !field.is_there(theirs))) return;
  std::visit(
      [&](const auto member) {
        if constexpr (std::is_same_v<decltype(member), int64_t Config::*const>) {
          Config same = theirs;
          same.*member = run.*member;
          const bool is_as_good = field.is_as_good != nullptr ? field.is_as_good(run, theirs)
                                  : field.value != nullptr    ? field.value(same) == field.value(theirs)
                                                              : false;
          tell(field.name, field.told != nullptr ? field.told(theirs) : theirs.*member, run.*member,
               is_as_good);
        } else {
          tell(field.name, theirs.*member);
        }
      },
      field.member);
}
template <class Config>
void tell_fields(const FolderOptions& tell, const ModelFields<Config>& fields, const Config& theirs,
                 const Config& run) {
  for (const ModelField<Config>& field : fields) tell_field(tell, field, theirs, run);
}

}  // namespace pipeline::hugging_face
