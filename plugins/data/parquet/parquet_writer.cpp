#include "plugins/data/parquet/parquet_writer.hpp"

#include <filesystem>
#include <utility>

#include "plugins/data/files/error.hpp"
#include "plugins/data/parquet/library.hpp"
#include "plugins/data/parquet/reader/parquet_writer.h"

namespace pipeline::parquet {

struct ParquetWriter::Writer {
  const pl_parquet_writer_api& api;
  pl_parquet_writer* file;
};

ParquetWriter::ParquetWriter(const std::string& path, std::vector<Column> columns)
    : path_(path), part_(path + ".part"), columns_(std::move(columns)) {
  using Get = const pl_parquet_writer_api* (*)();
  const pl_parquet_writer_api& api = *reinterpret_cast<Get>(library_symbol(path, PL_PARQUET_WRITER_SYMBOL))();
  std::vector<pl_parquet_column> raw;
  for (const Column& column : columns_)
    raw.push_back({.name = column.name.c_str(),
                   .kind = column.kind == Column::kText      ? PL_PARQUET_TEXT
                           : column.kind == Column::kInteger ? PL_PARQUET_INTEGER
                                                             : PL_PARQUET_VECTOR,
                   .width = static_cast<uint32_t>(column.width)});
  const char* problem = "";
  pl_parquet_writer* const file = api.open(part_.c_str(), raw.data(), raw.size(), &problem);
  check(file != nullptr ? 1 : 0, problem);
  writer_.reset(new Writer{api, file});
}

ParquetWriter::~ParquetWriter() {
  if (!writer_) return;
  writer_->api.close(writer_->file);
  std::error_code ignored;
  std::filesystem::remove(part_, ignored);
}

void ParquetWriter::check(int32_t result, const char* problem) const {
  if (result == 0)
    throw files::DataError(path_ + ": cannot be written: " + one_line(problem) +
                           ": check the path and the space on its disk");
}

ParquetWriter& ParquetWriter::text(std::string_view value) {
  const char* problem = "";
  check(writer_->api.text(writer_->file, next_++, value.data(), value.size(), &problem), problem);
  return *this;
}

ParquetWriter& ParquetWriter::integer(int64_t value) {
  const char* problem = "";
  check(writer_->api.integer(writer_->file, next_++, value, &problem), problem);
  return *this;
}

ParquetWriter& ParquetWriter::vector(const float* values) {
  const char* problem = "";
  check(writer_->api.vector(writer_->file, next_++, values, &problem), problem);
  return *this;
}

void ParquetWriter::end_row() {
  const char* problem = "";
  next_ = 0;
  check(writer_->api.end_row(writer_->file, &problem), problem);
}

void ParquetWriter::finish() {
  const char* problem = "";
  check(writer_->api.finish(writer_->file, &problem), problem);
  writer_->api.close(writer_->file);
  writer_ = nullptr;
  std::filesystem::rename(part_, path_);
}

}  // namespace pipeline::parquet
