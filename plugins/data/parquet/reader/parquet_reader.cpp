#include "plugins/data/parquet/reader/parquet_reader.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/io/memory.h>
#include <arrow/util/utf8.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>
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

template <class File, class... Given>
File* opened(const char** error, Given... given) noexcept try {
  return new File(given...);
} catch (const std::exception& problem) {
  static thread_local std::string open_error;
  open_error = problem.what();
  *error = open_error.c_str();
  return nullptr;
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

// Vectors are one page of plain values, so that they end the group. Arrow is given zeros in their place, so
// statistics and checksums would be of these.
std::shared_ptr<parquet::WriterProperties> properties_for(const pl_parquet_column& last) {
  parquet::WriterProperties::Builder builder;
  builder.compression(parquet::Compression::ZSTD);
  if (last.kind == PL_PARQUET_VECTOR) {
    const std::string path = std::string(last.name) + ".list.element";
    builder.data_pagesize(std::numeric_limits<int32_t>::max())
        ->max_rows_per_page(std::numeric_limits<int64_t>::max())
        ->compression(path, parquet::Compression::UNCOMPRESSED)
        ->disable_dictionary(path)
        ->disable_statistics(path)
        ->disable_page_checksum();
  }
  return builder.build();
}

// Bytes that are taken away as they come.
class TakenOutput : public arrow::io::OutputStream {
 public:
  arrow::Status Write(const void* data, int64_t size) override {
    bytes_.append(static_cast<const char*>(data), static_cast<size_t>(size));
    return arrow::Status::OK();
  }
  arrow::Result<int64_t> Tell() const override { return taken_ + static_cast<int64_t>(bytes_.size()); }
  arrow::Status Close() override {
    is_closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return is_closed_; }

  std::string take() {
    taken_ += static_cast<int64_t>(bytes_.size());
    return std::exchange(bytes_, {});
  }

 private:
  std::string bytes_;
  int64_t taken_ = 0;
  bool is_closed_ = false;
};

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
      .open = [](const char* path, const char** error) { return opened<pl_parquet>(error, path); },
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

struct pl_parquet_writer {
  pl_parquet_writer(const pl_parquet_column* given, uint64_t count) : columns(given, given + count) {
    std::vector<std::shared_ptr<arrow::Field>> fields;
    for (const pl_parquet_column& column : columns) {
      if (column.kind == PL_PARQUET_VECTOR && &column != &columns.back())
        throw parquet::ParquetException("column ", column.name, " has vectors and is not the last");
      fields.push_back(arrow::field(column.name, type_of(column), /*nullable=*/false));
    }
    schema = arrow::schema(fields);
    for (const auto& field : fields)
      builders.push_back(value_of(arrow::MakeBuilder(field->type(), arrow::default_memory_pool())));
    writer = value_of(parquet::arrow::FileWriter::Open(
        *schema, arrow::default_memory_pool(), output, properties_for(columns.back()),
        parquet::ArrowWriterProperties::Builder().store_schema()->build()));
  }

  template <class Builder>
  Builder& builder(uint64_t column, uint32_t kind) {
    if (column >= columns.size() || columns[column].kind != kind)
      throw parquet::ParquetException("column ", column, " of ", columns.size(), " takes no value of kind ",
                                      kind);
    return static_cast<Builder&>(*builders[column]);
  }

  bool has_vectors() const { return columns.back().kind == PL_PARQUET_VECTOR; }

  void end_row() {
    ++rows;
    if (has_vectors()) check(builders.back()->AppendEmptyValue());
    for (const auto& one : builders)
      if (one->length() != rows)
        throw parquet::ParquetException("a row without a value for each of the ", columns.size(), " columns");
  }

  void end_group() {
    std::vector<std::shared_ptr<arrow::Array>> arrays;
    for (const auto& one : builders) arrays.push_back(value_of(one->Finish()));
    check(writer->WriteTable(*arrow::Table::Make(schema, arrays), rows));
    bytes = output->take();
    if (has_vectors()) {
      const size_t vectors = static_cast<size_t>(rows) * columns.back().width * sizeof(float);
      if (bytes.size() < vectors || std::any_of(bytes.end() - static_cast<std::ptrdiff_t>(vectors),
                                                bytes.end(), [](char c) { return c != 0; }))
        throw parquet::ParquetException("the vectors of ", rows, " rows do not end their group");
      bytes.resize(bytes.size() - vectors);
    }
    rows = 0;
  }

  void finish() {
    check(writer->Close());
    bytes = output->take();
  }

  std::vector<pl_parquet_column> columns;
  std::shared_ptr<arrow::Schema> schema;
  std::vector<std::unique_ptr<arrow::ArrayBuilder>> builders;
  std::shared_ptr<TakenOutput> output = std::make_shared<TakenOutput>();
  std::unique_ptr<parquet::arrow::FileWriter> writer;
  int64_t rows = 0;  // of the group
  std::string bytes, error;
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
    .open = [](const pl_parquet_column* columns, uint64_t count,
               const char** error) { return opened<pl_parquet_writer>(error, columns, count); },
    .text =
        [](pl_parquet_writer* w, uint64_t column, const char* bytes, uint64_t size, const char** error) {
          return guarded(w, error, [&] {
            check(w->builder<arrow::StringBuilder>(column, PL_PARQUET_TEXT)
                      .Append(bytes, static_cast<int32_t>(size)));
          });
        },
    .integer =
        [](pl_parquet_writer* w, uint64_t column, int64_t value, const char** error) {
          return guarded(w, error, [&] {
            check(w->builder<arrow::Int64Builder>(column, PL_PARQUET_INTEGER).Append(value));
          });
        },
    .end_row = [](pl_parquet_writer* w,
                  const char** error) { return guarded(w, error, [&] { w->end_row(); }); },
    .end_group =
        [](pl_parquet_writer* w, pl_parquet_bytes* out, const char** error) {
          return guarded(w, error, [&] {
            w->end_group();
            *out = {w->bytes.data(), w->bytes.size()};
          });
        },
    .finish =
        [](pl_parquet_writer* w, pl_parquet_bytes* out, const char** error) {
          return guarded(w, error, [&] {
            w->finish();
            *out = {w->bytes.data(), w->bytes.size()};
          });
        },
    .close = [](pl_parquet_writer* w) { delete w; }};

}  // namespace

extern "C" __attribute__((visibility("default"))) const pl_parquet_writer_api* pl_parquet_writer_1(void) {
  return &kApi;
}
