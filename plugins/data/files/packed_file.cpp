#include "plugins/data/files/packed_file.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "plugins/data/files/error.hpp"
#include "plugins/data/files/regular_file.hpp"

namespace pipeline::files {
namespace {

constexpr size_t kPackedBlock = size_t{1} << 16;
constexpr std::string_view kGzip = "\x1f\x8b", kZstd = "\x28\xb5\x2f\xfd", kSkippable = "\x2a\x4d\x18";

// Whether it is zstd's, or a frame that zstd passes over, which may come first: 0x184d2a50 to 0x184d2a5f.
bool begins_zstd(std::string_view start) {
  return start.starts_with(kZstd) || (start.size() > kSkippable.size() && (start[0] & 0xf0) == 0x50 &&
                                      start.substr(1).starts_with(kSkippable));
}

}  // namespace

std::string_view without_packing(std::string_view name) {
  for (const std::string_view end : {".gz", ".zst", ".GZ", ".ZST"})
    if (name.ends_with(end)) return name.substr(0, name.size() - end.size());
  return name;
}

void check_expansion(const std::string& path, uint64_t bytes, uint64_t given) {
  constexpr uint64_t kMostTimes = 1000, kFree = uint64_t{1} << 30;
  if (given > kFree && given / kMostTimes > bytes)
    throw DataError(path + ": unpacks to more than " + std::to_string(kMostTimes) +
                    " times its size: that is no file of records");
}

// Unpacks one format.
struct PackedFile::Unpacker {
  struct Step {
    size_t taken, given;
    bool is_between;  // at the end of a packed stream, where the file may end too
  };
  virtual ~Unpacker() = default;
  // Throws DataError where the bytes are damaged.
  virtual Step step(std::string_view from, char* into, size_t most) = 0;
  bool is_between = false;
};

namespace {

struct Gzip : PackedFile::Unpacker {
  z_stream stream{};
  Gzip() {
    if (::inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Gzip() override { ::inflateEnd(&stream); }

  Step step(std::string_view from, char* into, size_t most) override {
    // Files may be joined together, and zeros behind each of them, which tools put there, mean nothing.
    if (is_between) {
      const size_t zeros = std::min(from.find_first_not_of('\0'), from.size());
      if (zeros > 0) return {zeros, 0, true};
      if (from.front() != kGzip.front()) throw DataError("damaged: what follows its gzip data is none");
      ::inflateReset(&stream);
    }
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(from.data()));
    stream.avail_in = static_cast<uInt>(from.size());
    stream.next_out = reinterpret_cast<Bytef*>(into);
    const uInt room = static_cast<uInt>(std::min<size_t>(most, std::numeric_limits<uInt>::max()));
    stream.avail_out = room;
    const int result = ::inflate(&stream, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      throw DataError("damaged: its gzip data cannot be unpacked");
    return {from.size() - stream.avail_in, room - stream.avail_out, result == Z_STREAM_END};
  }
};

struct Zstd : PackedFile::Unpacker {
  ZSTD_DStream* stream = ::ZSTD_createDStream();
  Zstd() {
    if (stream == nullptr) throw std::bad_alloc();
  }
  ~Zstd() override { ::ZSTD_freeDStream(stream); }

  Step step(std::string_view from, char* into, size_t most) override {
    ZSTD_inBuffer in{from.data(), from.size(), 0};
    ZSTD_outBuffer out{into, most, 0};
    const size_t result = ::ZSTD_decompressStream(stream, &out, &in);
    if (::ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge)
      throw DataError("is packed with a window of more than 128 MiB: pack it again without --long");
    if (::ZSTD_isError(result))
      throw DataError(std::string("damaged: its zstd data cannot be unpacked: ") +
                      ::ZSTD_getErrorName(result));
    return {in.pos, out.pos, result == 0};
  }
};

}  // namespace

PackedFile::PackedFile(const std::string& path)
    : path_(path), fd_(open_regular(path, O_RDONLY)), block_(std::make_unique<char[]>(kPackedBlock)) {
  if (fd_ < 0) throw system_error(path, "check the path and its permissions");
  try {
    while (end_ < kZstd.size() && refill()) {
    }
  } catch (...) {
    ::close(fd_);
    throw;
  }
  const std::string_view start(block_.get(), end_);
  if (start.starts_with(kGzip)) unpacker_ = std::make_unique<Gzip>();
  if (begins_zstd(start)) unpacker_ = std::make_unique<Zstd>();
}

PackedFile::~PackedFile() { ::close(fd_); }

size_t PackedFile::read_raw(char* into, size_t most) {
  ssize_t got;
  do {
    got = ::read(fd_, into, most);
  } while (got < 0 && errno == EINTR);
  if (got < 0)
    throw system_error(path_, "the file cannot be read; check that it is a regular file on a healthy disk");
  taken_ += static_cast<uint64_t>(got);
  return static_cast<size_t>(got);
}

// Appends to the block what is left of it; false at the file's end.
bool PackedFile::refill() {
  if (at_ == end_) at_ = end_ = 0;
  const size_t got = read_raw(block_.get() + end_, kPackedBlock - end_);
  end_ += got;
  return got > 0;
}

size_t PackedFile::read(char* into, size_t most) {
  if (!unpacker_) {
    if (at_ == end_) return read_raw(into, most);
    const size_t count = std::min(most, end_ - at_);
    std::memcpy(into, block_.get() + at_, count);
    at_ += count;
    return count;
  }
  while (true) {
    const bool has_input = at_ < end_ || refill();
    if (!has_input && unpacker_->is_between) return 0;
    const Unpacker::Step step = [&] {
      try {
        return unpacker_->step({block_.get() + at_, end_ - at_}, into, most);
      } catch (const DataError& error) {
        throw DataError(path_ + ": " + error.what() + " (at byte " + std::to_string(taken_ - (end_ - at_)) +
                        " of the file, or behind it)");
      }
    }();
    at_ += step.taken;
    unpacker_->is_between = step.is_between;
    check_expansion(path_, taken_, given_ += step.given);
    if (step.given > 0) return step.given;
    if (!has_input && step.taken == 0) throw DataError(path_ + ": cut off: what is packed in it ends early");
  }
}

}  // namespace pipeline::files
