#include "plugins/data/structures/file_content.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "core/base/descriptor.hpp"
#include "plugins/data/files/regular_file.hpp"

namespace pipeline::structures {
namespace {

ReadError too_large(const ReadLimits& limits, const char* what) {
  return ReadError(std::string(what) + " more than " + std::to_string(limits.max_file_bytes) +
                       " bytes: raise " + limits.option + " if it is to be used",
                   ReadError::kLimit);
}

ReadError failed() {
  const int code = errno;
  if (code == ENOENT || code == ESTALE) return ReadError("not there (any more)", ReadError::kSystem, code);
  return ReadError("cannot be read: " + std::generic_category().message(code), ReadError::kSystem, code);
}

// A pipe must not hold us up.
Descriptor opened(const std::string& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

struct Inflater {
  z_stream stream{};
  Inflater() {
    if (::inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { ::inflateEnd(&stream); }
};

std::string inflated(std::string_view bytes, const ReadLimits& limits) {
  Inflater inflater;
  z_stream& stream = inflater.stream;
  std::string out(std::min(limits.max_file_bytes, std::max<uint64_t>(bytes.size() * 5, 4096)), '\0');
  size_t filled = 0;
  std::string_view rest = bytes;
  constexpr size_t kMost = std::numeric_limits<uInt>::max();
  while (true) {
    if (filled == out.size()) {
      if (out.size() >= limits.max_file_bytes) throw too_large(limits, "unpacks to");
      out.resize(std::min<uint64_t>(limits.max_file_bytes, out.size() * 2));
    }
    const auto given = static_cast<uInt>(std::min(rest.size(), kMost)),
               room = static_cast<uInt>(std::min(out.size() - filled, kMost));
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest.data()));
    stream.avail_in = given;
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
    stream.avail_out = room;
    const int result = ::inflate(&stream, Z_NO_FLUSH);
    rest.remove_prefix(given - stream.avail_in);
    filled += room - stream.avail_out;
    if (result == Z_STREAM_END) {
      rest.remove_prefix(std::min(rest.find_first_not_of('\0'), rest.size()));  // padding
      if (rest.empty()) break;
      if (!is_gzip(rest))
        throw files::DataError("damaged: what follows its gzip data, at byte " +
                               std::to_string(bytes.size() - rest.size()) + ", is none");
      ::inflateReset(&stream);  // files of several members are files joined together
    } else if (result == Z_BUF_ERROR || (result == Z_OK && rest.empty() && stream.avail_out > 0)) {
      if (rest.empty() && stream.avail_out > 0) throw files::DataError("cut off: its gzip data end early");
    } else if (result == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (result != Z_OK) {
      throw files::DataError("damaged: its gzip data cannot be unpacked");
    }
  }
  out.resize(filled);
  return out;
}

}  // namespace

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

uint64_t gzip_size(std::string_view bytes) {
  if (bytes.size() < 4) return 0;
  uint64_t size = 0;
  for (size_t i = 1; i <= 4; ++i) size = size << 8 | static_cast<unsigned char>(bytes[bytes.size() - i]);
  return size;
}

int opening_error(const std::string& path) { return opened(path) ? 0 : errno; }

FileContent read_content(const std::string& path, const ReadLimits& limits) {
  const Descriptor file = opened(path);
  if (!file) throw failed();
  struct stat status {};
  if (::fstat(file.fd(), &status) != 0) throw failed();
  if (!S_ISREG(status.st_mode)) throw ReadError("not a regular file", ReadError::kKind);
  FileContent content;
  content.state = FileState(status);
  if (content.state.bytes > limits.max_file_bytes) throw too_large(limits, "has");
  content.bytes.resize(content.state.bytes);
  size_t filled = 0;
  while (filled < content.bytes.size()) {
    const ssize_t got = ::read(file.fd(), content.bytes.data() + filled, content.bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw failed();
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  if (::fstat(file.fd(), &status) != 0) throw failed();
  if (filled < content.bytes.size() || FileState(status) != content.state)
    throw ReadError("changed while it was being read", ReadError::kPassing);
  return content;
}

std::string_view unpack(std::string_view bytes, const ReadLimits& limits, std::string& unpacked) {
  if (is_gzip(bytes)) {
    unpacked = inflated(bytes, limits);
    bytes = unpacked;
  }
  if (const std::string problem = files::why_no_text(bytes.substr(0, files::kStartOfText)); !problem.empty())
    throw files::DataError(problem);
  return bytes;
}

}  // namespace pipeline::structures
