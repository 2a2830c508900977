#include "plugins/tasks/common/text_pairs/records.hpp"

#include <algorithm>
#include <cstring>

#include <nlohmann/json.hpp>

namespace pipeline::text_pairs {
namespace {

bool ends_line(int c) { return c == '\n' || c == '\r'; }

constexpr size_t kKeysKept = 8, kKeyBytesKept = 64;

// Called by the parser for each token: keeps the wanted fields of the outermost object and builds nothing
// else.
class Picker : public nlohmann::json_sax<nlohmann::json> {
 public:
  Picker(JsonFields& out, const std::vector<std::string_view>& names) : out_(out), names_(names) {}

  bool null() override { return value(JsonField::kNull); }
  bool boolean(bool) override { return value(JsonField::kOther); }
  bool number_integer(number_integer_t number) override {
    return value(JsonField::kInteger, std::to_string(number));
  }
  bool number_unsigned(number_unsigned_t number) override {
    return value(JsonField::kInteger, std::to_string(number));
  }
  bool number_float(number_float_t, const string_t& digits) override {
    // An integer beyond 64 bits comes here, too.
    const bool integer = digits.find_first_not_of("-0123456789") == std::string::npos;
    return value(integer ? JsonField::kInteger : JsonField::kOther, digits);
  }
  bool string(string_t& text) override { return value(JsonField::kText, std::move(text)); }
  bool binary(binary_t&) override { return value(JsonField::kOther); }

  bool start_object(size_t) override { return depth_++ == 0 || nested(); }
  bool start_array(size_t) override {
    if (depth_++ == 0) return fail("a list, not an object");
    return nested();
  }
  bool end_object() override { return --depth_, true; }
  bool end_array() override { return --depth_, true; }

  bool key(string_t& key) override {
    if (depth_ != 1) return true;
    if (out_.keys.size() < kKeysKept && key.size() <= kKeyBytesKept) out_.keys.push_back(key);
    const auto name = std::find(names_.begin(), names_.end(), key);
    field_ = name == names_.end() ? nullptr : &out_.fields[static_cast<size_t>(name - names_.begin())];
    if (field_ && field_->state != JsonField::kAbsent) return fail("the key \"" + key + "\" occurs twice");
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    position_ = position;
    lone_surrogate_ = std::strstr(error.what(), "surrogate") != nullptr;
    return fail("column " + std::to_string(position) + " does not continue as JSON");
  }

  size_t position() const { return position_; }
  bool lone_surrogate() const { return lone_surrogate_; }

 private:
  bool value(JsonField::State state, std::string text = {}) {
    if (depth_ == 0) return fail("a single value, not an object");
    if (depth_ == 1 && field_) *field_ = {state, std::move(text)};
    return true;
  }
  bool nested() {
    if (depth_ == 2 && field_) field_->state = JsonField::kOther;
    return true;
  }
  bool fail(std::string detail) {
    out_.state = JsonFields::kNotAnObject;
    out_.detail = std::move(detail);
    return false;
  }

  JsonFields& out_;
  const std::vector<std::string_view>& names_;
  JsonField* field_ = nullptr;  // the wanted one whose value comes next
  size_t depth_ = 0, position_ = 0;
  bool lone_surrogate_ = false;
};

}  // namespace

// The next byte, lines counted: "\r\n", "\n" and "\r" end one each.
int CsvReader::take() {
  const int c = input_.peek();
  if (c < 0) return c;
  input_.advance(1);
  if (c == '\r' || (c == '\n' && !after_return_)) ++line_;
  after_return_ = c == '\r';
  return c;
}

void CsvReader::count_byte() { too_long_ = ++record_bytes_ > max_bytes_; }

void CsvReader::append(char c) {
  count_byte();
  if (!too_long_ && field_count_ <= kMaxFields) fields_.back() += c;
}

// Behind the opening quote; leaves the input behind the closing one.
void CsvReader::read_quoted() {
  while (true) {
    const int c = take();
    if (c < 0) {
      unfinished_ = true;
      return;
    }
    if (c == '"') {
      if (input_.peek() != '"') return;
      take();
    }
    append(static_cast<char>(c));
  }
}

// One field with what ends it; true if another follows in the record.
bool CsvReader::read_field() {
  ++field_count_;
  count_byte();  // what separates it from the next
  if (field_count_ <= kMaxFields) fields_.emplace_back();
  bool closed = false;
  if (input_.peek() == '"') {
    take();
    read_quoted();
    closed = true;
  }
  while (true) {
    const int c = input_.peek();
    if (c < 0) return false;
    take();
    if (c == separator_) return true;
    if (ends_line(c)) {
      if (c == '\r' && input_.peek() == '\n') take();
      return false;
    }
    if (closed) bad_quotes_ = true;
    append(static_cast<char>(c));
  }
}

bool CsvReader::next() {
  while (ends_line(input_.peek())) take();
  if (input_.peek() < 0) return false;
  fields_.clear();
  field_count_ = 0;
  record_bytes_ = 0;
  too_long_ = bad_quotes_ = unfinished_ = false;
  record_line_ = line_;
  while (read_field()) {
  }
  return true;
}

bool LineReader::next() {
  kept_.clear();
  too_long_ = has_line_end_ = false;
  bool anything = false;
  line_ = {};
  for (auto block = input_.ahead(); !block.empty(); block = input_.ahead()) {
    anything = true;
    const auto* end = static_cast<const char*>(std::memchr(block.data(), '\n', block.size()));
    const size_t length = end ? static_cast<size_t>(end - block.data()) : block.size();
    input_.advance(end ? length + 1 : length);
    too_long_ = too_long_ || kept_.size() + length > max_bytes_;
    if (end && kept_.empty() && !too_long_) {
      line_ = block.substr(0, length);
    } else if (!too_long_) {
      kept_.append(block.data(), length);
    }
    if (end) {
      has_line_end_ = true;
      break;
    }
  }
  if (!anything) return false;
  if (line_.empty()) line_ = kept_;
  if (line_.ends_with('\r')) line_.remove_suffix(1);
  ++number_;
  return true;
}

JsonFields pick_fields(std::string_view text, const std::vector<std::string_view>& names) {
  JsonFields out;
  out.fields.resize(names.size());
  Picker picker(out, names);
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

}  // namespace pipeline::text_pairs
