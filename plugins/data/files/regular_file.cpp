#include "plugins/data/files/regular_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "core/base/descriptor.hpp"
#include "core/base/foreign.hpp"
#include "plugins/data/files/error.hpp"

namespace pipeline::files {
namespace {

const char* kind_of(mode_t mode) {
  return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a pipe (FIFO)" : "a device";
}

struct Signature {
  std::string_view start;
  const char* problem;
};

using namespace std::string_view_literals;  // some have NUL in them

constexpr Signature kSignatures[] = {
    {"\x1f\x8b", "compressed with gzip: unpack it first (gunzip)"},
    {"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first (unzstd)"},
    {"\xfd\x37zXZ", "compressed with xz: unpack it first (unxz)"},
    {"BZh", "compressed with bzip2: unpack it first (bunzip2)"},
    {"\x04\x22\x4d\x18", "compressed with lz4: unpack it first (unlz4)"},
    {"\x1f\x9d", "compressed with compress: unpack it first (uncompress)"},
    {"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it first (7z x)"},
    {"PK\x03\x04", "a zip archive: unpack it first (unzip)"},
    {"PAR1", "a Parquet file: its name must end in .parquet"},
    {"ARROW1", "an Arrow file: write it as Parquet first (pandas: read_feather, and to_parquet)"},
    {"\xff\xff\xff\xff",
     "an Arrow stream, as Hugging Face's datasets keep them: write it as Parquet first (datasets: "
     "to_parquet)"},
    {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Office document (Excel, Word): save it as CSV UTF-8 first"},
    {"SQLite format 3", "an SQLite database: export the table as CSV first"},
    {"%PDF-", "a PDF document: write its text into a file of records first"},
    {"\xff\xfe\0\0"sv, "UTF-32 text: convert it first (iconv -f UTF-32 -t UTF-8)"},
    {"\xff\xfe", "UTF-16 text: convert it first (iconv -f UTF-16 -t UTF-8)"},
    {"\xfe\xff", "UTF-16 text: convert it first (iconv -f UTF-16 -t UTF-8)"},
};

// UTF-16 without a byte-order mark: one byte of most characters is zero, always the same of the two.
const char* utf_16(std::string_view start) {
  constexpr size_t kCharacters = 8;
  if (start.size() < 2 * kCharacters) return nullptr;
  bool little = true, big = true;
  for (size_t i = 0; i < 2 * kCharacters; i += 2) {
    little = little && start[i] != '\0' && start[i + 1] == '\0';
    big = big && start[i] == '\0' && start[i + 1] != '\0';
  }
  return little ? "UTF-16 text: convert it first (iconv -f UTF-16LE -t UTF-8)"
         : big  ? "UTF-16 text: convert it first (iconv -f UTF-16BE -t UTF-8)"
                : nullptr;
}

}  // namespace

std::string path_problem(const std::filesystem::path& path, std::string_view what) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return "";
  if (errno != ENOENT && errno != ENOTDIR) return std::generic_category().message(errno);
  return "there is no such " + std::string(what) +
         "; a path is taken from the folder in which the program is started";
}

int open_regular(const std::string& path, int flags, std::string_view remedy) {
  // Without O_NONBLOCK a pipe waits for its other end, and a signal does not end that.
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
  struct stat status {};
  if (fd < 0) return fd;
  // Writing to a device waits for nobody, and one without room says so.
  const bool is_written = (flags & O_TRUNC) != 0;
  if (::fstat(fd, &status) == 0 && (S_ISREG(status.st_mode) || (is_written && S_ISCHR(status.st_mode))))
    return fd;
  ::close(fd);
  throw DataError(path + ": is " + kind_of(status.st_mode) + ", must be a regular file" +
                  (remedy.empty() ? "" : ": " + std::string(remedy)));
}

uint64_t read_at(int fd, uint64_t begin, char* into, uint64_t bytes, const std::string& path,
                 const std::string& remedy) {
  uint64_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::pread(fd, into + done, bytes - done, static_cast<off_t>(begin + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error(path, remedy);
    if (got == 0) break;
    done += static_cast<uint64_t>(got);
  }
  return done;
}

std::string read_regular(const std::string& path, uint64_t most_bytes) {
  const Descriptor file(open_regular(path, O_RDONLY));
  if (!file) throw system_error(path + ": cannot be read", "check the path and its permissions");
  std::string text;
  for (std::vector<char> block(size_t{1} << 16);;) {
    const uint64_t got = read_at(file.fd(), text.size(), block.data(), block.size(),
                                 path + ": cannot be read", "check the disk");
    if (got == 0) break;
    text.append(block.data(), got);
    if (text.size() > most_bytes)
      throw DataError(path + ": has more than " + std::to_string(most_bytes) +
                      " bytes, which is no size for such a file: check that it is the right one");
  }
  if (const std::string found = foreign::content(std::string_view(text).substr(0, foreign::kStart));
      !found.empty())
    throw DataError(path + ": " + found);
  return text;
}

std::string why_no_text(std::string_view start) {
  if (std::string known = foreign::content(start); !known.empty()) return known;
  if (start.starts_with("PK\x03\x04") && start.find("[Content_Types].xml") != start.npos)
    return "an Office document (Excel, Word): save it as CSV UTF-8 first";
  for (const auto& [signature, problem] : kSignatures)
    if (start.starts_with(signature)) return problem;
  const char* const wide = utf_16(start);
  return wide == nullptr ? "" : wide;
}

MappedFile::MappedFile(const std::string& path)
    : fd_(open_regular(path, O_RDONLY, "remove it: it is built again")) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  if (fd_ >= 0) ::close(fd_);
}

int64_t MappedFile::length() const {
  struct stat status {};
  return ::fstat(fd_, &status) == 0 ? status.st_size : -1;
}

bool MappedFile::map(uint64_t bytes) {
  if (bytes == 0) return true;
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd_, 0);
  if (data == MAP_FAILED) return false;
  bytes_ = {static_cast<const char*>(data), bytes};
  return true;
}

void MappedFile::count_read(uint64_t bytes) const {
  constexpr uint64_t kMost = uint64_t{32} << 20, kAround = uint64_t{64} << 10;  // what Linux maps at once
  bytes = std::max(bytes, kAround);
  if (bytes_.size() <= kMost || read_.fetch_add(bytes) + bytes < kMost) return;
  read_ = 0;
  ::madvise(const_cast<char*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
}

}  // namespace pipeline::files
