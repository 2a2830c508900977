#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config/config.hpp"
#include "core/config/error.hpp"
#include "core/config/sources.hpp"
#include "pipeline.h"

namespace pipeline::config {

// The names that a configuration may use, and advice about other names.
class Vocabulary {
 public:
  // Adds options whose full keys are prefix + key.
  void add(std::span<const pl_option> options, std::string_view prefix);
  // Sets who else might know a key; may be empty.
  void set_owners(FindOwners owners) { owners_ = std::move(owners); }

  bool is_key(std::string_view key) const;
  bool is_table(std::string_view table) const;

  // What is wrong with a name that is not a key (or not a table), as "problem: remedy".
  std::string about_key(const std::string& key, const Literal& value) const;
  std::string about_table(const std::string& table) const;

  // Adds a problem for every unknown key and table of `table`. `skip`: names that are checked elsewhere.
  void check(const Table& table, const std::function<bool(std::string_view)>& skip, Problems& problems) const;

 private:
  std::vector<std::string> keys_in(std::string_view table) const;
  std::vector<std::string> tables() const;
  // The name that was probably meant by an unknown table or one above it; "" if the table is known.
  std::string closest_table(std::string_view table) const;
  const std::string* value_above(std::string_view key) const;
  bool was_of_another_plugin(const std::string& key) const;

  std::vector<std::string> keys_;  // full
  FindOwners owners_;
};

}  // namespace pipeline::config
