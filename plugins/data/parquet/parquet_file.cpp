#include "plugins/data/parquet/parquet_file.hpp"

#include <filesystem>

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/base/descriptor.hpp"
#include "plugins/data/files/error.hpp"
#include "plugins/data/files/regular_file.hpp"
#include "plugins/data/files/text_file.hpp"
#include "plugins/data/parquet/reader/parquet_reader.h"

namespace pipeline::parquet {
namespace {

namespace fs = std::filesystem;
using files::DataError;

constexpr const char* kLibrary = "readers/parquet_reader.so";
constexpr std::string_view kMagic = "PAR1";

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

// It stays for the process's life.
const pl_parquet_api& api_for(const std::string& path) {
  constexpr const char* kRemedy =
      "reading Parquet needs Arrow's library, which the first command that names a .parquet file fetches "
      "(scripts/pipeline; by hand: scripts/setup/build release parquet_reader)";
  static const fs::path library = find_library();
  if (library.empty()) throw DataError(path + ": " + kRemedy);
  static void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const problem = ::dlerror();
    throw DataError(path + ": " + kRemedy + ": " + (problem == nullptr ? "it cannot be loaded" : problem));
  }
  static const auto get = reinterpret_cast<const pl_parquet_api* (*)()>(::dlsym(handle, PL_PARQUET_SYMBOL));
  if (get == nullptr) throw DataError(library.string() + ": is of another version: build it again");
  return *get();
}

// Of a file that is none, what it is.
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

// Arrow's messages have several lines, and name its own sources.
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
  return true;
}

}  // namespace pipeline::parquet
