#include "plugins/data/parquet/parquet_file.hpp"

#include <filesystem>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/base/descriptor.hpp"
#include "plugins/data/files/error.hpp"
#include "plugins/data/files/packed_file.hpp"
#include "plugins/data/files/regular_file.hpp"
#include "plugins/data/parquet/reader/parquet_reader.h"

namespace pipeline::parquet {
namespace {

namespace fs = std::filesystem;
using files::DataError;

constexpr std::string_view kMagic = "PAR1";
static_assert(kBytesKey == PL_PARQUET_BYTES);

// The file's size. Throws where it is no Parquet file, and says what it is instead.
uint64_t check_start(const std::string& path) {
  const Descriptor file(files::open_regular(path, O_RDONLY));
  if (!file) throw files::system_error(path, "check the path and its permissions");
  std::string start(files::kStartOfText, '\0');
  start.resize(files::read_at(file.fd(), 0, start.data(), start.size(), path, "check the disk"));
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

constexpr const char* kLibrary = "readers/parquet_reader.so";

// Beside the plugins: this code is in one of them, or in a program of the same build.
fs::path find_library() {
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&find_library), &here) == 0) return {};
  std::error_code ignored;
  for (fs::path folder = fs::weakly_canonical(here.dli_fname, ignored).parent_path();;
       folder = folder.parent_path()) {
    for (const fs::path& path : {folder / kLibrary, folder / "lib/pipeline" / kLibrary})
      if (fs::exists(path, ignored)) return path;
    if (folder == folder.root_path()) return {};
  }
}

// A function of the library that links Arrow, which is loaded when it is first asked for and stays for the
// process's life. Throws DataError that begins with `path`, the file that it is wanted for.
void* library_symbol(const std::string& path, const char* symbol) {
  constexpr const char* kRemedy =
      "Parquet needs Arrow's library, which the first command that names a .parquet file fetches "
      "(scripts/pipeline; by hand: scripts/setup/build release parquet_reader)";
  static const fs::path library = find_library();
  if (library.empty()) throw DataError(path + ": " + kRemedy);
  static void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const problem = ::dlerror();
    throw DataError(path + ": " + kRemedy + ": " + (problem == nullptr ? "it cannot be loaded" : problem));
  }
  void* const found = ::dlsym(handle, symbol);
  if (found == nullptr) throw DataError(library.string() + ": is of another version: build it again");
  return found;
}

template <class Api>
const Api& api_for(const std::string& path, const char* symbol) {
  return *reinterpret_cast<const Api* (*)()>(library_symbol(path, symbol))();
}

// The library's error in one line: Arrow's messages have several, and name its own sources.
std::string one_line(std::string_view problem) {
  std::string text;
  for (const char c : problem.substr(0, 400)) text += c == '\n' ? ' ' : c;
  return text;
}

}  // namespace

struct ParquetFile::Reader {
  const pl_parquet_api& api;
  pl_parquet* file;
};

ParquetFile::ParquetFile(const std::string& path) : path_(path), bytes_(check_start(path)) {
  const auto& api = api_for<pl_parquet_api>(path, PL_PARQUET_SYMBOL);
  const char* problem = "";
  pl_parquet* const file = api.open(path.c_str(), &problem);
  if (file == nullptr)
    throw DataError(path + ": cannot be read as Parquet: " + one_line(problem) + ": write it again");
  reader_.reset(new Reader{api, file});
}

ParquetFile::~ParquetFile() { reader_->api.close(reader_->file); }

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

struct ParquetWriter::Writer {
  const std::string file;
  const std::vector<Column> columns;
  const pl_parquet_writer_api& api;
  pl_parquet_writer* raw = nullptr;

  [[noreturn]] void fail(const char* problem) const {
    throw DataError(file + ": cannot be written as Parquet: " + one_line(problem));
  }
  template <class Function, class... Given>
  void call(Function function, Given... given) const {
    const char* problem = "";
    if (function(raw, given..., &problem) == 0) fail(problem);
  }
  std::string bytes_of(decltype(pl_parquet_writer_api::finish) function) const {
    pl_parquet_bytes bytes{};
    call(function, &bytes);
    return {static_cast<const char*>(bytes.data), bytes.size};
  }
};

ParquetWriter::ParquetWriter(std::string file, std::vector<Column> columns) {
  const auto& api = api_for<pl_parquet_writer_api>(file, PL_PARQUET_WRITER_SYMBOL);
  writer_.reset(new Writer{std::move(file), std::move(columns), api});
  std::vector<pl_parquet_column> raw;
  for (const Column& column : writer_->columns)
    raw.push_back({.name = column.name.c_str(),
                   .kind = column.kind == Column::kText      ? PL_PARQUET_TEXT
                           : column.kind == Column::kInteger ? PL_PARQUET_INTEGER
                                                             : PL_PARQUET_VECTOR,
                   .width = static_cast<uint32_t>(column.width)});
  const char* problem = "";
  writer_->raw = api.open(raw.data(), raw.size(), &problem);
  if (writer_->raw == nullptr) writer_->fail(problem);
}

ParquetWriter::~ParquetWriter() { writer_->api.close(writer_->raw); }

ParquetWriter& ParquetWriter::text(std::string_view value) {
  writer_->call(writer_->api.text, next_++, value.data(), uint64_t{value.size()});
  return *this;
}

ParquetWriter& ParquetWriter::integer(int64_t value) {
  writer_->call(writer_->api.integer, next_++, value);
  return *this;
}

void ParquetWriter::end_row() {
  next_ = 0;
  writer_->call(writer_->api.end_row);
}

std::string ParquetWriter::end_group() { return writer_->bytes_of(writer_->api.end_group); }
std::string ParquetWriter::finish() { return writer_->bytes_of(writer_->api.finish); }

}  // namespace pipeline::parquet
