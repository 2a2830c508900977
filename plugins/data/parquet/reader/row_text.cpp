#include "plugins/data/parquet/reader/row_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <arrow/api.h>
#include <arrow/util/base64.h>
#include <arrow/util/float16.h>
#include <arrow/util/utf8.h>

#include "plugins/data/parquet/reader/parquet_reader.h"

namespace pipeline::parquet::reader {
namespace {

using arrow::Array;
using arrow::Type;

constexpr char kDigits[] = "0123456789abcdef";

template <class Number>
void append_number(Number value, std::string& out) {
  char digits[40];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

void append_float(double value, std::string& out) {
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

template <class ArrayType>
const ArrayType& as(const Array& array) {
  return static_cast<const ArrayType&>(array);
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
  switch (array.type_id()) {
    case Type::BOOL:
      out += as<arrow::BooleanArray>(array).Value(i) ? "true" : "false";
      return;
    case Type::UINT8:
      return append_number(as<arrow::UInt8Array>(array).Value(i), out);
    case Type::INT8:
      return append_number(as<arrow::Int8Array>(array).Value(i), out);
    case Type::UINT16:
      return append_number(as<arrow::UInt16Array>(array).Value(i), out);
    case Type::INT16:
      return append_number(as<arrow::Int16Array>(array).Value(i), out);
    case Type::UINT32:
      return append_number(as<arrow::UInt32Array>(array).Value(i), out);
    case Type::INT32:
      return append_number(as<arrow::Int32Array>(array).Value(i), out);
    case Type::UINT64:
      return append_number(as<arrow::UInt64Array>(array).Value(i), out);
    case Type::INT64:
      return append_number(as<arrow::Int64Array>(array).Value(i), out);
    case Type::HALF_FLOAT:
      return append_float(
          arrow::util::Float16::FromBits(as<arrow::HalfFloatArray>(array).Value(i)).ToDouble(), out);
    case Type::FLOAT: {
      const float value = as<arrow::FloatArray>(array).Value(i);
      if (!std::isfinite(value)) return append_float(value, out);
      return append_number(value, out);
    }
    case Type::DOUBLE:
      return append_float(as<arrow::DoubleArray>(array).Value(i), out);
    case Type::STRING:
      return append_bytes(as<arrow::StringArray>(array).GetView(i), out);
    case Type::LARGE_STRING:
      return append_bytes(as<arrow::LargeStringArray>(array).GetView(i), out);
    case Type::STRING_VIEW:
      return append_bytes(as<arrow::StringViewArray>(array).GetView(i), out);
    case Type::BINARY:
      return append_bytes(as<arrow::BinaryArray>(array).GetView(i), out);
    case Type::LARGE_BINARY:
      return append_bytes(as<arrow::LargeBinaryArray>(array).GetView(i), out);
    case Type::BINARY_VIEW:
      return append_bytes(as<arrow::BinaryViewArray>(array).GetView(i), out);
    case Type::FIXED_SIZE_BINARY:
      return append_bytes(as<arrow::FixedSizeBinaryArray>(array).GetView(i), out);
    case Type::DICTIONARY: {
      const auto& coded = as<arrow::DictionaryArray>(array);
      const int64_t index = coded.GetValueIndex(i);  // as the file has it
      if (index < 0 || index >= coded.dictionary()->length())
        throw std::out_of_range("a value leads out of its column's dictionary");
      return append_value(*coded.dictionary(), index, out);
    }
    case Type::EXTENSION: {
      const Array& storage = *as<arrow::ExtensionArray>(array).storage();
      if (as<arrow::ExtensionArray>(array).extension_type()->extension_name() == "arrow.uuid")
        return append_uuid(as<arrow::FixedSizeBinaryArray>(storage).GetView(i), out);
      return append_value(storage, i, out);
    }
    case Type::LIST:
      return append_list(as<arrow::ListArray>(array), i, out);
    case Type::LARGE_LIST:
      return append_list(as<arrow::LargeListArray>(array), i, out);
    case Type::FIXED_SIZE_LIST:
      return append_list(as<arrow::FixedSizeListArray>(array), i, out);
    case Type::LIST_VIEW:
      return append_list(as<arrow::ListViewArray>(array), i, out);
    case Type::LARGE_LIST_VIEW:
      return append_list(as<arrow::LargeListViewArray>(array), i, out);
    case Type::MAP:
      return append_map(as<arrow::MapArray>(array), i, out);
    case Type::STRUCT:
      return append_struct(as<arrow::StructArray>(array), i, out);
    default: {  // dates, times, durations, decimals
      const arrow::Result<std::shared_ptr<arrow::Scalar>> value = array.GetScalar(i);
      return append_text(value.ok() ? (*value)->ToString() : array.type()->ToString(), out);
    }
  }
}

int depth_of(const arrow::DataType& type) {
  int below = 0;
  for (const auto& field : type.fields()) below = std::max(below, depth_of(*field->type()));
  return below + 1;
}

}  // namespace pipeline::parquet::reader
