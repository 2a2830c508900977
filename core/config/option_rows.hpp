// How the core declares its own options: one row is both what a user sees and the field that the program
// reads.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/option.hpp"

namespace pipeline::config {

class Settings;

// A path as it was written, and what it is relative to; empty: not given.
struct Path {
  std::string text, base;

  bool empty() const { return text.empty(); }
  // The function absolute_path() says how; it can throw.
  std::string absolute() const;
};
std::vector<std::string> absolute(const std::vector<Path>& paths);

// An integer that may be "auto" instead.
struct CountOrAuto {
  std::optional<uint64_t> count;
  bool is_auto = false;
};

// What not all options have in common: each facet is set in one function of OptionTable, and those of a row
// are put together.
struct OptionFacet {
  uint32_t flags = 0;
  std::optional<double> minimum, maximum;
  std::string_view unit;
  std::vector<std::string_view> choices;
};

// A row without its type, which is that of the field.
struct DeclaredOption {
  std::string_view key, default_value, help;  // the default as text, strings without quotes; "": none
  std::vector<OptionFacet> facets;
};

// Gives the fields of a table their values, or collects the options that its rows declare.
class OptionReader {
 public:
  explicit OptionReader(const Settings& settings) : settings_(&settings) {}
  explicit OptionReader(std::vector<pl_option>& rows) : rows_(&rows) {}

  template <class T>
  T value_of(const DeclaredOption& option) const {
    if (rows_ != nullptr) {
      declare(option, type_of<T>());
      return {};
    }
    if constexpr (std::unsigned_integral<T> && !std::same_as<T, bool>) {
      int64_t value = 0;
      read(option.key, value);
      return static_cast<T>(value);
    } else {
      T value{};
      read(option.key, value);
      return value;
    }
  }
  template <class T>
  std::optional<T> maybe_value_of(const DeclaredOption& option) const {
    return rows_ != nullptr || has_value(option.key) ? std::optional(value_of<T>(option)) : std::nullopt;
  }

 private:
  template <class T>
  static constexpr uint32_t type_of() {
    if constexpr (std::same_as<T, bool>) return PL_OPTION_BOOL;
    if constexpr (std::same_as<T, std::string>) return PL_OPTION_STRING;
    if constexpr (std::same_as<T, Path>) return PL_OPTION_PATH;
    if constexpr (std::same_as<T, std::vector<Path>>) return PL_OPTION_PATH_LIST;
    return std::floating_point<T> ? PL_OPTION_FLOAT : PL_OPTION_INT;
  }

  void declare(const DeclaredOption& option, uint32_t type) const;
  bool has_value(std::string_view key) const;
  void read(std::string_view key, bool& value) const;
  void read(std::string_view key, int64_t& value) const;
  void read(std::string_view key, double& value) const;
  void read(std::string_view key, std::string& value) const;  // "" where there is none
  void read(std::string_view key, Path& value) const;
  void read(std::string_view key, std::vector<Path>& value) const;
  void read(std::string_view key, CountOrAuto& value) const;

  const Settings* settings_ = nullptr;
  std::vector<pl_option>* rows_ = nullptr;
};

// Becomes the value of its field, of whatever type that is.
struct OptionRow {
  const OptionReader& reader;
  DeclaredOption option;

  template <class T>
  operator T() const {
    return reader.value_of<T>(option);
  }
};

// The row of a number that has no default, so that it may be missing.
struct OptionalRow {
  const OptionReader& reader;
  DeclaredOption option;

  template <class T>
  operator std::optional<T>() const {
    return reader.maybe_value_of<T>(option);
  }
};

// The base of a struct whose fields are options: `uint64_t keep = option("checkpoint.keep", "3", "...",
// at_least(0));`
class OptionTable {
 public:
  // `reader` is needed until the fields are there.
  explicit OptionTable(const OptionReader& reader) : reader_(&reader) {}

 protected:
  using Facet = OptionFacet;

  OptionRow option(std::string_view key, std::string_view default_value, std::string_view help,
                   const std::same_as<Facet> auto&... facets) const {
    return {*reader_, {key, default_value, help, {facets...}}};
  }
  OptionalRow optional(std::string_view key, std::string_view help,
                       const std::same_as<Facet> auto&... facets) const {
    return {*reader_, {key, "", help, {facets...}}};
  }
  static Facet at_least(double value) { return {.flags = PL_OPTION_HAS_MINIMUM, .minimum = value}; }
  static Facet above(double value) {
    return {.flags = PL_OPTION_HAS_MINIMUM | PL_OPTION_ABOVE_MINIMUM, .minimum = value};
  }
  static Facet at_most(double value) { return {.flags = PL_OPTION_HAS_MAXIMUM, .maximum = value}; }
  static Facet below(double value) {
    return {.flags = PL_OPTION_HAS_MAXIMUM | PL_OPTION_BELOW_MAXIMUM, .maximum = value};
  }
  static Facet in(std::string_view unit) { return {.unit = unit}; }
  static Facet one_of(std::initializer_list<std::string_view> words) { return {.choices = words}; }
  static Facet required() { return {.flags = PL_OPTION_REQUIRED}; }
  // The option may differ when a run is continued: its length, what it reports and keeps, where it runs.
  static Facet may_change() { return {.flags = PL_OPTION_MAY_CHANGE}; }
  // The option may differ so long as --change names it: it decides the result from a step on. An option that
  // decides the result from the beginning may not.
  static Facet by_name() { return {.flags = kChangesByName}; }

  const OptionReader& reader() const { return *reader_; }

 private:
  const OptionReader* reader_;
};

}  // namespace pipeline::config
