#include "plugins/models/chat/builtins.hpp"

#include <charconv>
#include <iomanip>
#include <locale>
#include <sstream>

#include <fmt/format.h>

namespace pipeline::chat {
namespace {

using enum Builtin::Role;

// Python's names that mean something here and are not read.
constexpr std::string_view kFunctions = " caller cycler dict joiner kwargs lipsum self super varargs ";
constexpr std::string_view kLoop = " cycle changed depth depth0 ";
constexpr std::string_view kStringMethods =
    " casefold center count encode expandtabs find format format_map index isalnum isalpha isascii isdecimal "
    "isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust maketrans "
    "partition "
    "removeprefix removesuffix rfind rindex rjust rpartition rsplit splitlines swapcase translate zfill ";
constexpr std::string_view kDictMethods = " clear copy fromkeys pop popitem setdefault update ";
constexpr std::string_view kListMethods =
    " append clear copy count extend index insert pop remove reverse sort ";

void refuse(std::string_view what, std::string_view name, std::string_view unread) {
  if (unread.find(fmt::format(" {} ", name)) != std::string_view::npos)
    throw Problem(fmt::format("{} {} is not read here", what, name));
}

std::string text_of(const Call& call) { return text(call.rendering, call.value); }
std::vector<Value> items_if_any(const Call& call) {
  return truth(call.value) ? items_of(call.rendering, call.value) : std::vector<Value>();
}
std::vector<Value> items_of(const Call& call) { return items_of(call.rendering, call.value); }

// Letters of ASCII; others have rules that are not here.
Value cased(std::string text, bool upper_first, bool upper_others, bool by_word = false) {
  bool is_first = true;
  for (char& c : text) {
    if (static_cast<unsigned char>(c) >= 0x80)
      throw Problem("upper and lower case of letters that are not ASCII's are not known here");
    c = static_cast<char>((is_first ? upper_first : upper_others) ? std::toupper(c) : std::tolower(c));
    is_first = by_word && !std::isalpha(static_cast<unsigned char>(c));
  }
  return text;
}

Value without(const Call& call, bool left, bool right) {
  const bool has_chosen = !call.given[0].is_missing() && call.given[0].type != Value::kNone;
  if (has_chosen) call.given[0].string_of("what is stripped");
  return stripped(text_of(call), left, right, has_chosen ? call.given[0].string.get() : nullptr);
}

Value replaced(const Call& call) {
  const std::string rest = text_of(call), &from = call.given[0].string_of("what replace() looks for"),
                    &to = call.given[1].string_of("what replace() puts in");
  if (from.empty()) throw Problem("replace() of an empty str is not read here");
  std::string out;
  size_t at = 0;
  for (size_t found; (found = rest.find(from, at)) != std::string::npos; at = found + from.size()) {
    out.append(rest, at, found - at).append(to);
    call.rendering.spend(1 + to.size() / 16);
  }
  return out.append(rest, at);
}

Value split(const Call& call) {
  const std::string &separator = call.given[0].string_of("what split() looks for"), rest = text_of(call);
  int64_t most = call.given[1].is_missing() ? -1 : call.given[1].integer_of("maxsplit");
  if (separator.empty()) throw Problem("split() at an empty str");
  Members parts;
  size_t at = 0;
  for (size_t end; most != 0 && (end = rest.find(separator, at)) != std::string::npos; --most) {
    parts.emplace_back("", rest.substr(at, end - at));
    at = end + separator.size();
  }
  call.rendering.spend(parts.size());
  parts.emplace_back("", rest.substr(at));
  return Value(Value::kList, std::move(parts));
}

bool starts_with(std::string_view text, std::string_view affix) { return text.starts_with(affix); }
bool ends_with(std::string_view text, std::string_view affix) { return text.ends_with(affix); }
Value has_affix(const Call& call, bool (*has)(std::string_view text, std::string_view affix)) {
  const std::string whole = text_of(call);
  const Value& affix = call.given[0];
  if (affix.type != Value::kTuple) return has(whole, affix.string_of("an affix"));
  return std::ranges::any_of(items_of(call.rendering, affix),
                             [&](const Value& one) { return has(whole, one.string_of("an affix")); });
}

Value list_of(const std::vector<Value>& items, Value::Type type = Value::kList) {
  Members members;
  for (const Value& each : items) members.emplace_back("", each);
  return Value(type, std::move(members));
}

Value pairs_of(const Call& call) {
  if (call.value.type != Value::kDict && call.value.type != Value::kUndefined)
    throw Problem(fmt::format("{} has no items of keys and values", call.value.name_of_type()));
  std::vector<Value> pairs;
  for (const Value& key : items_of(call))
    pairs.push_back(list_of({key, *find_in(*call.value.members, *key.string)}, Value::kTuple));
  return list_of(pairs, Value::kView);
}

// In the order of what is at this key of the items, without a difference of upper and lower case.
Value sorted(Rendering& rendering, const Value& value, const Value& key) {
  std::vector<std::pair<Value, Value>> all;
  for (const Value& each : items_of(rendering, value)) {
    const Value by = item(rendering, each, key);
    all.emplace_back(by.type == Value::kString ? cased(*by.string, false, false) : by, each);
    rendering.spend(16);
  }
  std::ranges::stable_sort(all, less, &std::pair<Value, Value>::first);
  std::vector<Value> ordered;
  for (auto& [by, each] : all) ordered.push_back(std::move(each));
  return list_of(ordered);
}

Value sort(const Call& call) {
  if (!call.given[0].is_missing() || call.given[1].is_missing())
    throw Problem("sort() without an attribute is not read here");
  return sorted(call.rendering, call.value, call.given[1]);
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
  if (call.value.type == Value::kGenerator)
    throw Problem(fmt::format("{} has no length", call.value.name_of_type()));
  return items_of(call).size();
}

Value fallback(const Call& call) {
  if (truth(call.given[1]) ? truth(call.value) : call.value.type != Value::kUndefined) return call.value;
  return call.given[0].is_missing() ? Value("") : call.given[0];
}

Value get(const Call& call) {
  const Value& key = call.given[0];
  const Value* found = find_in(*call.value.members, key.string_of("a key"));
  return found != nullptr ? *found : call.given[1].is_missing() ? Value(nullptr) : call.given[1];
}

Value safe(const Call& call) {
  Value value = text_of(call);
  value.is_safe = true;
  return value;
}

Value end_of(const Call& call, int64_t index) { return item(call.rendering, list_of(items_of(call)), index); }

Value mapped(const Call& call) {
  const bool by_attribute = call.given[0].is_missing();
  const std::string& name = call.given[by_attribute ? 1 : 0].string_of("what map() makes of an item");
  const Builtin* filter = builtin_named(name, Builtin::kFilter);
  if (!by_attribute && (filter == nullptr || !call.given[1].is_missing()))
    throw Problem(fmt::format("map() by the filter {} is not read here", name));
  Members made;
  for (const Value& each : items_if_any(call))
    made.emplace_back(
        "", by_attribute ? item(call.rendering, each, name) : filter->call(call.rendering, each, {}));
  return Value(Value::kGenerator, std::move(made));
}

// The items of which a test is true, or is not: of them, or of their attribute.
Value chosen(const Call& call, bool by_attribute, bool keeps) {
  const Value &named = call.given[by_attribute ? 1 : 0], &argument = call.given[by_attribute ? 2 : 1];
  const std::string name = named.is_missing() ? "" : named.string_of("the name of a test");
  const bool is_equality = name == "equalto" || name == "eq" || name == "==";
  const Test test = name.empty() ? truth : test_named(name);
  if (is_equality ? argument.is_missing() : test == nullptr || !argument.is_missing())
    throw Problem(fmt::format("the test {} is not read here", name));
  Members kept;
  for (const Value& each : items_if_any(call)) {
    const Value tested = by_attribute ? item(call.rendering, each, call.given[0]) : each;
    if ((is_equality ? equal(call.rendering, tested, argument) : test(tested)) == keeps)
      kept.emplace_back("", each);
  }
  return Value(Value::kGenerator, std::move(kept));
}

Value whole(const Call& call) {
  if (call.value.is_integer()) return call.value.integer;
  const std::string digits(stripped(text_of(call), true, true));
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error == std::errc() && end == digits.data() + digits.size()) return number;
  throw Problem(fmt::format("int of {} is not read here", call.value.name_of_type()));
}

Value range(const Call& call) {
  const bool has_begin = !call.given[1].is_missing();
  const int64_t begin = has_begin ? call.given[0].integer_of("where range() begins") : 0,
                end = call.given[has_begin ? 1 : 0].integer_of("where range() ends"),
                step = call.given[2].is_missing() ? 1 : call.given[2].integer_of("the step of range()");
  if (step != 1 && step != -1) throw Problem(fmt::format("range() of step {} is not read here", step));
  Members all;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    call.rendering.spend(1);
    all.emplace_back("", i);
  }
  return Value(Value::kView, std::move(all));
}

Value time_text(const Call& call) {
  std::tm local{};
  ::localtime_r(&call.rendering.time, &local);
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << std::put_time(&local, call.given[0].string_of("the format of strftime_now()").c_str());
  return out.str();
}

Value raise(const Call& call) {
  throw Problem("it refuses the conversation: " + text(call.rendering, call.given[0]));
}

Value as_json(const Call& call) {
  const bool has_indent = !call.given[1].is_missing() && call.given[1].type != Value::kNone;
  const int64_t indent = has_indent ? call.given[1].integer_of("indent") : -1;
  if (has_indent && indent < 0) throw Problem("an indent below 0 is not read here");
  return json_text(call.rendering, call.value, truth(call.given[0]), indent);
}

const Builtin kBuiltins[] = {
    {"trim", kFilter, {"chars"}, [](const Call& call) { return without(call, true, true); }},
    {"strip", kStringMethod, {""}, [](const Call& call) { return without(call, true, true); }},
    {"lstrip", kStringMethod, {""}, [](const Call& call) { return without(call, true, false); }},
    {"rstrip", kStringMethod, {""}, [](const Call& call) { return without(call, false, true); }},
    {"upper", kFilter | kStringMethod, {}, [](const Call& call) { return cased(text_of(call), true, true); }},
    {"lower",
     kFilter | kStringMethod,
     {},
     [](const Call& call) { return cased(text_of(call), false, false); }},
    {"title",
     kFilter | kStringMethod,
     {},
     [](const Call& call) { return cased(text_of(call), true, false, true); }},
    {"capitalize",
     kFilter | kStringMethod,
     {},
     [](const Call& call) { return cased(text_of(call), true, false); }},
    {"replace", kFilter | kStringMethod, {"old", "new"}, replaced},
    {"split", kStringMethod, {"sep", "maxsplit"}, split},
    {"startswith", kStringMethod, {""}, [](const Call& call) { return has_affix(call, starts_with); }},
    {"endswith", kStringMethod, {""}, [](const Call& call) { return has_affix(call, ends_with); }},
    {"string",
     kFilter,
     {},
     [](const Call& call) -> Value { return call.value.is_safe ? call.value : text_of(call); }},
    {"safe", kFilter, {}, safe},
    {"int", kFilter, {}, whole},
    {"tojson", kFilter, {"ensure_ascii", "indent"}, as_json},
    {"items", kFilter | kDictMethod, {}, [](const Call& call) { return pairs_of(call); }},
    {"dictsort", kFilter, {}, [](const Call& call) { return sorted(call.rendering, pairs_of(call), 0); }},
    {"keys", kDictMethod, {}, [](const Call& call) { return list_of(items_of(call), Value::kView); }},
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

std::vector<Value> Arguments::in_order_of(const std::vector<std::string>& parameters,
                                          std::string_view called) const {
  if (positional.size() > parameters.size())
    throw Problem(fmt::format("argument {} of {}() is not read here", parameters.size() + 1, called));
  std::vector<Value> ordered = positional;
  ordered.resize(parameters.size());
  for (const auto& [name, value] : named) {
    const auto i = static_cast<size_t>(std::ranges::find(parameters, name) - parameters.begin());
    if (i == parameters.size() || !ordered[i].is_missing())
      throw Problem(fmt::format("the argument {} of {}() is not read here", name, called));
    ordered[i] = value;
  }
  return ordered;
}

Value Builtin::call(Rendering& rendering, const Value& value, const Arguments& arguments) const {
  if (run == nullptr) {  // namespace()
    if (!arguments.positional.empty()) throw Problem("namespace() of a dict is not read here");
    return Value(Value::kNamespace, arguments.named);
  }
  const int role = value.type == Value::kString ? kStringMethod
                   : value.type == Value::kDict ? kDictMethod
                                                : kFunction;
  if ((roles & (role | kFilter)) == 0)
    throw Problem(fmt::format("{}() of {} is not read here", name, value.name_of_type()));
  if (value.is_safe && name != "safe" && name != "string")
    throw Problem(fmt::format("{} of what is safe is not read here", name));
  return run({rendering, value, arguments.in_order_of(parameters, name)});
}

const Builtin* builtin_named(std::string_view name, int role) {
  const auto* found = std::ranges::find_if(
      kBuiltins, [&](const Builtin& one) { return one.name == name && (one.roles & role); });
  return found == std::end(kBuiltins) ? nullptr : found;
}

bool has_items(const Value& value) {
  return value.type == Value::kUndefined || value.type == Value::kString || value.type == Value::kList ||
         value.type == Value::kTuple || value.type == Value::kDict;
}

Test test_named(std::string_view name) {
  static constexpr std::pair<std::string_view, Test> kTests[] = {
      {"defined", [](const Value& v) { return v.type != Value::kUndefined; }},
      {"undefined", [](const Value& v) { return v.type == Value::kUndefined; }},
      {"none", [](const Value& v) { return v.type == Value::kNone; }},
      {"string", [](const Value& v) { return v.type == Value::kString; }},
      {"number", [](const Value& v) { return v.is_number(); }},
      {"integer", [](const Value& v) { return v.type == Value::kInteger; }},
      {"float", [](const Value& v) { return v.type == Value::kFloat; }},
      {"boolean", [](const Value& v) { return v.type == Value::kBool; }},
      {"true", [](const Value& v) { return v.type == Value::kBool && v.integer == 1; }},
      {"false", [](const Value& v) { return v.type == Value::kBool && v.integer == 0; }},
      {"mapping", [](const Value& v) { return v.type == Value::kDict; }},
      {"sequence", has_items},
      {"iterable", has_items},
  };
  const auto* found = std::ranges::find(kTests, name, &std::pair<std::string_view, Test>::first);
  return found == std::end(kTests) ? nullptr : found->second;
}

// A function or method, or undefined.
Value function_value(std::string_view name, int role) {
  Value value = Value::undefined(name);
  value.builtin = builtin_named(name, role);
  if (value.builtin != nullptr) value.type = Value::kFunction;
  return value;
}

Value function_named(std::string_view name) {
  refuse("the function", name, kFunctions);
  return function_value(name, kFunction);
}

Value method_named(const Value& value, std::string_view name) {
  if (name.starts_with("__")) throw Problem(fmt::format("the attribute {} is not read here", name));
  refuse("the method", name,
         value.type == Value::kString      ? kStringMethods
         : value.type == Value::kDict      ? kDictMethods
         : value.type == Value::kNamespace ? kLoop
                                           : kListMethods);
  return function_value(name, value.type == Value::kString ? kStringMethod
                              : value.type == Value::kDict ? kDictMethod
                                                           : 0);
}

Value attribute(const Value& value, const std::string& name) {
  if (value.type == Value::kUndefined)
    throw Problem(fmt::format("{} is not defined, and has no {}", *value.string, name));
  const bool is_dict = value.type == Value::kDict;
  if (value.type == Value::kNamespace)
    if (const Value* found = find_in(*value.members, name)) return *found;
  Value method = method_named(value, name);
  const Value* found = is_dict && method.builtin == nullptr ? find_in(*value.members, name) : nullptr;
  return found ? *found : method;
}

Value item(Rendering& rendering, const Value& value, const Value& key) {
  if (value.type == Value::kUndefined)
    throw Problem(fmt::format("{} is not defined, and has no items", *value.string));
  if (key.type == Value::kString) {
    const Value* found = value.type == Value::kDict ? find_in(*value.members, *key.string) : nullptr;
    return found
               ? *found
               : method_named(value, *key.string);  // namespace['x'] : getitem on Namespace fails -> getattr
  }
  if (!key.is_integer() ||
      (value.type != Value::kString && value.type != Value::kList && value.type != Value::kTuple))
    return Value::undefined("an item");
  const auto at = [&](const auto& items, const auto& item_at) {
    const auto count = static_cast<int64_t>(items.size());
    const int64_t i = key.integer < 0 ? key.integer + count : key.integer;
    return i < 0 || i >= count ? Value::undefined(fmt::format("number {}", key.integer))
                               : item_at(items[static_cast<size_t>(i)]);
  };
  if (value.type == Value::kString)
    return at(items_of(rendering, value), [](const Value& one) { return one; });
  return at(*value.members, [](const auto& one) { return one.second; });
}

}  // namespace pipeline::chat
