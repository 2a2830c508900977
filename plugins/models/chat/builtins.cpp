// What templates call by name: filters, tests, methods, functions, as jinja2/filters.py and Python have them.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iomanip>
#include <locale>
#include <sstream>
#include <unordered_map>

#include <fmt/format.h>

#include "plugins/models/chat/scope.hpp"

namespace pipeline::chat {
namespace {

// What Python's str.strip() takes away.
bool is_space(std::string_view c) {
  if (c.size() == 1)
    return std::string_view(" \t\n\r\f\v\x1c\x1d\x1e\x1f").find(c[0]) != std::string_view::npos;
  static constexpr std::string_view kWide[] = {
      "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
      "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};
  return std::ranges::find(kWide, c) != std::end(kWide);
}

// `chosen`: the characters to take away; undefined or None: white space.
std::string stripped(const std::string& text, const Value* chosen, bool left, bool right) {
  const std::vector<std::string> all = characters(text);
  const std::vector<std::string> given =
      chosen != nullptr && chosen->string() ? characters(*chosen->string()) : std::vector<std::string>();
  const auto goes = [&](const std::string& c) {
    return chosen != nullptr && chosen->string() ? std::ranges::find(given, c) != given.end() : is_space(c);
  };
  size_t begin = 0, end = all.size();
  while (left && begin < end && goes(all[begin])) ++begin;
  while (right && end > begin && goes(all[end - 1])) --end;
  std::string kept;
  for (size_t i = begin; i < end; ++i) kept += all[i];
  return kept;
}

// Letters of ASCII; others have rules that are not here.
std::string cased(const std::string& text, bool upper_first, bool upper_others, bool by_word) {
  std::string out;
  bool first = true;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80)
      throw Problem("upper and lower case of letters that are not ASCII's are not known here");
    const bool up = first ? upper_first : upper_others;
    out += static_cast<char>(up ? std::toupper(c) : std::tolower(c));
    first = by_word && !std::isalpha(static_cast<unsigned char>(c));
  }
  return out;
}

std::string replaced(Budget& budget, const std::string& text, const Arguments& given) {
  const Value *from = given.find(0, "old"), *to = given.find(1, "new"), *count = given.find(2, "count");
  if (from == nullptr || to == nullptr)
    throw Problem("replace() needs what goes and what comes in its place");
  const std::string &old = from->text_of("what replace() looks for"),
                    &other = to->text_of("what replace() puts in");
  int64_t most = count == nullptr || count->is_none() ? -1 : count->integer("the count of replace()");
  std::string out;
  size_t at = 0;
  if (old.empty()) throw Problem("replace() looks for an empty str");
  for (size_t found; most != 0 && (found = text.find(old, at)) != std::string::npos;
       at = found + old.size(), --most) {
    out += text.substr(at, found - at) + other;
    budget.spend_weight(1 + (other.size() + found - at) / 16);
  }
  return out + text.substr(at);
}

Value split(const std::string& text, const Arguments& given, bool from_right) {
  const Value *by = given.find(0, "sep"), *count = given.find(1, "maxsplit");
  int64_t most = count == nullptr ? -1 : count->integer("maxsplit");
  List parts;
  if (by == nullptr || by->is_none()) {
    if (most >= 0) throw Problem("split() at white space with maxsplit is not read here");
    std::string word;
    for (const std::string& c : characters(text + " ")) {
      if (!is_space(c)) {
        word += c;
      } else if (!word.empty()) {
        parts.items.emplace_back(std::exchange(word, {}));
      }
    }
    return parts;
  }
  const std::string& separator = by->text_of("what split() looks for");
  if (separator.empty()) throw Problem("split() looks for an empty str");
  std::string rest = text;
  for (size_t found;
       most != 0 && (found = from_right ? rest.rfind(separator) : rest.find(separator)) != std::string::npos;
       --most) {
    const size_t behind = found + separator.size();
    parts.items.emplace_back(from_right ? rest.substr(behind) : rest.substr(0, found));
    rest = from_right ? rest.substr(0, found) : rest.substr(behind);
  }
  parts.items.emplace_back(rest);
  if (from_right) std::ranges::reverse(parts.items);
  return parts;
}

Value split_lines(const std::string& text) {
  List lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of("\r\n", at), text.size());
    lines.items.emplace_back(text.substr(at, end - at));
    at = end + (text.compare(end, 2, "\r\n") == 0 ? 2 : 1);
  }
  return lines;
}

bool has_affix(const std::string& text, const Value* given, bool at_end) {
  if (given == nullptr) throw Problem("startswith() and endswith() need a str");
  const auto fits = [&](const Value& affix) {
    const std::string& wanted = affix.text_of("an affix");
    return at_end ? text.ends_with(wanted) : text.starts_with(wanted);
  };
  return given->list() ? std::ranges::any_of(given->list()->items, fits) : fits(*given);
}

std::string join(Budget& budget, const std::vector<Value>& items, const std::string& separator) {
  std::string all;
  for (size_t i = 0; i < items.size(); ++i) {
    budget.spend_weight(items[i].weight() + 1 + separator.size() / 16);
    all += (i > 0 ? separator : "") + text(items[i]);
  }
  return all;
}

const Value& given_to(const Arguments& arguments, const char* method) {
  if (arguments.positional.empty()) throw Problem(fmt::format("{} needs an argument", method));
  return arguments.positional[0];
}

Value pairs_of(const Dict& dict) {
  List pairs;
  for (const auto& [key, value] : dict.items) pairs.items.emplace_back(List{{key, value}, true});
  return pairs;
}

Value string_method(Budget& budget, const std::string& text, const std::string& name) {
  using Method = Value (*)(Budget&, const std::string&, const Arguments&);
  static const std::unordered_map<std::string_view, Method> kMethods{
      {"strip",
       [](Budget&, const std::string& s, const Arguments& a) -> Value {
         return stripped(s, a.find(0, "chars"), true, true);
       }},
      {"lstrip",
       [](Budget&, const std::string& s, const Arguments& a) -> Value {
         return stripped(s, a.find(0, "chars"), true, false);
       }},
      {"rstrip",
       [](Budget&, const std::string& s, const Arguments& a) -> Value {
         return stripped(s, a.find(0, "chars"), false, true);
       }},
      {"upper",
       [](Budget&, const std::string& s, const Arguments&) -> Value { return cased(s, true, true, false); }},
      {"lower",
       [](Budget&, const std::string& s, const Arguments&) -> Value {
         return cased(s, false, false, false);
       }},
      {"title",
       [](Budget&, const std::string& s, const Arguments&) -> Value { return cased(s, true, false, true); }},
      {"capitalize",
       [](Budget&, const std::string& s, const Arguments&) -> Value { return cased(s, true, false, false); }},
      {"replace",
       [](Budget& b, const std::string& s, const Arguments& a) -> Value { return replaced(b, s, a); }},
      {"split",
       [](Budget&, const std::string& s, const Arguments& a) -> Value { return split(s, a, false); }},
      {"rsplit",
       [](Budget&, const std::string& s, const Arguments& a) -> Value { return split(s, a, true); }},
      {"splitlines", [](Budget&, const std::string& s, const Arguments&) -> Value { return split_lines(s); }},
      {"startswith",
       [](Budget&, const std::string& s, const Arguments& a) -> Value {
         return has_affix(s, a.find(0, "prefix"), false);
       }},
      {"endswith",
       [](Budget&, const std::string& s, const Arguments& a) -> Value {
         return has_affix(s, a.find(0, "suffix"), true);
       }},
      {"find",
       [](Budget&, const std::string& s, const Arguments& a) -> Value {
         const size_t found = s.find(given_to(a, "find()").text_of("what find() looks for"));
         return found == std::string::npos ? int64_t{-1} : length(Value(s.substr(0, found)));
       }},
      {"count",
       [](Budget&, const std::string& s, const Arguments& a) -> Value {
         given_to(a, "count()");
         return length(split(s, a, false)) - 1;
       }},
      {"join",
       [](Budget& b, const std::string& s, const Arguments& a) -> Value {
         return join(b, items_of(given_to(a, "join()")), s);
       }},
      {"isdigit",
       [](Budget&, const std::string& s, const Arguments&) -> Value {
         return !s.empty() && std::ranges::all_of(s, [](char c) { return c >= '0' && c <= '9'; });
       }},
  };
  const auto found = kMethods.find(name);
  if (found == kMethods.end()) return {};
  return Function([&budget, text, method = found->second](const Arguments& given) {
    budget.spend_weight(1 + text.size() / 16);
    return method(budget, text, given);
  });
}

Value dict_method(const Value& value, const std::string& name) {
  const Dict& dict = *value.dict();
  const auto method = [&](Function function) { return Value(std::move(function), &value); };
  if (name == "items") return method([value](const Arguments&) { return pairs_of(*value.dict()); });
  if (name == "keys") return method([value](const Arguments&) -> Value { return List{items_of(value)}; });
  if (name == "values")
    return method([value](const Arguments&) -> Value {
      List all;
      for (const auto& item : value.dict()->items) all.items.push_back(item.second);
      return all;
    });
  if (name == "get")
    return method([value](const Arguments& given) -> Value {
      const Value *key = given.find(0, "key"), *otherwise = given.find(1, "default");
      const Value* found = key != nullptr && key->string() ? value.dict()->find(*key->string()) : nullptr;
      return found != nullptr ? *found : otherwise != nullptr ? *otherwise : Value(nullptr);
    });
  for (const char* changes : {"pop", "update", "setdefault", "clear", "popitem"})
    if (name == changes && !dict.find(name))
      throw Problem(fmt::format("{}() would change a dict, which templates may not", name));
  return {};
}

// The attribute of an item that map, selectattr and others name: "function.name".
Value path_of(Budget& budget, Value value, const std::string& path) {
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    int64_t index = 0;
    const bool is_index =
        std::from_chars(name.data(), name.data() + name.size(), index).ptr == name.data() + name.size() &&
        !name.empty();
    value = is_index ? item(budget, value, index) : item(budget, value, name);
    begin = end + 1;
  }
  return value;
}

// select, reject, selectattr, rejectattr.
Value chosen(Budget& budget, const Value& value, Arguments given, bool by_attribute, bool keeps) {
  std::string attribute_name;
  if (by_attribute) {
    if (given.positional.empty()) throw Problem("selectattr and rejectattr need the name of an attribute");
    attribute_name = given.positional[0].text_of("an attribute's name");
    given.positional.erase(given.positional.begin());
  }
  Test test = nullptr;
  if (!given.positional.empty()) {
    const std::string name = given.positional[0].text_of("a test's name");
    test = test_named(name);
    if (test == nullptr) throw Problem(fmt::format("the test {} is not read here", name));
    given.positional.erase(given.positional.begin());
  }
  List kept;
  for (const Value& each : items_of(value)) {
    budget.spend();
    const Value looked_at = by_attribute ? path_of(budget, each, attribute_name) : each;
    if ((test != nullptr ? test(looked_at, given) : truth(looked_at)) == keeps) kept.items.push_back(each);
  }
  return kept;
}

Value mapped(Budget& budget, const Value& value, const Arguments& given) {
  List all;
  const Value *attribute_name = given.named.find("attribute"), *otherwise = given.named.find("default");
  Arguments rest = given;
  Filter filter = nullptr;
  if (attribute_name == nullptr) {
    if (given.positional.empty()) throw Problem("map needs a filter or an attribute");
    const std::string name = given.positional[0].text_of("a filter's name");
    filter = filter_named(name);
    if (filter == nullptr) throw Problem(fmt::format("the filter {} is not read here", name));
    rest.positional.erase(rest.positional.begin());
  }
  for (const Value& each : items_of(value)) {
    budget.spend();
    Value made = filter != nullptr ? filter(budget, each, rest)
                                   : path_of(budget, each, attribute_name->text_of("an attribute's name"));
    if (made.is_undefined() && otherwise != nullptr) made = *otherwise;
    all.items.push_back(std::move(made));
  }
  return all;
}

Value sorted(Budget& budget, const Value& value, const Arguments& given) {
  const Value *reverse = given.find(0, "reverse"), *sensitive = given.find(1, "case_sensitive"),
              *by = given.find(2, "attribute");
  List all{items_of(value)};
  budget.spend_weight(16 * value.weight());
  const auto key = [&](const Value& each) {
    Value of =
        by != nullptr && !by->is_none() ? path_of(budget, each, by->text_of("an attribute's name")) : each;
    return of.string() && (sensitive == nullptr || !truth(*sensitive))
               ? Value(cased(*of.string(), false, false, false))
               : of;
  };
  std::ranges::stable_sort(all.items, [&](const Value& a, const Value& b) {
    return reverse != nullptr && truth(*reverse) ? less(key(b), key(a)) : less(key(a), key(b));
  });
  return all;
}

Value tojson(Budget& budget, const Value& value, const Arguments& given) {
  const Value *indent = given.named.find("indent"), *separators = given.named.find("separators"),
              *sorts = given.named.find("sort_keys");
  if (!given.positional.empty()) indent = given.positional.size() > 1 ? &given.positional[1] : indent;
  const bool has_indent = indent != nullptr && !indent->is_none();
  std::string item_separator = has_indent ? "," : ", ", key_separator = ": ";
  if (separators != nullptr && separators->list() && separators->list()->items.size() == 2) {
    item_separator = separators->list()->items[0].text_of("a separator");
    key_separator = separators->list()->items[1].text_of("a separator");
  }
  std::string made = json_text(value, has_indent ? indent->integer("indent") : -1, item_separator,
                               key_separator, sorts != nullptr && truth(*sorts));
  budget.spend_weight(1 + made.size() / 16);
  return made;
}

Value indented(const std::string& text, const Arguments& given) {
  const Value *width = given.find(0, "width"), *first = given.find(1, "first"),
              *blank = given.find(2, "blank");
  const std::string space =
      width == nullptr ? "    "
      : width->string() != nullptr
          ? *width->string()
          : std::string(static_cast<size_t>(std::clamp<int64_t>(width->integer("a width"), 0, 1000)), ' ');
  std::string out = first != nullptr && truth(*first) ? space : "";
  size_t at = 0;
  for (size_t end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    out += text.substr(at, end + 1 - at);
    const bool is_blank = end + 1 >= text.size() || text[end + 1] == '\n';
    if (!is_blank || (blank != nullptr && truth(*blank))) out += space;
  }
  return out + text.substr(at);
}

Value integer_of(const Value& value, const Value& otherwise) {
  if (value.is_number()) {
    const double number = std::trunc(value.number());
    return value.is_integer()        ? Value(value.integer(""))
           : std::abs(number) < 9e15 ? Value(static_cast<int64_t>(number))
                                     : otherwise;
  }
  const std::string digits = value.string() ? stripped(*value.string(), nullptr, true, true) : "";
  int64_t number = 0;
  const auto end = digits.data() + digits.size();
  return !digits.empty() && std::from_chars(digits.data(), end, number).ptr == end ? Value(number)
                                                                                   : otherwise;
}

}  // namespace

Value attribute(Budget& budget, const Value& value, const std::string& name) {
  if (const auto* undefined = value.get<Undefined>())
    throw Problem(fmt::format("{} is not defined, and has no {}", undefined->name, name));
  if (const Dict* dict = value.dict(); dict != nullptr && dict->is_namespace) {
    const Value* found = dict->find(name);
    return found != nullptr ? *found : Value(Undefined{name});
  }
  if (Value method = method_of(budget, value, name); !method.is_undefined()) return method;
  return value.dict() ? item(budget, value, name) : Value(Undefined{name});
}

Value item(Budget& budget, const Value& value, const Value& key) {
  budget.spend();
  if (const auto* undefined = value.get<Undefined>())
    throw Problem(fmt::format("{} is not defined, and has no items", undefined->name));
  const Value missing = Undefined{key.string()       ? *key.string()
                                  : key.is_integer() ? fmt::format("number {}", key.integer(""))
                                                     : "an item"};
  if (const Dict* dict = value.dict()) {
    const Value* found = key.string() ? dict->find(*key.string()) : nullptr;
    if (found != nullptr) return *found;
  } else if (key.is_integer() && (value.list() || value.string())) {
    const std::vector<Value> of_text = value.string() ? items_of(value) : std::vector<Value>();
    const std::vector<Value>& items = value.list() ? value.list()->items : of_text;
    budget.spend_weight(of_text.size());
    const auto count = static_cast<int64_t>(items.size());
    const int64_t at = key.integer("") < 0 ? key.integer("") + count : key.integer("");
    return at >= 0 && at < count ? items[static_cast<size_t>(at)] : missing;
  }
  if (key.string()) {
    const Value method = method_of(budget, value, *key.string());
    if (!method.is_undefined()) return method;
  }
  return missing;
}

Value method_of(Budget& budget, const Value& value, const std::string& name) {
  if (value.string()) return string_method(budget, *value.string(), name);
  if (value.dict() && !value.is_namespace()) return dict_method(value, name);
  if (value.list() &&
      (name == "append" || name == "pop" || name == "insert" || name == "extend" || name == "remove"))
    throw Problem(fmt::format("{}() would change a list, which templates may not", name));
  return {};
}

Filter filter_named(std::string_view name) {
  static const std::unordered_map<std::string_view, Filter> kFilters{
      {"trim",
       [](Budget&, const Value& v, const Arguments& a) -> Value {
         return stripped(text(v), a.find(0, "chars"), true, true);
       }},
      {"length", [](Budget&, const Value& v, const Arguments&) -> Value { return length(v); }},
      {"tojson", tojson},
      {"upper",
       [](Budget&, const Value& v, const Arguments&) -> Value { return cased(text(v), true, true, false); }},
      {"lower",
       [](Budget&, const Value& v, const Arguments&) -> Value {
         return cased(text(v), false, false, false);
       }},
      {"title",
       [](Budget&, const Value& v, const Arguments&) -> Value { return cased(text(v), true, false, true); }},
      {"capitalize",
       [](Budget&, const Value& v, const Arguments&) -> Value { return cased(text(v), true, false, false); }},
      {"default",
       [](Budget&, const Value& v, const Arguments& a) -> Value {
         const Value *otherwise = a.find(0, "default_value"), *falsy = a.find(1, "boolean");
         const bool is_there = falsy != nullptr && truth(*falsy) ? truth(v) : !v.is_undefined();
         return is_there ? v : otherwise != nullptr ? *otherwise : Value("");
       }},
      {"first",
       [](Budget&, const Value& v, const Arguments&) -> Value {
         const std::vector<Value> all = items_of(v);
         return all.empty() ? Value(Undefined{"the first item"}) : all.front();
       }},
      {"last",
       [](Budget&, const Value& v, const Arguments&) -> Value {
         const std::vector<Value> all = items_of(v);
         return all.empty() ? Value(Undefined{"the last item"}) : all.back();
       }},
      {"join",
       [](Budget& b, const Value& v, const Arguments& a) -> Value {
         const Value *separator = a.find(0, "d"), *by = a.find(1, "attribute");
         std::vector<Value> all = items_of(v);
         if (by != nullptr)
           for (Value& each : all) each = path_of(b, each, by->text_of("an attribute's name"));
         return join(b, all, separator != nullptr ? text(*separator) : "");
       }},
      {"list", [](Budget&, const Value& v, const Arguments&) -> Value { return List{items_of(v)}; }},
      {"string", [](Budget&, const Value& v, const Arguments&) -> Value { return text(v); }},
      {"safe", [](Budget&, const Value& v, const Arguments&) -> Value { return v; }},
      {"replace",
       [](Budget& b, const Value& v, const Arguments& a) -> Value { return replaced(b, text(v), a); }},
      {"items",
       [](Budget&, const Value& v, const Arguments&) -> Value {
         if (v.is_undefined()) return List{};
         if (!v.dict()) throw Problem("items of what is no dict");
         return pairs_of(*v.dict());
       }},
      {"dictsort",
       [](Budget& b, const Value& v, const Arguments&) -> Value {
         if (!v.dict()) throw Problem("dictsort of what is no dict");
         return sorted(b, pairs_of(*v.dict()), {.positional = {}, .named = {.items = {{"attribute", "0"}}}});
       }},
      {"reverse",
       [](Budget&, const Value& v, const Arguments&) -> Value {
         List all{items_of(v)};
         std::ranges::reverse(all.items);
         if (!v.string()) return all;
         std::string reversed;
         for (const Value& c : all.items) reversed += *c.string();
         return reversed;
       }},
      {"sort", sorted},
      {"unique",
       [](Budget& b, const Value& v, const Arguments&) -> Value {
         List all;
         for (const Value& each : items_of(v)) {
           b.spend_weight(v.weight());
           if (std::ranges::none_of(all.items, [&](const Value& other) { return equal(each, other); }))
             all.items.push_back(each);
         }
         return all;
       }},
      {"int",
       [](Budget&, const Value& v, const Arguments& a) {
         return integer_of(v, a.find(0, "default") ? *a.find(0, "default") : Value(int64_t{0}));
       }},
      {"float",
       [](Budget&, const Value& v, const Arguments&) -> Value {
         return v.is_number() ? v.number() : v.string() ? std::strtod(v.string()->c_str(), nullptr) : 0.0;
       }},
      {"abs",
       [](Budget&, const Value& v, const Arguments&) -> Value {
         return v.is_integer() ? Value(std::abs(v.integer(""))) : Value(std::abs(v.number()));
       }},
      {"map", mapped},
      {"select", [](Budget& b, const Value& v, const Arguments& a) { return chosen(b, v, a, false, true); }},
      {"reject", [](Budget& b, const Value& v, const Arguments& a) { return chosen(b, v, a, false, false); }},
      {"selectattr",
       [](Budget& b, const Value& v, const Arguments& a) { return chosen(b, v, a, true, true); }},
      {"rejectattr",
       [](Budget& b, const Value& v, const Arguments& a) { return chosen(b, v, a, true, false); }},
      {"indent", [](Budget&, const Value& v, const Arguments& a) { return indented(text(v), a); }},
  };
  if (name == "count") name = "length";
  if (name == "d") name = "default";
  const auto found = kFilters.find(name);
  return found == kFilters.end() ? nullptr : found->second;
}

Test test_named(std::string_view name) {
  static const std::unordered_map<std::string_view, Test> kTests{
      {"defined", [](const Value& v, const Arguments&) { return !v.is_undefined(); }},
      {"undefined", [](const Value& v, const Arguments&) { return v.is_undefined(); }},
      {"none", [](const Value& v, const Arguments&) { return v.is_none(); }},
      {"string", [](const Value& v, const Arguments&) { return v.string() != nullptr; }},
      {"number", [](const Value& v, const Arguments&) { return v.is_number(); }},
      {"integer", [](const Value& v, const Arguments&) { return v.get<int64_t>() != nullptr; }},
      {"float", [](const Value& v, const Arguments&) { return v.get<double>() != nullptr; }},
      {"boolean", [](const Value& v, const Arguments&) { return v.get<bool>() != nullptr; }},
      {"true", [](const Value& v, const Arguments&) { return v.get<bool>() != nullptr && *v.get<bool>(); }},
      {"false", [](const Value& v, const Arguments&) { return v.get<bool>() != nullptr && !*v.get<bool>(); }},
      {"mapping",
       [](const Value& v, const Arguments&) { return v.dict() != nullptr && !v.dict()->is_namespace; }},
      {"sequence", [](const Value& v,
                      const Arguments&) { return v.list() || v.string() || v.dict() || v.is_undefined(); }},
      {"iterable", [](const Value& v,
                      const Arguments&) { return v.list() || v.string() || v.dict() || v.is_undefined(); }},
      {"callable", [](const Value& v, const Arguments&) { return v.function() != nullptr; }},
      {"odd", [](const Value& v, const Arguments&) { return v.integer("what is odd") % 2 != 0; }},
      {"even", [](const Value& v, const Arguments&) { return v.integer("what is even") % 2 == 0; }},
      {"divisibleby",
       [](const Value& v, const Arguments& a) {
         const int64_t by = given_to(a, "this test").integer("a divisor");
         if (by == 0) throw Problem("a division by zero");
         return by != -1 && v.integer("what is divided") % by == 0;
       }},
      {"equalto", [](const Value& v, const Arguments& a) { return equal(v, given_to(a, "this test")); }},
      {"ne", [](const Value& v, const Arguments& a) { return !equal(v, given_to(a, "this test")); }},
      {"in", [](const Value& v, const Arguments& a) { return contains(given_to(a, "this test"), v); }},
  };
  if (name == "eq" || name == "sameas") name = "equalto";
  const auto found = kTests.find(name);
  return found == kTests.end() ? nullptr : found->second;
}

void add_functions(Scope& scope, Budget& budget, std::time_t now) {
  scope.set("range", Function([&budget](const Arguments& given) -> Value {
              constexpr int64_t kMost = 100'000;
              if (given.positional.empty()) throw Problem("range() needs a number");
              const auto number = [&](size_t i) { return given.positional[i].integer("an end of range()"); };
              const size_t count = given.positional.size();
              const int64_t begin = count > 1 ? number(0) : 0, end = number(count > 1 ? 1 : 0),
                            step = count > 2 ? number(2) : 1;
              if (step == 0) throw Problem("the step of range() is 0");
              List all;
              for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
                budget.spend();
                all.items.emplace_back(i);
                if (all.items.size() > kMost) throw Problem("range() of more than 100,000 numbers");
              }
              return all;
            }));
  scope.set("namespace", Function([](const Arguments& given) -> Value {
              Dict made = given.named;
              for (const Value& other : given.positional)
                if (other.dict())
                  for (const auto& [key, value] : other.dict()->items) made.set(key, value);
              made.is_namespace = true;
              return made;
            }));
  scope.set("dict", Function([](const Arguments& given) -> Value { return given.named; }));
  scope.set("raise_exception", Function([](const Arguments& given) -> Value {
              throw Problem("it refuses the conversation: " +
                            (given.positional.empty() ? "" : text(given.positional[0])));
            }));
  scope.set("strftime_now", Function([now](const Arguments& given) -> Value {
              if (given.positional.empty()) throw Problem("strftime_now() needs a format");
              std::tm local{};
              ::localtime_r(&now, &local);
              std::ostringstream out;
              out.imbue(std::locale::classic());
              out << std::put_time(&local,
                                   given.positional[0].text_of("the format of strftime_now()").c_str());
              return out.str();
            }));
}

}  // namespace pipeline::chat
