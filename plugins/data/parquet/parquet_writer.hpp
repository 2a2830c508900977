#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline::parquet {

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
  void check(int32_t result, const char* problem) const;

  std::string file_;
  std::vector<Column> columns_;
  std::unique_ptr<Writer> writer_;
  uint64_t next_ = 0;  // column
};

}  // namespace pipeline::parquet
