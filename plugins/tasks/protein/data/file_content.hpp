#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plugins/tasks/common/files/error.hpp"
#include "plugins/tasks/common/files/file_state.hpp"

namespace pipeline::protein {

struct ReadLimits {
  // Of a file, and of what it unpacks to. Reading mmCIF takes about ten times as much memory; the largest
  // entry of the PDB has 240 MB.
  uint64_t max_file_bytes = uint64_t{256} << 20;
  std::string option = "max_file_bytes";  // what the user calls it, for messages
};

// Why a file cannot be used where that is not for its content alone to say.
class ReadError : public files::DataError {
 public:
  enum Cause : uint8_t {
    kKind,     // no file at all: it stays so until its state changes
    kLimit,    // as long as the limit is what it is
    kSystem,   // as long as opening it fails with code()
    kPassing,  // it may be all right the next time
  };
  ReadError(const std::string& message, Cause cause, int code = 0)
      : DataError(message, code), cause_(cause) {}
  Cause cause() const { return cause_; }

 private:
  Cause cause_;
};

struct FileContent {
  std::string bytes;
  files::FileState state;
};

// 0, or the code of the error with which it cannot be opened for reading.
int opening_error(const std::string& path);

// The whole file as it is. Throws ReadError with a reason that does not name the file.
FileContent read_content(const std::string& path, const ReadLimits& limits);

// Whether it is packed with gzip, and how many bytes it says are in it: what most programs that pack wrote,
// not to be relied on.
bool is_gzip(std::string_view bytes);
uint64_t gzip_size(std::string_view bytes);

// What is packed in it with gzip, whatever the file's name: the bytes themselves if nothing is. `unpacked` is
// the memory that the result may lie in. Throws DataError (damaged, packed otherwise), or ReadError (too
// much), with a reason.
std::string_view unpack(std::string_view bytes, const ReadLimits& limits, std::string& unpacked);

}  // namespace pipeline::protein
