#include "core/config/vocabulary.hpp"

#include <algorithm>
#include <set>

#include "core/config/option.hpp"
#include "core/config/suggest.hpp"

namespace pipeline::config {
namespace {

// The most names that a message lists; beyond that, the verb that lists them is named.
constexpr size_t kFew = 12;

std::string_view table_of(std::string_view key) {
  const size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
}

std::string_view last_part(std::string_view key) {
  const size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

// The plugin's table, and the option's name in it: "strategy" and "overlap".
std::pair<std::string, std::string> split(const std::string& key) {
  const size_t dot = key.find('.');
  return {key.substr(0, dot), dot == std::string::npos ? "" : key.substr(dot + 1)};
}

// "is an option of the strategy ddp or sharded: name that in strategy.plugin"
std::string owned_by(const std::string& table, const std::vector<std::string>& plugins) {
  return "is an option of the " + table + " " + alternatives(plugins) + ": name that in " + table + ".plugin";
}

bool is_near(std::string_view name, const std::string& other) { return !closest(name, {&other, 1}).empty(); }

bool is_below(std::string_view key, std::string_view table) {
  return key.size() > table.size() && key.starts_with(table) && key[table.size()] == '.';
}

}  // namespace

void Vocabulary::add(std::span<const pl_option> options, std::string_view prefix) {
  for (const pl_option& option : options)
    keys_.push_back(std::string(prefix) + std::string(view(option.key)));
}

bool Vocabulary::is_key(std::string_view key) const { return std::ranges::find(keys_, key) != keys_.end(); }

bool Vocabulary::is_table(std::string_view table) const {
  return std::ranges::any_of(keys_, [&](const std::string& key) { return is_below(key, table); });
}

std::vector<std::string> Vocabulary::keys_in(std::string_view table) const {
  std::vector<std::string> keys;
  for (const std::string& key : keys_)
    if (table_of(key) == table) keys.push_back(key);
  return keys;
}

const std::string* Vocabulary::value_above(std::string_view key) const {
  const auto found =
      std::ranges::find_if(keys_, [&](const std::string& known) { return is_below(key, known); });
  return found == keys_.end() ? nullptr : &*found;
}

std::vector<std::string> Vocabulary::tables() const {
  std::set<std::string> tables;
  for (const std::string& key : keys_)
    for (std::string_view above = table_of(key); !above.empty(); above = table_of(above))
      tables.emplace(above);
  return {tables.begin(), tables.end()};
}

std::string Vocabulary::closest_table(std::string_view table) const {
  const std::vector<std::string> known = tables();
  for (std::string_view above = table; !above.empty() && !is_table(above); above = table_of(above))
    if (std::string near = closest(above, known); !near.empty()) return near;
  return {};
}

std::string Vocabulary::about_key(const std::string& key, const Literal& value) const {
  if (const std::string* above = value_above(key))
    return "unknown key: " + *above + " is a value, not a table";
  if (is_table(key)) {
    for (const char* main_key : {".kind", ".plugin"})
      if (is_key(key + main_key))
        return "is a table, not a value: write " + key + main_key + " = " + shown(value);
    return "is a table, not a value: write its keys below [" + key + "]";
  }
  const std::string_view ours = our_name_for_key(key);
  if (!ours.empty()) return "unknown key: write " + std::string(ours);
  if (const std::string_view why = why_needless(key); !why.empty())
    return "unknown key: leave it out: " + std::string(why);
  const auto [table, option] = split(key);
  const Owners owners = owners_ ? owners_(table) : Owners();
  if (const auto found = owners.find(option); found != owners.end())
    return "unknown key: it " + owned_by(table, found->second) + ", or leave the option out";

  const std::string_view name = last_part(key);
  const std::vector<std::string> siblings = keys_in(table_of(key));
  std::vector<std::string> sibling_names, elsewhere, names;
  for (const std::string& sibling : siblings) sibling_names.emplace_back(last_part(sibling));
  const std::string near_sibling = closest(name, sibling_names);
  if (!near_sibling.empty())
    return "unknown key: did you mean " +
           siblings[static_cast<size_t>(std::ranges::find(sibling_names, near_sibling) -
                                        sibling_names.begin())] +
           "?";

  size_t nearest = name.size();
  for (const std::string& known : keys_) {
    const size_t distance = edit_distance(last_part(known), name);
    nearest = std::min(nearest, distance);
    if (distance == 0) elsewhere.push_back(known);
    names.emplace_back(last_part(known));
  }
  if (!elsewhere.empty() && elsewhere.size() <= 4)
    return "unknown key: did you mean " + alternatives(elsewhere) + "?";
  std::vector<std::string> options;  // of all plugins
  for (const auto& [theirs, unused] : owners) {
    nearest = std::min(nearest, edit_distance(theirs, option));
    options.push_back(theirs);
  }
  if (const std::string_view theirs = closest_foreign_key(key, nearest); !theirs.empty())
    return "unknown key: if " + std::string(theirs) + " is meant, write " +
           std::string(our_name_for_key(theirs));
  // Options in a table of their own are near by that alone, so their names must be as well.
  if (const std::string near = closest(option, options);
      !near.empty() && !is_key(table + '.' + near) && is_near(name, std::string(last_part(near))))
    return "unknown key: did you mean " + table + '.' + near + "? It " + owned_by(table, owners.at(near));
  const std::string near = closest(key, keys_);
  if (!near.empty()) return "unknown key: did you mean " + near + "?";
  // A table of --set has no header to be reported at.
  if (const std::string near_table = closest_table(table_of(key)); !near_table.empty())
    return "unknown table: did you mean [" + near_table + "]?";
  const std::string near_name = closest(name, names);
  if (!near_name.empty())
    return "unknown key: did you mean " +
           keys_[static_cast<size_t>(std::ranges::find(names, near_name) - names.begin())] + "?";
  if (!siblings.empty() && siblings.size() <= kFew)
    return "unknown key: [" + std::string(table_of(key)) + "] has " + alternatives(sibling_names);
  return "unknown key: `pipeline explain` lists all keys";
}

std::string Vocabulary::about_table(const std::string& table) const {
  if (is_key(table)) return "is a value, not a table: write " + table + " = ...";
  if (const std::string* above = value_above(table))
    return "unknown table: " + *above + " is a value, not a table";
  const std::string_view ours = our_name_for_table(table);
  if (!ours.empty()) return "unknown table: write " + std::string(ours);
  if (const std::string near = closest_table(table); !near.empty())
    return "unknown table: did you mean [" + near + "]?";
  const std::vector<std::string> known = tables();
  std::vector<std::string> siblings;
  for (const std::string& other : known)
    if (table_of(other) == table_of(table)) siblings.push_back(other);
  if (siblings.empty()) return "unknown table: [" + std::string(table_of(table)) + "] has no tables in it";
  return "unknown table: there is " + alternatives(siblings);
}

// A run keeps the options of the strategy and backend that it had; on another number of processes it may have
// others.
bool Vocabulary::was_of_another_plugin(const std::string& key) const {
  const auto [table, option] = split(key);
  if (table != "strategy" && table != "backend") return false;
  return owners_ && owners_(table).contains(option);
}

void Vocabulary::check(const Table& table, const std::function<bool(std::string_view)>& skip,
                       Problems& problems) const {
  std::vector<std::string_view> unknown;
  const auto is_below_unknown = [&](std::string_view name) {
    return std::ranges::any_of(unknown,
                               [&](std::string_view table_name) { return is_below(name, table_name); });
  };
  for (const auto& [name, origin] : table.tables) {
    // No key can be below a value, whoever else reads the table.
    if ((skip(name) && value_above(name) == nullptr) || is_table(name) || is_below_unknown(name)) continue;
    unknown.push_back(name);
    problems.add(origin, "[" + name + "]", "", about_table(name));
  }
  for (const auto& [key, entry] : table.entries) {
    if ((skip(key) && value_above(key) == nullptr) || is_key(key)) continue;
    // What stands in an unknown table is reported with it, unless there is more to say.
    if (is_below_unknown(key) && our_name_for_key(key).empty() && why_needless(key).empty()) continue;
    if (entry.origin.kept && was_of_another_plugin(key)) continue;
    problems.add(entry.origin, key, shown(entry.value), about_key(key, entry.value));
  }
}

}  // namespace pipeline::config
