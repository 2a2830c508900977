// Parquet files, whose rows are read as JSON objects: reader/parquet_reader.h says how values are written.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline::parquet {

// PL_PARQUET_BYTES: the key of what stands for bytes that are no text.
inline constexpr std::string_view kBytesKey = "\uFDD3";

// A file from its first row to its last. Memory is that of some rows of each column that is read, and of
// their pages. All throws DataError, which names the file and, where it is damaged, the row group; also for
// one whose rows are more than files::check_expansion() lets pass.
class ParquetFile {
 public:
  // Throws also where the reader, a library beside the plugins, is missing.
  explicit ParquetFile(const std::string& path);
  ~ParquetFile();
  ParquetFile(const ParquetFile&) = delete;
  ParquetFile& operator=(const ParquetFile&) = delete;

  std::vector<std::string> columns() const;
  uint64_t rows() const;
  // Reads only those of these columns that are there. To be called before the first row.
  void select(const std::vector<std::string>& columns);
  bool next();  // false: that was the last one
  // Valid until the next call.
  std::string_view text() const { return text_; }
  uint64_t row() const { return row_; }  // from 1
  uint64_t bytes_read() const;           // of the file, about

 private:
  struct Reader;

  std::string path_;
  uint64_t bytes_ = 0, row_ = 0, given_ = 0;
  std::unique_ptr<Reader> reader_;
  std::string_view text_;
};

// Makes the bytes of a Parquet file in their order. A file of vectors leaves these out: they are the last
// column, and those of a row group stand behind the group's bytes, as they are in memory. So they need not be
// known when the rows are, and can be written as they come. Memory is that of a row group with its vectors.
// All throws files::DataError.
class ParquetWriter {
 public:
  struct Column {
    std::string name;
    enum Kind { kText, kInteger, kVector } kind = kText;
    int64_t width = 0;  // of a vector of float32
  };

  // file: for errors.
  ParquetWriter(std::string file, std::vector<Column> columns);
  ~ParquetWriter();
  ParquetWriter(const ParquetWriter&) = delete;
  ParquetWriter& operator=(const ParquetWriter&) = delete;

  // The values of a row, in the order of the columns and of their kinds, without its vector.
  ParquetWriter& text(std::string_view value);
  ParquetWriter& integer(int64_t value);
  void end_row();
  // A row group of the rows since the last one, which are one at least. Its vectors must be under 2 GiB.
  std::string end_group();
  // The bytes behind the last group's vectors, which end the file.
  std::string finish();

 private:
  struct Writer;

  std::unique_ptr<Writer> writer_;
  uint64_t next_ = 0;  // column
};

}  // namespace pipeline::parquet
