#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline::parquet {

// A Parquet file, written row by row: memory is that of a row group, some 64 MiB. It gets its name when it is
// finished. All throws files::DataError.
class ParquetWriter {
 public:
  struct Column {
    std::string name;
    enum Kind { kText, kInteger, kVector } kind = kText;
    int64_t width = 0;  // of a vector of float32
  };

  ParquetWriter(const std::string& path, std::vector<Column> columns);
  ~ParquetWriter();  // removes what was not finished
  ParquetWriter(const ParquetWriter&) = delete;
  ParquetWriter& operator=(const ParquetWriter&) = delete;

  // The values of a row, in the order of the columns and of their kinds.
  ParquetWriter& text(std::string_view value);
  ParquetWriter& integer(int64_t value);
  ParquetWriter& vector(const float* values);
  void end_row();
  void finish();

 private:
  struct Writer;
  void check(int32_t result, const char* problem) const;

  std::string path_, part_;
  std::vector<Column> columns_;
  std::unique_ptr<Writer> writer_;
  uint64_t next_ = 0;  // column
};

}  // namespace pipeline::parquet
