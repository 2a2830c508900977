// The reader of pairs of texts over any bytes, as JSON, CSV and TSV: each ends in pairs that keep
// what pairs.hpp promises, or in a DataError with a message.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "core/base/utf8.hpp"
#include "plugins/data/records/pairs.hpp"
#include "tests/support/fuzz.hpp"

namespace {

using namespace pipeline::records;
using pipeline::tests::require;

// A file in memory that has a name with the wanted ending.
class NamedFile {
 public:
  NamedFile() : fd_(::memfd_create("pairs", 0)) { require(fd_ >= 0, "memfd_create"); }
  ~NamedFile() {
    for (const auto* ending : kEndings) ::unlink(path(ending).c_str());
    ::close(fd_);
  }
  void fill(const uint8_t* data, size_t size) const {
    require(::ftruncate(fd_, 0) == 0 && ::pwrite(fd_, data, size, 0) == static_cast<ssize_t>(size), "pwrite");
  }
  // A link to the file, made when it is first asked for.
  std::string path(const char* ending) const { return "pairs_fuzz." + std::to_string(::getpid()) + ending; }
  void link(const char* ending) const {
    const auto target = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_);
    require(::access(path(ending).c_str(), F_OK) == 0 || ::symlink(target.c_str(), path(ending).c_str()) == 0,
            "symlink");
  }
  static constexpr const char* kEndings[] = {".json", ".csv", ".tsv"};

 private:
  int fd_;
};

void read_one(const std::string& path, const Columns& columns, uint64_t max_record_bytes) {
  RecordReport report;
  uint64_t pairs = 0, line = 0;
  const auto sink = [&](Pair&& pair) {
    ++pairs;
    require(pair.line >= line, "lines ascend");
    line = pair.line;
    require(!is_blank(pair.first), "first texts are not blank");
    require(!columns.second_required || !is_blank(pair.second), "second texts are not blank");
    require(!pair.id.empty(), "ids are not empty");
    for (const auto* text : {&pair.id, &pair.first, &pair.second}) {
      require(pipeline::first_invalid_utf8(*text) == std::string::npos, "texts are UTF-8");
      require(text->size() <= max_record_bytes || text == &pair.id, "texts are within the limit");
    }
  };
  try {
    read_pairs(path, *pipeline::sources::format_named(path), columns, sink, report,
               {.max_record_bytes = max_record_bytes});
  } catch (const DataError& error) {
    require(error.what()[0] != '\0', "errors say something");
    const bool is_of_quotes = std::string(error.what()).find("task.data.quotes") != std::string::npos;
    require(pairs == 0 || is_of_quotes, "errors come before the first pair");
  }
  require(pairs == report.used, "the report counts the pairs");
  uint64_t dropped = 0;
  for (const auto& drop : report.drops) dropped += drop.count;
  require(dropped == report.dropped(), "every record that is not used has a reason");
  const SourceReport once = SourceReport::from_json(SourceReport{{{"x", report}}}.to_json());
  require(SourceReport::from_json(once.to_json()).table() == once.table(), "reports survive JSON");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const NamedFile file;
  file.fill(data, size);
  for (const auto* ending : NamedFile::kEndings) {
    file.link(ending);
    read_one(file.path(ending), {}, uint64_t{1} << 20);
    Columns loose;
    loose.second_required = false;
    read_one(file.path(ending), loose, 40);
  }
  return 0;
}
