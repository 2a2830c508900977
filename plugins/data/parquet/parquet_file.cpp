#include "plugins/data/parquet/parquet_file.hpp"

#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include "core/base/descriptor.hpp"
#include "plugins/data/files/error.hpp"
#include "plugins/data/files/packed_file.hpp"
#include "plugins/data/files/regular_file.hpp"
#include "plugins/data/files/text_file.hpp"
#include "plugins/data/parquet/library.hpp"
#include "plugins/data/parquet/reader/parquet_reader.h"

namespace pipeline::parquet {
namespace {

namespace fs = std::filesystem;
using files::DataError;

constexpr std::string_view kMagic = "PAR1";
static_assert(kBytesKey == PL_PARQUET_BYTES);

const pl_parquet_api& api_for(const std::string& path) {
  using Get = const pl_parquet_api* (*)();
  return *reinterpret_cast<Get>(library_symbol(path, PL_PARQUET_SYMBOL))();
}

// The file's size. Throws where it is no Parquet file, and says what it is instead.
uint64_t check_start(const std::string& path) {
  const Descriptor file(files::open_regular(path, O_RDONLY));
  if (!file) throw files::system_error(path, "check the path and its permissions");
  std::string start(files::kStartOfText, '\0');
  const ssize_t got = ::pread(file.fd(), start.data(), start.size(), 0);
  if (got < 0) throw files::system_error(path, "check the disk");
  start.resize(static_cast<size_t>(got));
  if (start.empty()) throw DataError(path + ": the file is empty");
  if (!start.starts_with(kMagic)) {
    const std::string known = files::why_no_text(start);
    throw DataError(path + ": " +
                    (known.empty()
                         ? "is no Parquet file: it must begin with \"PAR1\", or have the name of what it is"
                         : known));
  }
  return fs::file_size(path);
}

}  // namespace

struct ParquetFile::Reader {
  const pl_parquet_api& api;
  pl_parquet* file;
};

ParquetFile::ParquetFile(const std::string& path) : path_(path), bytes_(check_start(path)) {
  const pl_parquet_api& api = api_for(path);
  const char* problem = "";
  pl_parquet* const file = api.open(path.c_str(), &problem);
  if (file == nullptr)
    throw DataError(path + ": cannot be read as Parquet: " + one_line(problem) + ": write it again");
  reader_.reset(new Reader{api, file});
}

ParquetFile::~ParquetFile() {
  if (reader_) reader_->api.close(reader_->file);
}

std::vector<std::string> ParquetFile::columns() const {
  std::vector<std::string> names;
  while (const char* name = reader_->api.column(reader_->file, names.size())) names.emplace_back(name);
  return names;
}

uint64_t ParquetFile::rows() const { return reader_->api.rows(reader_->file); }

uint64_t ParquetFile::bytes_read() const {
  const uint64_t all = rows();
  return all == 0 ? 0
                  : static_cast<uint64_t>(static_cast<double>(bytes_) * static_cast<double>(row_) /
                                          static_cast<double>(all));
}

void ParquetFile::select(const std::vector<std::string>& columns) {
  std::vector<const char*> names;
  for (const std::string& column : columns) names.push_back(column.c_str());
  reader_->api.select(reader_->file, names.data(), names.size());
}

bool ParquetFile::next() {
  const char *text = nullptr, *problem = "";
  uint64_t bytes = 0;
  const int32_t result = reader_->api.next(reader_->file, &text, &bytes, &problem);
  if (result < 0)
    throw DataError(path_ + ": row group " + std::to_string(reader_->api.row_group(reader_->file)) +
                    " (the first is 0) cannot be read, behind row " + std::to_string(row_) + ": " +
                    one_line(problem) + ": write it again");
  if (result == 0) return false;
  ++row_;
  text_ = {text, bytes};
  files::check_expansion(path_, bytes_, given_ += bytes);
  return true;
}

}  // namespace pipeline::parquet
