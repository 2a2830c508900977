#include "plugins/data/records/json_records.hpp"

#include <algorithm>
#include <cstring>

#include <nlohmann/json.hpp>

#include "core/json/strict_json.hpp"
#include "plugins/data/parquet/parquet_file.hpp"
#include "plugins/data/records/pairs.hpp"

namespace pipeline::records {
namespace {

constexpr size_t kKeyBytesKept = 64;

bool is_space(int c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Called by the parser for each token: keeps the wanted fields of the outermost object and builds nothing
// else.
class Picker : public nlohmann::json_sax<nlohmann::json> {
 public:
  Picker(JsonFields& out, std::string_view text, const std::vector<std::string_view>& names, size_t most_keys,
         const std::vector<bool>& by_item)
      : out_(out), text_(text), names_(names), most_keys_(most_keys), by_item_(by_item) {}

  bool null() override { return value(JsonField::kNull); }
  bool boolean(bool is) override { return value(JsonField::kBool, is ? "1" : "0"); }
  bool number_integer(number_integer_t number) override {
    return value(JsonField::kInteger, std::to_string(number));
  }
  bool number_unsigned(number_unsigned_t number) override {
    return value(JsonField::kInteger, std::to_string(number));
  }
  bool number_float(number_float_t, const string_t& digits) override {
    // An integer beyond 64 bits comes here, too.
    const bool integer = digits.find_first_not_of("-0123456789") == std::string::npos;
    return value(integer ? JsonField::kInteger : JsonField::kNumber, digits);
  }
  bool string(string_t& text) override { return value(JsonField::kText, std::move(text)); }
  bool binary(binary_t&) override { return value(JsonField::kObject); }

  bool start_object(size_t) override { return depth_++ == 0 || nested(JsonField::kObject); }
  bool start_array(size_t) override {
    if (depth_++ == 0) return fail("a list, not an object");
    return nested(JsonField::kList);
  }
  bool end_object() override { return --depth_, true; }
  bool end_array() override { return --depth_, true; }

  bool key(string_t& key) override {
    if (depth_ == 2 && field_ && field_->state == JsonField::kObject && key == parquet::kBytesKey)
      field_->state = JsonField::kBytes;
    if (depth_ != 1) return true;
    const bool is_kept = out_.keys.size() < most_keys_ && key.size() <= kKeyBytesKept;
    if (is_kept) out_.keys.push_back(key);
    key_is_kept_ = is_kept;
    const auto name = std::find(names_.begin(), names_.end(), key);
    const auto place = static_cast<size_t>(name - names_.begin());
    field_ = name == names_.end() ? nullptr : &out_.fields[place];
    separator_ = place < by_item_.size() && by_item_[place] ? kListBreak : ',';
    if (field_ && field_->state != JsonField::kAbsent)
      return fail("the key " + strict_json::excerpt(key) + " occurs twice");
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    position_ = position;
    lone_surrogate_ = std::strstr(error.what(), "surrogate") != nullptr;
    return fail(problem_at(position));
  }

  size_t position() const { return position_; }
  bool lone_surrogate() const { return lone_surrogate_; }

 private:
  // `position` is one behind the character that the parser does not expect. Python's writer makes words of
  // numbers that JSON does not have.
  std::string problem_at(size_t position) const {
    const std::string_view before = text_.substr(0, std::min(position, text_.size()));
    const size_t word = before.find_last_of(" \t\r\n:,[{") + 1;  // npos + 1 is 0
    for (const std::string_view number : {"NaN", "Infinity", "-Infinity"})
      if (text_.substr(word).starts_with(number))
        return std::string(number) + ", which JSON does not have: write null or leave the field out";
    const auto lines = std::count(before.begin(), before.end(), '\n');
    const size_t column = position - (before.rfind('\n') + 1);
    return (lines > 0 ? "line " + std::to_string(lines + 1) + " of it, " : std::string()) + "column " +
           std::to_string(column) + " does not continue as JSON";
  }
  bool value(JsonField::State state, std::string text = {}) {
    if (depth_ == 0) return fail("a single value, not an object");
    if (depth_ == 2 && field_) element(state, text);
    if (depth_ == 1 && field_) *field_ = {state, std::move(text)};
    return true;
  }
  // Adds to a wanted field's list, which is kept as long as commas tell its values apart.
  void element(JsonField::State state, std::string_view text) {
    if (field_->state != JsonField::kValues) return;
    if (state == JsonField::kText && text.find(separator_) != std::string_view::npos) {
      *field_ = {JsonField::kList, {}};
    } else {
      if (!is_first_) field_->text += separator_;
      field_->text += text;
      is_first_ = false;
    }
  }
  bool nested(JsonField::State state) {
    if (depth_ == 2 && field_) {
      *field_ = {state == JsonField::kList ? JsonField::kValues : state, {}};
      if (separator_ == kListBreak) field_->text = kListMark;
    }
    if (depth_ == 2) is_first_ = true;
    if (depth_ == 3 && field_ && field_->state == JsonField::kValues) *field_ = {JsonField::kList, {}};
    if (depth_ == 2 && state == JsonField::kList && key_is_kept_) out_.lists.push_back(out_.keys.back());
    return true;
  }
  bool fail(std::string detail) {
    out_.state = JsonFields::kNotAnObject;
    out_.detail = std::move(detail);
    return false;
  }

  JsonFields& out_;
  std::string_view text_;
  const std::vector<std::string_view>& names_;
  size_t most_keys_;
  const std::vector<bool>& by_item_;
  char separator_ = ',';        // of the list that comes next
  JsonField* field_ = nullptr;  // the wanted one whose value comes next
  size_t depth_ = 0, position_ = 0;
  bool lone_surrogate_ = false, key_is_kept_ = false, is_first_ = false;  // is_first_: of its list
};

}  // namespace

std::vector<std::string> items_of(std::string_view text) {
  if (!text.starts_with(kListMark)) return {std::string(text)};
  std::vector<std::string> items;
  text.remove_prefix(1);
  if (text.empty()) return items;
  for (size_t end = text.find(kListBreak); end != text.npos; end = text.find(kListBreak)) {
    items.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  items.emplace_back(text);
  return items;
}

JsonRecords::JsonRecords(Input& input, uint64_t max_record_bytes)
    : input_(input), max_bytes_(max_record_bytes) {
  form_ = look_at_start();
}

JsonRecords::Form JsonRecords::look_at_start() {
  while (is_space(input_.peek())) take(1);
  if (input_.peek() == '[') {
    take(1);
    return kList;
  }
  std::string_view first = input_.ahead();
  const size_t end = first.find('\n');
  if (end == std::string_view::npos) return kLines;
  first = first.substr(0, end);
  while (!first.empty() && is_space(first.back())) first.remove_suffix(1);
  return first.starts_with('{') && (first.ends_with('{') || first.ends_with('[')) ? kObjects : kLines;
}

// Takes from the block.
void JsonRecords::take(size_t bytes) {
  const std::string_view taken = input_.ahead().substr(0, bytes);
  next_line_ += static_cast<uint64_t>(std::count(taken.begin(), taken.end(), '\n'));
  input_.advance(bytes);
}

void JsonRecords::keep(std::string_view piece) {
  too_long_ = too_long_ || kept_.size() + piece.size() > max_bytes_;
  if (!too_long_) kept_ += piece;
}

bool JsonRecords::next() {
  if (form_ != kLines && next_element()) return true;
  while (next_line())
    if (too_long_ || !is_blank(text_)) return true;
  return false;
}

void JsonRecords::begin() {
  kept_.clear();
  too_long_ = cut_off_ = false;
  line_ = next_line_;
}

bool JsonRecords::next_line() {
  begin();
  if (input_.peek() < 0) return false;
  bool whole = false;  // in one block
  for (auto block = input_.ahead(); !block.empty(); block = input_.ahead()) {
    const auto* end = static_cast<const char*>(std::memchr(block.data(), '\n', block.size()));
    const size_t length = end ? static_cast<size_t>(end - block.data()) : block.size();
    whole = end && kept_.empty() && length <= max_bytes_ && !too_long_;
    if (whole)
      text_ = block.substr(0, length);
    else
      keep(block.substr(0, length));
    input_.advance(end ? length + 1 : length);
    cut_off_ = end == nullptr;
    if (end == nullptr) continue;
    ++next_line_;
    break;
  }
  if (!whole) text_ = kept_;
  if (text_.ends_with('\r')) text_.remove_suffix(1);
  return true;
}

// Reads an element up to its closing bracket, or to what ends one without brackets. False: there is none.
bool JsonRecords::next_element() {
  while (is_space(input_.peek()) || input_.peek() == ',') take(1);
  begin();
  if (form_ == kList && input_.peek() == ']') {
    take(1);
    form_ = kLines;  // what follows the list, if anything does
    return false;
  }
  if (form_ == kObjects && input_.peek() < 0) return false;
  cut_off_ = true;
  size_t depth = 0;
  bool in_string = false, escaped = false, empty = true;
  for (auto block = input_.ahead(); cut_off_ && !block.empty(); block = input_.ahead()) {
    size_t i = 0;
    for (; cut_off_ && i < block.size(); ++i, empty = false) {
      const char c = block[i];
      if (in_string) {
        in_string = escaped || c != '"';
        escaped = !escaped && c == '\\';
      } else if (depth == 0 && !empty && (c == ',' || c == ']')) {
        cut_off_ = false;
        break;
      } else if (c == '"') {
        in_string = true;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if ((c == '}' || c == ']') && depth > 0) {
        cut_off_ = --depth > 0;
      }
    }
    keep(block.substr(0, i));
    take(i);
  }
  if (cut_off_) form_ = kLines;  // at the end of the file
  text_ = kept_;
  return true;
}

JsonFields pick_fields(std::string_view text, const std::vector<std::string_view>& names, size_t most_keys,
                       const std::vector<bool>& by_item) {
  JsonFields out;
  out.fields.resize(names.size());
  Picker picker(out, text, names, most_keys, by_item);
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &picker)) return out;
  if (picker.lone_surrogate()) {
    out.state = JsonFields::kLoneSurrogate;
    out.detail.clear();
  } else if (picker.position() > text.size()) {
    out.state = JsonFields::kUnfinished;
    out.detail.clear();
  }
  return out;
}

}  // namespace pipeline::records
