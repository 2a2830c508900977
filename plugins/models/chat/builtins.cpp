#include "plugins/models/chat/compiler.hpp"

#include <array>

namespace pipeline::chat {
namespace {

using enum Builtin::Role;
constexpr int kTextual = kFilter | kStringMethod;

// Python's names that mean something here and are not read.
constexpr std::string_view kFunctions = " caller cycler dict joiner kwargs lipsum self super varargs ";
constexpr std::string_view kLoop = " cycle changed depth depth0 ";
constexpr std::string_view kStringMethods =
    " casefold center count encode expandtabs find format format_map index isalnum isalpha isascii isdecimal "
    "isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust maketrans "
    "partition "
    "removeprefix removesuffix rfind rindex rjust rpartition rsplit splitlines swapcase translate zfill ";
constexpr std::string_view kDictMethods = " clear copy fromkeys pop popitem setdefault update values ";
constexpr std::string_view kListMethods =
    " append clear copy count extend index insert pop remove reverse sort ";

std::string text_of(const Call& call) { return text(call.rendering, call.value); }
std::vector<Value> items_if_any(const Call& call) {
  return truth(call.value) ? items_of(call.rendering, call.value) : std::vector<Value>();
}
std::vector<Value> items_of(const Call& call) { return items_of(call.rendering, call.value); }

// Changes the case of ASCII letters; others have rules that are not here.
std::string cased(std::string text, bool upper_first, bool upper_others, bool by_word = false) {
  bool is_first = true;
  for (char& c : text) {
    if (static_cast<unsigned char>(c) >= 0x80)
      throw Problem("upper and lower case of letters that are not ASCII's are not known here");
    c = static_cast<char>((is_first ? upper_first : upper_others) ? std::toupper(c) : std::tolower(c));
    is_first = by_word && !std::isalpha(static_cast<unsigned char>(c));
  }
  return text;
}

Value titled(const Call& call) { return cased(text_of(call), true, false, true); }
Value starts_with(const Call& call) { return text_of(call).starts_with(call.given[0].string_of("a prefix")); }
Value ends_with(const Call& call) { return text_of(call).ends_with(call.given[0].string_of("a suffix")); }

Value without(const Call& call, bool left, bool right) {
  const bool has_chosen = call.given[0].is_given() && call.given[0].type != kNone;
  const std::string whole = text_of(call);
  if (has_chosen) call.rendering.spend_search(whole, call.given[0].string_of("what is stripped"));
  return stripped(whole, left, right, has_chosen ? call.given[0].string.get() : nullptr);
}

Value replaced(const Call& call) {
  const std::string rest = text_of(call), &from = call.given[0].string_of("what replace() looks for"),
                    &to = call.given[1].string_of("what replace() puts in");
  if (from.empty()) unread("replace() of an empty str");
  call.rendering.spend_search(rest, from);
  std::string out;
  size_t at = 0;
  for (size_t found; (found = rest.find(from, at)) != std::string::npos; at = found + from.size()) {
    out.append(rest, at, found - at).append(to);
    call.rendering.spend(1 + to.size() / 16);
  }
  return out.append(rest, at);
}

Value split(const Call& call) {
  if (!call.given[0].is_given()) unread("split() at white space");
  const std::string &separator = call.given[0].string_of("what split() looks for"), rest = text_of(call);
  int64_t most = call.given[1].is_given() ? call.given[1].integer_of("maxsplit") : -1;
  if (separator.empty()) unread("split() at an empty str");
  call.rendering.spend_search(rest, separator);
  std::vector<Value> parts;
  size_t at = 0;
  for (size_t end; most != 0 && (end = rest.find(separator, at)) != std::string::npos; --most) {
    parts.emplace_back(rest.substr(at, end - at));
    at = end + separator.size();
  }
  call.rendering.spend(parts.size());
  parts.emplace_back(rest.substr(at));
  return list_of(parts);
}

// The filter takes what is undefined, too.
Value pairs_of(const Call& call, Value::Type as) {
  const bool is_nothing = call.value.type == kUndefined && as == kGenerator;
  if (call.value.type != kDict && !is_nothing) unread("items of {}", call.value.name_of_type());
  std::vector<Value> pairs;
  if (!is_nothing)
    for (const auto& [key, item] : *call.value.members) pairs.push_back(list_of({key, item}, kTuple));
  call.rendering.spend(pairs.size());
  return list_of(pairs, as);
}

const std::string& attribute_of(const Value& value) {
  const std::string& name = value.string_of("an attribute");
  if (name.find_first_not_of("0123456789.") != 0 || name.find('.') != std::string::npos)
    unread("the attribute '{}'", name);
  return name;
}

// The items in the order of what they have at this key, upper and lower case being the same.
Value sorted(Rendering& rendering, const Value& value, const Value& key) {
  std::vector<std::pair<Value, Value>> all;
  for (const Value& each : items_of(rendering, value)) {
    const Value by = item(rendering, each, key);
    all.emplace_back(by.type == kString ? cased(text(rendering, by), false, false) : by, each);
    rendering.spend(16);
  }
  std::ranges::stable_sort(all, less, &std::pair<Value, Value>::first);
  std::vector<Value> ordered;
  for (auto& [by, each] : all) ordered.push_back(std::move(each));
  return list_of(ordered);
}

Value sort(const Call& call) {
  if (call.given[0].is_given() || !call.given[1].is_given()) unread("sort() without an attribute");
  return sorted(call.rendering, call.value, attribute_of(call.given[1]));
}

Value joined(const Call& call) {
  const std::string separator = text(call.rendering, call.given[0]);
  std::string all;
  for (const Value& each : items_of(call)) {
    call.rendering.spend(1 + separator.size() / 16);
    all.append(text(call.rendering, each)).append(separator);
  }
  all.resize(all.size() - std::min(all.size(), separator.size()));
  return all;
}

Value length(const Call& call) {
  if (call.value.type == kGenerator) unread("the length of a generator");
  if (call.value.type >= kTuple && call.value.type <= kView) return call.value.members->size();
  return items_of(call).size();
}

Value fallback(const Call& call) {
  if (truth(call.given[1]) ? truth(call.value) : call.value.type != kUndefined) return call.value;
  return call.given[0].is_given() ? call.given[0] : "";
}

Value get(const Call& call) {
  const Value& key = call.given[0];
  const Value* found = find_in(call.rendering, *call.value.members, key.string_of("a key"));
  return found != nullptr ? *found : call.given[1].is_given() ? call.given[1] : nullptr;
}

Value string(const Call& call) { return call.value.is_safe ? call.value : text_of(call); }

Value safe(const Call& call) {
  Value value = text_of(call);
  value.is_safe = true;
  return value;
}

Value end_of(const Call& call, int64_t index) {
  if (call.value.type != kGenerator) return item(call.rendering, list_of(items_of(call)), index);
  if (index != 0) unread("the last of a generator");
  if (call.value.members->empty()) return Value::undefined("the first of nothing");
  const Value first = call.value.members->front().second;
  call.value.members->erase(call.value.members->begin());
  call.rendering.spend(call.value.members->size());
  return first;
}

Value mapped(const Call& call) {
  const bool by_attribute = !call.given[0].is_given();
  const std::string& name = call.given[by_attribute ? 1 : 0].string_of("what map() makes of an item");
  const Builtin* filter = builtin_named(name, Builtin::kFilter);
  if (!by_attribute && (filter == nullptr || call.given[1].is_given()))
    unread("map() by the filter {}", name);
  std::vector<Value> made;
  for (const Value& each : items_if_any(call))
    made.push_back(by_attribute ? item(call.rendering, each, attribute_of(name))
                                : filter->call(call.rendering, each, {}));
  return list_of(made, kGenerator);
}

// The items of which a test is true, or is not: of them, or of their attribute.
Value chosen(const Call& call, bool by_attribute, bool keeps) {
  const Value &named = call.given[by_attribute ? 1 : 0], &argument = call.given[by_attribute ? 2 : 1];
  const std::string name = named.is_given() ? named.string_of("the name of a test") : "";
  const bool is_equality = name == "equalto" || name == "eq" || name == "==";
  const Test test = name.empty() ? truth : test_named(name);
  if (is_equality ? !argument.is_given() : test == nullptr || argument.is_given())
    unread("the test {}", name);
  std::vector<Value> kept;
  for (const Value& each : items_if_any(call)) {
    const Value tested = by_attribute ? item(call.rendering, each, attribute_of(call.given[0])) : each;
    if ((is_equality ? equal(call.rendering, tested, argument) : test(tested)) == keeps) kept.push_back(each);
  }
  return list_of(kept, kGenerator);
}

Value range(const Call& call) {
  const bool has_begin = call.given[1].is_given();
  const int64_t begin = has_begin ? call.given[0].integer_of("where range() begins") : 0,
                end = call.given[has_begin ? 1 : 0].integer_of("where range() ends"),
                step = call.given[2].is_given() ? call.given[2].integer_of("the step of range()") : 1;
  if (step != 1 && step != -1) unread("range() of step {}", step);
  std::vector<Value> all;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    call.rendering.spend(1);
    all.emplace_back(i);
  }
  return list_of(all, kView);
}

Value time_text(const Call& call) {
  std::tm local{};
  ::localtime_r(&call.rendering.time, &local);
  const std::string format = " " + call.given[0].string_of("the format of strftime_now()");  // never empty
  std::array<char, 1000> text{};
  constexpr auto kWrite = &std::strftime;  // as Python's: with any format
  if (kWrite(text.data(), text.size(), format.c_str(), &local) == 0) unread("so long a date");
  return text.data() + 1;
}

Value raise(const Call& call) {
  throw Problem("it refuses the conversation: " + text(call.rendering, call.given[0]));
}

Value as_json(const Call& call) {
  const bool has_indent = call.given[1].is_given() && call.given[1].type != kNone;
  const int64_t indent = has_indent ? call.given[1].integer_of("indent") : -1;
  if (has_indent && indent < 0) unread("an indent below 0");
  return json_text(call.rendering, call.value, truth(call.given[0]), indent);
}

const Builtin kBuiltins[] = {
    {"trim", kFilter, {"chars"}, [](const Call& call) { return without(call, true, true); }},
    {"strip", kStringMethod, {""}, [](const Call& call) { return without(call, true, true); }},
    {"lstrip", kStringMethod, {""}, [](const Call& call) { return without(call, true, false); }},
    {"rstrip", kStringMethod, {""}, [](const Call& call) { return without(call, false, true); }},
    {"upper", kTextual, {}, [](const Call& call) -> Value { return cased(text_of(call), true, true); }},
    {"lower", kTextual, {}, [](const Call& call) -> Value { return cased(text_of(call), false, false); }},
    {"title", kStringMethod, {}, titled},
    {"capitalize", kTextual, {}, [](const Call& call) -> Value { return cased(text_of(call), true, false); }},
    {"replace", kTextual, {"old", "new"}, replaced},
    {"split", kStringMethod, {"sep", "maxsplit"}, split},
    {"startswith", kStringMethod, {""}, starts_with},
    {"endswith", kStringMethod, {""}, ends_with},
    {"string", kFilter, {}, string},
    {"safe", kFilter, {}, safe},
    {"int", kFilter, {}, [](const Call& call) -> Value { return call.value.integer_of("an integer"); }},
    {"tojson", kFilter, {"ensure_ascii", "indent"}, as_json},
    {"items", kFilter, {}, [](const Call& call) { return pairs_of(call, kGenerator); }},
    {"items", kDictMethod, {}, [](const Call& call) { return pairs_of(call, kView); }},
    {"dictsort",
     kFilter,
     {},
     [](const Call& call) { return sorted(call.rendering, pairs_of(call, kList), 0); }},
    {"keys", kDictMethod, {}, [](const Call& call) { return list_of(items_of(call), kView); }},
    {"list", kFilter, {}, [](const Call& call) { return list_of(items_of(call)); }},
    {"length", kFilter, {}, length},
    {"count", kFilter, {}, length},
    {"default", kFilter, {"default_value", "boolean"}, fallback},
    {"d", kFilter, {"default_value", "boolean"}, fallback},
    {"first", kFilter, {}, [](const Call& call) { return end_of(call, 0); }},
    {"last", kFilter, {}, [](const Call& call) { return end_of(call, -1); }},
    {"get", kDictMethod, {"", ""}, get},
    {"join", kFilter, {"d"}, joined},
    {"map", kFilter, {"", "attribute"}, mapped},
    {"select", kFilter, {"", ""}, [](const Call& call) { return chosen(call, false, true); }},
    {"reject", kFilter, {"", ""}, [](const Call& call) { return chosen(call, false, false); }},
    {"selectattr", kFilter, {"", "", ""}, [](const Call& call) { return chosen(call, true, true); }},
    {"rejectattr", kFilter, {"", "", ""}, [](const Call& call) { return chosen(call, true, false); }},
    {"sort", kFilter, {"", "attribute"}, sort},
    {"range", kFunction, {"", "", ""}, range},
    {"namespace", kFunction, {}, nullptr},
    {"raise_exception", kFunction, {"message"}, raise},
    {"strftime_now", kFunction, {"format"}, time_text},
};

}  // namespace

std::vector<Value> in_order_of(const std::vector<std::string>& parameters, const Arguments& arguments,
                               std::string_view called) {
  std::vector<Value> ordered(parameters.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& [name, value] = arguments[i];
    const size_t at =
        name.empty() ? i : static_cast<size_t>(std::ranges::find(parameters, name) - parameters.begin());
    if (at >= ordered.size() || ordered[at].is_given())
      unread("argument {} of {}()", name.empty() ? std::to_string(i + 1) : name, called);
    ordered[at] = value;
  }
  return ordered;
}

// What Python can call on a value of this type: methods, or, where it has none, functions.
int role_of(const Value& value) {
  return value.type == kString ? kStringMethod : value.type == kDict ? kDictMethod : kFunction;
}

Value Builtin::call(Rendering& rendering, const Value& value, const Arguments& arguments) const {
  if ((roles & (role_of(value) | kFilter)) == 0 || (value.is_safe && name != "safe" && name != "string"))
    unread("{} of {}", name, value.is_safe ? "what is safe" : value.name_of_type());
  if (run != nullptr) return run({rendering, value, in_order_of(parameters, arguments, name)});
  if (find_in(rendering, arguments, "") != nullptr) unread("namespace() of a dict");
  return Value(kNamespace, arguments);
}

const Builtin* builtin_named(std::string_view name, int role) {
  const auto* found = std::ranges::find_if(
      kBuiltins, [&](const Builtin& one) { return one.name == name && (one.roles & role); });
  return found == std::end(kBuiltins) ? nullptr : found;
}

Test test_named(std::string_view name) {
  static constexpr std::pair<std::string_view, Test> kTests[] = {
      {"defined", [](const Value& v) { return v.type != kUndefined; }},
      {"undefined", [](const Value& v) { return v.type == kUndefined; }},
      {"none", [](const Value& v) { return v.type == kNone; }},
      {"string", [](const Value& v) { return v.type == kString; }},
      {"number", [](const Value& v) { return v.is_number(); }},
      {"integer", [](const Value& v) { return v.type == kInteger; }},
      {"float", [](const Value& v) { return v.type == kFloat; }},
      {"boolean", [](const Value& v) { return v.type == kBool; }},
      {"true", [](const Value& v) { return v.type == kBool && v.integer == 1; }},
      {"false", [](const Value& v) { return v.type == kBool && v.integer == 0; }},
      {"mapping", [](const Value& v) { return v.type == kDict; }},
      {"sequence",
       [](const Value& v) { return v.type == kUndefined || (v.type >= kString && v.type <= kDict); }},
      {"iterable",
       [](const Value& v) { return v.type == kUndefined || (v.type >= kString && v.type <= kGenerator); }},
  };
  const auto* found = std::ranges::find(kTests, name, &std::pair<std::string_view, Test>::first);
  return found == std::end(kTests) ? nullptr : found->second;
}

// A function or method; undefined: there is none.
Value function_value(std::string_view name, int role, std::string_view others) {
  if (name.starts_with("__") || others.find(fmt::format(" {} ", name)) != std::string_view::npos)
    unread("{} {}", role == kFunction ? "the function" : "the method", name);
  Value value = Value::undefined(name);
  value.builtin = builtin_named(name, role);
  if (value.builtin != nullptr) value.type = kCallable;
  return value;
}

Value function_named(std::string_view name) { return function_value(name, Builtin::kFunction, kFunctions); }

Value method_named(const Value& value, std::string_view name) {
  if (value.type == kString) return function_value(name, kStringMethod, kStringMethods);
  if (value.type == kDict) return function_value(name, kDictMethod, kDictMethods);
  return function_value(name, 0, value.type == kNamespace ? kLoop : kListMethods);
}

Value attribute(Rendering& rendering, const Value& value, const std::string& name) {
  if (value.type == kUndefined)
    throw Problem(fmt::format("{} is not defined, and has no {}", *value.string, name));
  const Value* found =
      value.type == kDict || value.type == kNamespace ? find_in(rendering, *value.members, name) : nullptr;
  const bool is_hidden = value.type == kDict && builtin_named(name, kDictMethod) != nullptr;
  return found != nullptr && !is_hidden ? *found : method_named(value, name);
}

Value item(Rendering& rendering, const Value& value, const Value& key) {
  if (value.type == kUndefined)
    throw Problem(fmt::format("{} is not defined, and has no items", *value.string));
  if (value.type == kView) unread("an item of a view");
  if (key.type == kString) {
    const bool has_keys = value.type == kDict || value.type == kNamespace;
    const Value* found = has_keys ? find_in(rendering, *value.members, *key.string) : nullptr;
    return found != nullptr ? *found : method_named(value, *key.string);
  }
  if (!key.is_integer() || (value.type != kString && !value.is_list())) return Value::undefined("an item");
  const Value all = value.is_list() ? value : list_of(items_of(rendering, value));
  const auto count = static_cast<int64_t>(all.members->size());
  const int64_t at = key.integer < 0 ? key.integer + count : key.integer;
  if (at < 0 || at >= count) return Value::undefined(fmt::format("number {}", key.integer));
  return (*all.members)[static_cast<size_t>(at)].second;
}

}  // namespace pipeline::chat
