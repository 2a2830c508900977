#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace pipeline::files {

// The endings of files that are packed, ".gz" and ".zst", taken off: "train.jsonl.gz" is "train.jsonl".
std::string_view without_packing(std::string_view name);

// Throws DataError where a file of so many bytes has given what no data are packed as: a thousand times its
// size, and more than a gigabyte. That fills the disk, or takes for ever.
void check_expansion(const std::string& path, uint64_t bytes, uint64_t given);

// A regular file from its start: its bytes, or what is packed in it with gzip or zstd, which its first bytes
// say, whatever its name. Memory does not grow with the file.
class PackedFile {
 public:
  // Throws DataError where it cannot be opened.
  explicit PackedFile(const std::string& path);
  ~PackedFile();
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  // The next bytes, at most so many; 0 at the end alone. What was packed by itself may follow, and with gzip
  // zeros, which mean nothing; nothing else may. Throws DataError where the file cannot be read, where what
  // is packed is damaged or cut off, or where it is a thousand times as large as the file and more than a
  // gigabyte.
  size_t read(char* into, size_t most);

  const std::string& path() const { return path_; }
  uint64_t bytes_read() const { return taken_; }  // packed bytes of the file itself

  struct Unpacker;

 private:
  size_t read_raw(char* into, size_t most);
  bool refill();

  std::string path_;
  int fd_;
  std::unique_ptr<Unpacker> unpacker_;  // null: nothing is packed
  std::unique_ptr<char[]> block_;       // of the file
  size_t at_ = 0, end_ = 0;
  uint64_t taken_ = 0, given_ = 0;
};

}  // namespace pipeline::files
