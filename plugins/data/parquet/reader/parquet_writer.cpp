#include "plugins/data/parquet/reader/parquet_writer.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/writer.h>
#include <parquet/exception.h>

namespace {

constexpr int64_t kGroupBytes = int64_t{64} << 20;  // of values, about

void check(const arrow::Status& status) {
  if (!status.ok()) throw parquet::ParquetException(status.message());
}

template <class Value>
Value value_of(arrow::Result<Value>&& result) {
  check(result.status());
  return std::move(result).ValueUnsafe();
}

std::shared_ptr<arrow::DataType> type_of(const pl_parquet_column& column) {
  switch (column.kind) {
    case PL_PARQUET_TEXT:
      return arrow::utf8();
    case PL_PARQUET_INTEGER:
      return arrow::int64();
    case PL_PARQUET_VECTOR:
      return arrow::fixed_size_list(arrow::float32(), static_cast<int32_t>(column.width));
    default:
      throw parquet::ParquetException("column ", column.name, " is of the unknown kind ", column.kind);
  }
}

thread_local std::string open_error;

}  // namespace

struct pl_parquet_writer {
  pl_parquet_writer(const char* path, const pl_parquet_column* given, uint64_t count)
      : columns(given, given + count) {
    std::vector<std::shared_ptr<arrow::Field>> fields;
    for (const pl_parquet_column& column : columns)
      fields.push_back(arrow::field(column.name, type_of(column), /*nullable=*/false));
    schema = arrow::schema(fields);
    for (const auto& field : fields)
      builders.push_back(value_of(arrow::MakeBuilder(field->type(), arrow::default_memory_pool())));
    file = value_of(arrow::io::FileOutputStream::Open(path));
    writer = value_of(parquet::arrow::FileWriter::Open(
        *schema, arrow::default_memory_pool(), file,
        parquet::WriterProperties::Builder().compression(parquet::Compression::ZSTD)->build(),
        parquet::ArrowWriterProperties::Builder().store_schema()->build()));
  }

  template <class Builder>
  Builder& builder(uint64_t column, uint32_t kind) {
    if (column >= columns.size() || columns[column].kind != kind)
      throw parquet::ParquetException("column ", column, " of ", columns.size(), " takes no value of kind ",
                                      kind);
    return static_cast<Builder&>(*builders[column]);
  }

  void flush() {
    if (rows == 0) return;
    std::vector<std::shared_ptr<arrow::Array>> arrays;
    for (const auto& one : builders) arrays.push_back(value_of(one->Finish()));
    check(writer->WriteTable(*arrow::Table::Make(schema, arrays), rows));
    rows = bytes = 0;
  }

  void end_row() {
    ++rows;
    for (const auto& one : builders)
      if (one->length() != rows)
        throw parquet::ParquetException("a row without a value for each of the ", columns.size(), " columns");
    if (bytes >= kGroupBytes) flush();
  }

  void finish() {
    flush();
    check(writer->Close());
    check(file->Close());
  }

  std::vector<pl_parquet_column> columns;
  std::shared_ptr<arrow::Schema> schema;
  std::vector<std::unique_ptr<arrow::ArrayBuilder>> builders;
  std::shared_ptr<arrow::io::FileOutputStream> file;
  std::unique_ptr<parquet::arrow::FileWriter> writer;
  int64_t rows = 0, bytes = 0;
  std::string error;
};

namespace {

template <class Work>
int32_t guarded(pl_parquet_writer* writer, const char** error, Work&& work) noexcept try {
  work();
  return 1;
} catch (const std::exception& problem) {
  writer->error = problem.what();
  *error = writer->error.c_str();
  return 0;
}

constexpr pl_parquet_writer_api kApi{
    .open = [](const char* path, const pl_parquet_column* columns, uint64_t count,
               const char** error) -> pl_parquet_writer* {
      try {
        return new pl_parquet_writer(path, columns, count);
      } catch (const std::exception& problem) {
        open_error = problem.what();
        *error = open_error.c_str();
        return nullptr;
      }
    },
    .text =
        [](pl_parquet_writer* w, uint64_t column, const char* bytes, uint64_t size, const char** error) {
          return guarded(w, error, [&] {
            check(w->builder<arrow::StringBuilder>(column, PL_PARQUET_TEXT)
                      .Append(bytes, static_cast<int32_t>(size)));
            w->bytes += static_cast<int64_t>(size);
          });
        },
    .integer =
        [](pl_parquet_writer* w, uint64_t column, int64_t value, const char** error) {
          return guarded(w, error, [&] {
            check(w->builder<arrow::Int64Builder>(column, PL_PARQUET_INTEGER).Append(value));
            w->bytes += static_cast<int64_t>(sizeof value);
          });
        },
    .vector =
        [](pl_parquet_writer* w, uint64_t column, const float* values, const char** error) {
          return guarded(w, error, [&] {
            auto& list = w->builder<arrow::FixedSizeListBuilder>(column, PL_PARQUET_VECTOR);
            const uint32_t width = w->columns[column].width;
            check(list.Append());
            check(static_cast<arrow::FloatBuilder&>(*list.value_builder()).AppendValues(values, width));
            w->bytes += static_cast<int64_t>(sizeof(float) * width);
          });
        },
    .end_row = [](pl_parquet_writer* w,
                  const char** error) { return guarded(w, error, [&] { w->end_row(); }); },
    .finish = [](pl_parquet_writer* w,
                 const char** error) { return guarded(w, error, [&] { w->finish(); }); },
    .close = [](pl_parquet_writer* w) { delete w; }};

}  // namespace

extern "C" __attribute__((visibility("default"))) const pl_parquet_writer_api* pl_parquet_writer_1(void) {
  return &kApi;
}
