#include "plugins/tasks/summarization/data/input.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "plugins/tasks/summarization/data/files.hpp"

namespace pipeline::summarization {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 16;

struct Signature {
  std::string_view start;
  const char* problem;
};

constexpr Signature kRefused[] = {
    {"\x1f\x8b", "compressed with gzip: unpack it first (gunzip)"},
    {"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first (unzstd)"},
    {"\xfd\x37zXZ", "compressed with xz: unpack it first (unxz)"},
    {"PK\x03\x04", "a zip archive: unpack it first (unzip)"},
    {"PAR1", "a Parquet file: convert it to JSONL or CSV first"},
    {"\xff\xfe", "UTF-16 text: convert it first (iconv -f UTF-16 -t UTF-8)"},
    {"\xfe\xff", "UTF-16 text: convert it first (iconv -f UTF-16 -t UTF-8)"},
};

}  // namespace

Input::Input(const std::string& path, OnBlock on_block)
    : path_(path),
      on_block_(std::move(on_block)),
      fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)),
      block_(kBlockBytes) {
  if (fd_ < 0) throw system_error(path, "check the path and its permissions");
  try {
    look_at_start();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

Input::~Input() { ::close(fd_); }

void Input::look_at_start() {
  // A pipe may hand out fewer bytes than a signature has.
  while (end_ < 8) {
    const size_t before = end_;
    fill();
    if (end_ == before) break;
  }
  const std::string_view start(block_.data(), end_);
  if (start.empty())
    throw DataError(path_ + ": the file is empty: it must hold at least one document/summary pair");
  for (const auto& [signature, problem] : kRefused) {
    if (start.starts_with(signature)) throw DataError(path_ + ": " + problem);
  }
  if (start.starts_with("\xef\xbb\xbf")) at_ = 3;
}

// Appends to what is there if nothing was taken yet (look_at_start), else starts the block anew.
void Input::fill() {
  if (at_ == end_ && at_ > 0) at_ = end_ = 0;
  ssize_t got;
  do {
    got = ::read(fd_, block_.data() + end_, block_.size() - end_);
  } while (got < 0 && errno == EINTR);
  if (got < 0)
    throw system_error(path_, "the file cannot be read; check that it is a regular file on a healthy disk");
  if (got == 0) return;
  end_ += static_cast<size_t>(got);
  bytes_read_ += static_cast<uint64_t>(got);
  if (on_block_) on_block_(bytes_read_);
}

}  // namespace pipeline::summarization
