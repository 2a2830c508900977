#pragma once

#include <cstdint>
#include <string>

#include <arrow/array/array_base.h>

namespace pipeline::parquet::reader {

// The most text of a row; the rest of a longer one, which nobody reads, is left out.
inline constexpr size_t kMostText = size_t{64} << 20;

// Appends value i of the array as JSON: see parquet_reader.h.
void append_value(const arrow::Array& array, int64_t i, std::string& out);

// Appends text in quotes. What is no UTF-8 stays as it is: the reader of JSON says where it is.
void append_text(std::string_view text, std::string& out);

// How deep values of this type may be nested; 1: not at all.
int depth_of(const arrow::DataType& type);

}  // namespace pipeline::parquet::reader
