#include "plugins/data/parquet/parquet_writer.hpp"

#include <utility>

#include "plugins/data/files/error.hpp"
#include "plugins/data/parquet/library.hpp"
#include "plugins/data/parquet/reader/parquet_writer.h"

namespace pipeline::parquet {

struct ParquetWriter::Writer {
  const pl_parquet_writer_api& api;
  pl_parquet_writer* raw;
};

ParquetWriter::ParquetWriter(std::string file, std::vector<Column> columns)
    : file_(std::move(file)), columns_(std::move(columns)) {
  using Get = const pl_parquet_writer_api* (*)();
  const pl_parquet_writer_api& api =
      *reinterpret_cast<Get>(library_symbol(file_, PL_PARQUET_WRITER_SYMBOL))();
  std::vector<pl_parquet_column> raw;
  for (const Column& column : columns_)
    raw.push_back({.name = column.name.c_str(),
                   .kind = column.kind == Column::kText      ? PL_PARQUET_TEXT
                           : column.kind == Column::kInteger ? PL_PARQUET_INTEGER
                                                             : PL_PARQUET_VECTOR,
                   .width = static_cast<uint32_t>(column.width)});
  const char* problem = "";
  pl_parquet_writer* const writer = api.open(raw.data(), raw.size(), &problem);
  check(writer != nullptr ? 1 : 0, problem);
  writer_.reset(new Writer{api, writer});
}

ParquetWriter::~ParquetWriter() {
  if (writer_) writer_->api.close(writer_->raw);
}

void ParquetWriter::check(int32_t result, const char* problem) const {
  if (result == 0) throw files::DataError(file_ + ": cannot be written as Parquet: " + one_line(problem));
}

ParquetWriter& ParquetWriter::text(std::string_view value) {
  const char* problem = "";
  check(writer_->api.text(writer_->raw, next_++, value.data(), value.size(), &problem), problem);
  return *this;
}

ParquetWriter& ParquetWriter::integer(int64_t value) {
  const char* problem = "";
  check(writer_->api.integer(writer_->raw, next_++, value, &problem), problem);
  return *this;
}

void ParquetWriter::end_row() {
  const char* problem = "";
  next_ = 0;
  check(writer_->api.end_row(writer_->raw, &problem), problem);
}

std::string ParquetWriter::end_group() {
  const char* problem = "";
  pl_parquet_bytes bytes{};
  check(writer_->api.end_group(writer_->raw, &bytes, &problem), problem);
  return {static_cast<const char*>(bytes.data), bytes.size};
}

std::string ParquetWriter::finish() {
  const char* problem = "";
  pl_parquet_bytes bytes{};
  check(writer_->api.finish(writer_->raw, &bytes, &problem), problem);
  return {static_cast<const char*>(bytes.data), bytes.size};
}

}  // namespace pipeline::parquet
