#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/files/error.hpp"
#include "plugins/data/files/hash128.hpp"
#include "plugins/data/files/packed_file.hpp"

namespace pipeline::records {

using files::DataError;
using files::Hash128;
using files::hash128;

// A file read once from its start in blocks, unpacked where it is packed with gzip or zstd. A byte-order mark
// of UTF-8 is skipped; other compressed files and UTF-16 are refused by name.
class Input {
 public:
  // Called after each block with the bytes of the file read so far; may throw to stop.
  using OnBlock = std::function<void(uint64_t)>;

  // Throws DataError when the file cannot be opened, is empty, or is of a kind that is not text.
  Input(const std::string& path, OnBlock on_block);

  // The rest of the block, which the caller takes from with advance(); empty at the end of the file.
  std::string_view ahead() {
    if (at_ == end_) fill();
    return {block_.data() + at_, end_ - at_};
  }
  void advance(size_t bytes) { at_ += bytes; }

  // The next byte, or -1 at the end.
  int peek() {
    if (at_ == end_) fill();
    return at_ == end_ ? -1 : static_cast<unsigned char>(block_[at_]);
  }

  const std::string& path() const { return file_.path(); }

 private:
  void fill();
  void look_at_start();

  files::PackedFile file_;
  OnBlock on_block_;
  std::vector<char> block_;
  size_t at_ = 0, end_ = 0;
};

// Advances to where a table begins: readers of a table pass over empty lines before its header.
inline void skip_line_ends(Input& input) {
  while (input.peek() == '\n' || input.peek() == '\r') input.advance(1);
}

}  // namespace pipeline::records
