#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plugins/tasks/common/files/error.hpp"
#include "plugins/tasks/common/files/file_state.hpp"

namespace pipeline::protein {

struct ReadLimits {
  // Of a file, and of what it unpacks to. Reading mmCIF takes about ten times as much memory; the largest entry of the PDB has 240 MB.
  uint64_t max_file_bytes = uint64_t{256} << 20;
};

// Why a file cannot be used where that is not for its content alone to say: limits, permissions, a file that changes or vanishes.
class ReadError : public files::DataError {
 public:
  using DataError::DataError;
};

struct FileContent {
  std::string bytes;
  files::FileState state;
};

// The whole file as it is. Throws ReadError with a reason that does not name the file.
FileContent read_content(const std::string& path, const ReadLimits& limits);

// What is packed in it with gzip, whatever the file's name: the bytes themselves if nothing is. `unpacked` is the memory that the result
// may lie in. Throws DataError (damaged, packed otherwise), or ReadError (too much), with a reason.
std::string_view unpack(std::string_view bytes, const ReadLimits& limits, std::string& unpacked);

}  // namespace pipeline::protein
