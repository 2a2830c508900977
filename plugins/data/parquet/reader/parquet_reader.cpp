#include "plugins/data/parquet/reader/parquet_reader.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/util/utf8.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>

#include "plugins/data/parquet/reader/row_text.hpp"

namespace {

using pipeline::parquet::reader::append_text;
using pipeline::parquet::reader::append_value;
using pipeline::parquet::reader::depth_of;

// Limits of a file. Memory is for the pages of a batch's columns, packed and unpacked.
constexpr int64_t kMostMemory = int64_t{2} << 30, kBufferBytes = int64_t{1} << 20,
                  kBatchBytes = int64_t{4} << 20, kMostBatchRows = 4096;
constexpr int kMostDepth = 32, kMostColumns = 10000;

}  // namespace

struct pl_parquet {
  explicit pl_parquet(const char* path);
  bool next();
  bool open_group();

  std::string error, text;
  arrow::CappedMemoryPool pool{arrow::system_memory_pool(), kMostMemory};
  std::unique_ptr<parquet::arrow::FileReader> reader;
  std::shared_ptr<arrow::Schema> schema;
  std::vector<int> leaves;  // columns that are read, as the file counts them
  int next_group = 0;
  std::unique_ptr<arrow::RecordBatchReader> group;
  std::shared_ptr<arrow::RecordBatch> batch;
  int64_t next_row = 0;  // of the batch
};

namespace {

// Every error leaves as an exception of the standard library.
void check(const arrow::Status& status) {
  if (!status.ok()) throw parquet::ParquetException(status.message());
}

template <class Value>
Value value_of(arrow::Result<Value>&& result) {
  check(result.status());
  return std::move(result).ValueUnsafe();
}

const parquet::SchemaDescriptor& schema_of(const pl_parquet& file) {
  return *file.reader->parquet_reader()->metadata()->schema();
}

thread_local std::string open_error;

}  // namespace

pl_parquet::pl_parquet(const char* path) {
  parquet::ReaderProperties properties(&pool);
  properties.enable_buffered_stream();
  properties.set_buffer_size(kBufferBytes);
  properties.set_page_checksum_verification(true);
  parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
  arrow_properties.set_pre_buffer(false);
  arrow_properties.set_arrow_extensions_enabled(true);  // UUIDs by name
  parquet::arrow::FileReaderBuilder builder;
  check(builder.Open(value_of(arrow::io::ReadableFile::Open(path, &pool)), properties));
  builder.memory_pool(&pool)->properties(arrow_properties);
  reader = value_of(builder.Build());
  check(reader->GetSchema(&schema));
  const parquet::SchemaDescriptor& columns = schema_of(*this);
  if (columns.num_columns() > kMostColumns)
    throw parquet::ParquetException("has ", columns.num_columns(), " columns, may have ", kMostColumns);
  for (const auto& field : schema->fields())
    if (depth_of(*field->type()) > kMostDepth)
      throw parquet::ParquetException("the column \"", field->name(), "\" is nested more than ", kMostDepth,
                                      " deep");
  leaves.resize(static_cast<size_t>(columns.num_columns()));
  std::iota(leaves.begin(), leaves.end(), 0);
}

// The next group that has rows; false: there is none.
bool pl_parquet::open_group() {
  const parquet::FileMetaData& data = *reader->parquet_reader()->metadata();
  for (; next_group < data.num_row_groups(); ++next_group) {
    const auto of_group = data.RowGroup(next_group);
    const int64_t rows = of_group->num_rows();
    if (rows < 0 || of_group->total_byte_size() < 0)
      throw parquet::ParquetException("has ", rows, " rows in ", of_group->total_byte_size(), " bytes");
    if (rows == 0) continue;
    const int64_t row_bytes = std::max<int64_t>(of_group->total_byte_size() / rows, 1);
    reader->set_batch_size(std::clamp<int64_t>(kBatchBytes / row_bytes, 1, kMostBatchRows));
    group = value_of(reader->GetRecordBatchReader({next_group++}, leaves));
    return true;
  }
  return false;
}

bool pl_parquet::next() {
  while (batch == nullptr || next_row == batch->num_rows()) {
    if (group == nullptr && !open_group()) return false;
    check(group->ReadNext(&batch));
    next_row = 0;
    if (batch == nullptr)
      group = nullptr;
    else
      check(batch->Validate());
  }
  text = "{";
  for (int i = 0; i < batch->num_columns(); ++i) {
    if (i > 0) text += ',';
    append_text(batch->column_name(i), text);
    text += ':';
    append_value(*batch->column(i), next_row, text);
  }
  text += '}';
  ++next_row;
  return true;
}

extern "C" __attribute__((visibility("default"))) const pl_parquet_api* pl_parquet_reader_1() {
  arrow::util::InitializeUTF8();
  static const pl_parquet_api api{
      .open = [](const char* path, const char** error) -> pl_parquet* {
        try {
          return new pl_parquet(path);
        } catch (const std::exception& problem) {
          open_error = problem.what();
          *error = open_error.c_str();
          return nullptr;
        }
      },
      .close = [](pl_parquet* file) { delete file; },
      .rows =
          [](const pl_parquet* file) {
            return static_cast<uint64_t>(
                std::max<int64_t>(file->reader->parquet_reader()->metadata()->num_rows(), 0));
          },
      .column = [](const pl_parquet* file, uint64_t index) -> const char* {
        const auto& fields = file->schema->fields();
        return index < fields.size() ? fields[index]->name().c_str() : nullptr;
      },
      .select =
          [](pl_parquet* file, const char* const* names, uint64_t count) {
            const parquet::SchemaDescriptor& columns = schema_of(*file);
            std::erase_if(file->leaves, [&](int leaf) {
              return std::find(names, names + count, columns.GetColumnRoot(leaf)->name()) == names + count;
            });
          },
      .next = [](pl_parquet* file, const char** text, uint64_t* bytes, const char** error) -> int32_t {
        try {
          if (!file->next()) return 0;
          *text = file->text.data();
          *bytes = file->text.size();
          return 1;
        } catch (const std::exception& problem) {
          file->error = problem.what();
          *error = file->error.c_str();
          return -1;
        }
      },
      .row_group =
          [](const pl_parquet* file) { return static_cast<uint64_t>(std::max(file->next_group, 1) - 1); }};
  return &api;
}
