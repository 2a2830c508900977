// The only file that sees toml++, which takes seconds to compile.
#include <algorithm>
#include <sstream>

#include "core/base/utf8.hpp"
#include "core/config/sources.hpp"

namespace {

// toml++ 3.3 asserts some of what it should check (a table header `[?]`), and with NDEBUG lets the compiler
// assume it. Here such an assertion throws, in every build.
struct FailedAssertion {};
[[noreturn]] void fail_assertion() { throw FailedAssertion(); }

}  // namespace

#undef NDEBUG
// A namespace of its own: where another file of the program includes toml++ as it comes, the linker keeps one
// of the two.
#define toml toml_that_throws
#define TOML_ASSERT(condition) ((condition) ? static_cast<void>(0) : fail_assertion())
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

namespace pipeline::config {
namespace {

std::string quoted(std::string_view key) { return is_bare_key(key) ? std::string(key) : to_toml(key); }

class Flattener {
 public:
  Flattener(const std::string& file, int order) : file_(file), order_(order) {}

  Origin origin(const toml::node& node) const {
    return {Origin::Kind::kFile, file_, static_cast<int>(node.source().begin.line), order_, ""};
  }

  Literal literal(const toml::node& node) const {
    Literal out;
    switch (node.type()) {
      case toml::node_type::boolean:
        out.kind = Literal::Kind::kBool;
        out.boolean = node.as_boolean()->get();
        return out;
      case toml::node_type::integer:
        out.kind = Literal::Kind::kInt;
        out.integer = node.as_integer()->get();
        return out;
      case toml::node_type::floating_point:
        out.kind = Literal::Kind::kFloat;
        out.number = node.as_floating_point()->get();
        return out;
      case toml::node_type::string:
        return Literal::of_string(node.as_string()->get());
      case toml::node_type::array:
        out.kind = Literal::Kind::kArray;
        for (const toml::node& item : *node.as_array()) out.items.push_back(literal(item));
        return out;
      case toml::node_type::table:
        out.what = "a table";
        out.text = inline_table(*node.as_table());
        return out;
      default:
        out.what = node.is_date() ? "a date" : node.is_time() ? "a time" : "a date with time";
    }
    std::ostringstream source;
    node.visit([&](const auto& value) { source << value; });
    out.text = source.str();
    return out;
  }

  std::string inline_table(const toml::table& table) const {
    std::string text = "{";
    for (const auto& [name, node] : table)
      text += (text.size() > 1 ? ", " : " ") + quoted(name.str()) + " = " + config::to_toml(literal(node));
    return text + " }";
  }

  void add(const toml::table& from, const std::string& prefix, Table& to) const {
    for (const auto& [name, node] : from) add_node(prefix, name.str(), node, to);
  }

  // `fail`: makes an error of the second table, which is the one of this number.
  template <class Fail>
  static void require_same_keys(const toml::table& first, const toml::table& table, int number,
                                const Fail& fail) {
    const auto only = [](const toml::table& has, const toml::table& lacks) {
      std::string names;
      for (const auto& [name, node] : has)
        if (!lacks.contains(name.str())) names += (names.empty() ? "" : ", ") + std::string(name.str());
      return names;
    };
    const std::string here = only(table, first), there = only(first, table);
    if (here.empty() && there.empty()) return;
    std::string problem = here.empty() ? "" : "has " + here;
    if (!there.empty()) problem += (here.empty() ? "lacks " : ", and lacks ") + there;
    throw fail(problem + (number == 2 ? ", unlike number 1" : ", unlike those before it") +
               ": all must have the same keys");
  }

  // An array of tables, [[key]], is a list for each of their keys, with a value of each table.
  void add_tables(const toml::array& tables, const std::string& key, Table& to) const {
    std::map<std::string, ConfigEntry> lists;
    int number = 0;
    for (const toml::node& item : tables) {
      ++number;
      const toml::table& table = *item.as_table();
      const auto fail = [&](const std::string& problem) {
        return ConfigError(file_ + ":" + std::to_string(item.source().begin.line) + ": [[" + key +
                           "]] number " + std::to_string(number) + " " + problem);
      };
      if (table.empty()) throw fail("has no keys: fill it, or leave it out");
      require_same_keys(*tables.front().as_table(), table, number, fail);
      for (const auto& [name, node] : table) {
        ConfigEntry& list =
            lists.try_emplace(key + '.' + quoted(name.str()), ConfigEntry{{}, origin(node)}).first->second;
        list.value.kind = Literal::Kind::kArray;
        list.value.items.push_back(literal(node));
      }
    }
    to.tables.emplace(key, origin(tables));
    to.arrays.insert(key);
    for (auto& [name, list] : lists) to.entries.insert_or_assign(name, std::move(list));
  }

  void add_node(const std::string& prefix, std::string_view name, const toml::node& node, Table& to) const {
    const std::string key = prefix + quoted(name);
    const toml::array* const array = node.as_array();
    if (const toml::table* table = node.as_table()) {
      to.tables.emplace(key, origin(node));
      add(*table, key + '.', to);
    } else if (array != nullptr && !array->empty() && array->is_homogeneous(toml::node_type::table)) {
      add_tables(*array, key, to);
    } else {
      to.entries.insert_or_assign(key, ConfigEntry{literal(node), origin(node)});
    }
  }

  StageTable stage(const toml::table& table) const {
    StageTable stage{origin(table), {}};
    add(table, "", stage.table);
    return stage;
  }

 private:
  const std::string& file_;
  int order_;
};

std::optional<std::vector<StageTable>> stage_list(const toml::node& node, const Flattener& flattener) {
  const toml::array* array = node.as_array();
  if (!array || !std::ranges::all_of(*array, [](const toml::node& item) { return item.is_table(); }))
    return {};
  std::vector<StageTable> stages;
  for (const toml::node& item : *array) stages.push_back(flattener.stage(*item.as_table()));
  return stages;
}

// The first line that an assertion of toml++ fails in. It parses from the front, so more lines only ever fail
// more.
size_t line_of_failed_assertion(std::string_view text) {
  std::vector<size_t> ends;  // of lines
  for (size_t end = 0; end < text.size(); ++end)
    if (text[end] == '\n' || end + 1 == text.size()) ends.push_back(end + 1);
  const auto parses = [&](size_t end) {
    try {
      (void)toml::parse(text.substr(0, end));
    } catch (const toml::parse_error&) {
    } catch (const FailedAssertion&) {
      return false;
    }
    return true;
  };
  return static_cast<size_t>(std::ranges::partition_point(ends, parses) - ends.begin()) + 1;
}

toml::table parse_or_throw(std::string_view text, const std::string& file) {
  refuse_unreadable(text, file);
  try {
    return toml::parse(text, std::string_view(file));
  } catch (const FailedAssertion&) {
    throw syntax_error(text, file, line_of_failed_assertion(text), 1, "unexpected character");
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    throw syntax_error(text, file, at.line, at.column, error.description());
  }
}

}  // namespace

void Table::merge(const Table& other) {
  for (const std::string& key : other.arrays) {
    std::erase_if(entries, [&](const auto& entry) { return entry.first.starts_with(key + "."); });
    arrays.insert(key);
  }
  for (const auto& [key, entry] : other.entries) entries.insert_or_assign(key, entry);
  for (const auto& [key, origin] : other.tables) tables.emplace(key, origin);
}

bool is_bare_key(std::string_view key) {
  return !key.empty() && std::ranges::all_of(key, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

bool is_dotted_key(std::string_view key) {
  for (size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.')) {
    if (!is_bare_key(key.substr(0, dot))) return false;
    key.remove_prefix(dot + 1);
  }
  return is_bare_key(key);
}

Document parse(std::string_view text, const std::string& file, int order) {
  const toml::table root = parse_or_throw(text, file);
  const Flattener flattener(file, order);
  Document document;
  for (const auto& [name, node] : root) {
    if (name == "extends") {
      document.extends = ConfigEntry{flattener.literal(node), flattener.origin(node)};
    } else if (name == "started_in") {
      document.started_in = ConfigEntry{flattener.literal(node), flattener.origin(node)};
    } else if (name == "stage") {
      document.stages = stage_list(node, flattener);
      if (node.is_table()) document.resolved_stage = flattener.stage(*node.as_table());
      if (!document.stages && !node.is_table())
        document.stage_value = ConfigEntry{flattener.literal(node), flattener.origin(node)};
    } else {
      flattener.add_node("", name.str(), node, document.root);
    }
  }
  return document;
}

std::optional<Literal> parse_value(std::string_view text) {
  const std::string line = "x = " + std::string(text);
  try {
    refuse_unreadable(line, "");
    const toml::table table = toml::parse(line);
    // More than one key: the text had a line break in it. A comment would be dropped unseen.
    if (table.size() != 1 || !table.contains("x")) return {};
    const toml::node& node = *table.get("x");
    const bool may_hold_hash = node.is_string() || node.is_array() || node.is_table();
    if (!may_hold_hash && text.find('#') != std::string_view::npos) return {};
    return Flattener("", 0).literal(node);
  } catch (const toml::parse_error&) {
    return {};
  } catch (const FailedAssertion&) {
    return {};
  } catch (const ConfigError&) {
    return {};
  }
}

Assignment parse_set(const std::string& argument, Origin::Kind kind) {
  const std::string flag = kind == Origin::Kind::kChange ? "--change " : "--set ";
  const auto fail = [&](const std::string& problem) {
    return ConfigError(flag + shorten(argument, 200) + ": " + problem);
  };
  const size_t equals = argument.find('=');
  if (equals == std::string::npos)
    throw fail("has no =: write " + flag + "KEY=VALUE, for example " + flag + "train.max_steps=20");
  const auto trim = [](const std::string& text) {
    const size_t begin = text.find_first_not_of(" \t");
    return begin == std::string::npos ? std::string()
                                      : text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
  };
  Assignment out;
  out.key = trim(argument.substr(0, equals));
  const std::string value = trim(argument.substr(equals + 1));
  if (!is_dotted_key(out.key))
    throw fail("is not a dotted key before the =: write for example " + flag + "train.max_steps=20");
  if (value.empty()) throw fail("has no value: write " + flag + out.key + "=\"\" for an empty string");
  if (first_invalid_utf8(value) != std::string::npos)
    throw fail("is not UTF-8 text, and paths must be, too: rename the file or folder");

  const Origin origin{kind, "", 0, 0, argument};
  std::optional<Literal> literal = parse_value(value);
  if (literal && literal->what == "a table") {
    const toml::table table = toml::parse("x = " + value);
    Flattener("", 0).add(*table["x"].as_table(), out.key + '.', out.table);
    for (auto& [key, entry] : out.table.entries) entry.origin = origin;
    for (auto& [key, table_origin] : out.table.tables) table_origin = origin;
    return out;
  }
  if (!literal) {
    if (std::string_view("\"'[{").find(value[0]) != std::string_view::npos)
      throw fail(
          "the value is not valid TOML: check its quotes and brackets (a list of strings is [\"a\", \"b\"])");
    literal = Literal::of_string(value);
  }
  literal->typed = value;
  out.table.entries.insert_or_assign(out.key, ConfigEntry{*literal, origin});
  return out;
}

}  // namespace pipeline::config
