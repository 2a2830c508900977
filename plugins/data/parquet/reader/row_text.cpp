#include "plugins/data/parquet/reader/row_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

#include <arrow/api.h>
#include <arrow/util/base64.h>
#include <arrow/util/float16.h>
#include <arrow/util/utf8.h>
#include <arrow/visit_array_inline.h>

#include "plugins/data/parquet/reader/parquet_reader.h"

namespace pipeline::parquet::reader {
namespace {

using arrow::Array;

constexpr char kDigits[] = "0123456789abcdef";

template <class Number>
void append_number(Number value, std::string& out) {
  char digits[40];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

template <class Number>
void append_float(Number value, std::string& out) {
  if (std::isfinite(value))
    append_number(value, out);
  else
    out += "null";
}

// Text by old writers says nowhere that it is text, and what says so need not be.
void append_bytes(std::string_view bytes, std::string& out) {
  if (arrow::util::ValidateUTF8(bytes)) return append_text(bytes, out);
  out += "{\"" PL_PARQUET_BYTES "\":\"";
  out += arrow::util::base64_encode(bytes.substr(0, kMostText));
  out += "\"}";
}

// In the usual notation: 8-4-4-4-12 digits.
void append_uuid(std::string_view bytes, std::string& out) {
  out += '"';
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    const auto byte = static_cast<unsigned char>(bytes[i]);
    (out += kDigits[byte >> 4]) += kDigits[byte & 15];
  }
  out += '"';
}

template <class ListArray>
void append_list(const ListArray& list, int64_t i, std::string& out) {
  out += '[';
  const int64_t begin = list.value_offset(i), end = begin + list.value_length(i);
  for (int64_t at = begin; at < end; ++at) {
    if (at > begin) out += ',';
    append_value(*list.values(), at, out);
  }
  out += ']';
}

void append_map(const arrow::MapArray& map, int64_t i, std::string& out) {
  const Array &keys = *map.keys(), &items = *map.items();
  const bool is_object = arrow::is_base_binary_like(keys.type_id());
  out += is_object ? '{' : '[';
  const int64_t begin = map.value_offset(i), end = begin + map.value_length(i);
  for (int64_t at = begin; at < end; ++at) {
    if (at > begin) out += ',';
    if (!is_object) out += '[';
    append_value(keys, at, out);
    out += is_object ? ':' : ',';
    append_value(items, at, out);
    if (!is_object) out += ']';
  }
  out += is_object ? '}' : ']';
}

void append_struct(const arrow::StructArray& array, int64_t i, std::string& out) {
  out += '{';
  bool is_first = true;
  for (int f = 0; f < array.num_fields(); ++f) {
    if (array.field(f)->IsNull(i)) continue;
    if (!std::exchange(is_first, false)) out += ',';
    append_text(array.struct_type()->field(f)->name(), out);
    out += ':';
    append_value(*array.field(f), i, out);
  }
  out += '}';
}

// Writes a value by the type of its array.
struct ValueWriter {
  int64_t i;
  std::string& out;

  template <class ArrayType>
  arrow::Status Visit(const ArrayType& array) {
    using Kind = typename ArrayType::TypeClass;
    if constexpr (arrow::is_boolean_type<Kind>::value) {
      out += array.Value(i) ? "true" : "false";
    } else if constexpr (arrow::is_integer_type<Kind>::value) {
      append_number(array.Value(i), out);
    } else if constexpr (arrow::is_half_float_type<Kind>::value) {
      append_float(arrow::util::Float16::FromBits(array.Value(i)).ToDouble(), out);
    } else if constexpr (arrow::is_floating_type<Kind>::value) {
      append_float(array.Value(i), out);
    } else if constexpr (arrow::is_base_binary_type<Kind>::value ||
                         arrow::is_binary_view_like_type<Kind>::value ||
                         std::is_same_v<Kind, arrow::FixedSizeBinaryType>) {
      append_bytes(array.GetView(i), out);
    } else if constexpr (arrow::is_list_type<Kind>::value || arrow::is_list_view_type<Kind>::value) {
      append_list(array, i, out);
    } else if constexpr (std::is_same_v<Kind, arrow::MapType>) {
      append_map(array, i, out);
    } else if constexpr (std::is_same_v<Kind, arrow::StructType>) {
      append_struct(array, i, out);
    } else if constexpr (std::is_same_v<Kind, arrow::DictionaryType>) {
      const int64_t index = array.GetValueIndex(i);  // as the file has it
      if (index < 0 || index >= array.dictionary()->length())
        throw std::out_of_range("a value leads out of its column's dictionary");
      append_value(*array.dictionary(), index, out);
    } else if constexpr (std::is_same_v<Kind, arrow::ExtensionType>) {
      if (array.extension_type()->extension_name() == "arrow.uuid")
        append_uuid(static_cast<const arrow::FixedSizeBinaryArray&>(*array.storage()).GetView(i), out);
      else
        append_value(*array.storage(), i, out);
    } else {  // dates, times, durations, decimals
      const arrow::Result<std::shared_ptr<arrow::Scalar>> value = array.GetScalar(i);
      append_text(value.ok() ? (*value)->ToString() : array.type()->ToString(), out);
    }
    return arrow::Status::OK();
  }
};

}  // namespace

void append_text(std::string_view text, std::string& out) {
  text = text.substr(0, kMostText + 1);
  out += '"';
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out += text.substr(begin, i - begin);
    begin = i + 1;
    if (c == '"' || c == '\\')
      (out += '\\') += static_cast<char>(c);
    else if (c == '\n')
      out += "\\n";
    else
      ((out += "\\u00") += kDigits[c >> 4]) += kDigits[c & 15];
  }
  out += text.substr(begin);
  out += '"';
}

void append_value(const Array& array, int64_t i, std::string& out) {
  if (out.size() > kMostText) return;
  if (array.IsNull(i)) {
    out += "null";
    return;
  }
  ValueWriter writer{i, out};
  static_cast<void>(arrow::VisitArrayInline(array, &writer));
}

int depth_of(const arrow::DataType& type) {
  int below = 0;
  for (const auto& field : type.fields()) below = std::max(below, depth_of(*field->type()));
  return below + 1;
}

}  // namespace pipeline::parquet::reader
