#include "plugins/tasks/protein/data/structure_cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "plugins/tasks/common/files/error.hpp"
#include "plugins/tasks/protein/data/structure_reader.hpp"

namespace pipeline::protein {
namespace {

// Reads at any place. The file is read, not mapped, while it is being verified: another process may cut off a tail that is not whole.
class Reader {
 public:
  Reader(int fd, const std::string& path, uint64_t bytes) : fd_(fd), path_(path), bytes_(bytes) {}

  // Valid until the next call; nullopt where the file is too short.
  std::optional<std::string_view> at(uint64_t begin, uint64_t size) {
    if (begin > bytes_ || size > bytes_ - begin) return std::nullopt;
    if (begin < begin_ || begin + size > begin_ + filled_) {
      begin_ = begin;
      filled_ = 0;
      block_.resize(std::max<uint64_t>(size, std::min<uint64_t>(kBlock, bytes_ - begin)));
      while (filled_ < block_.size()) {
        const ssize_t got = ::pread(fd_, block_.data() + filled_, block_.size() - filled_, static_cast<off_t>(begin + filled_));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw files::system_error(path_, "check the disk, or remove the file: it is built again");
        if (got == 0) break;
        filled_ += static_cast<size_t>(got);
      }
    }
    if (begin + size > begin_ + filled_) return std::nullopt;
    return std::string_view(block_).substr(begin - begin_, size);
  }

 private:
  static constexpr uint64_t kBlock = uint64_t{1} << 20;
  int fd_;
  const std::string& path_;
  uint64_t bytes_, begin_ = 0;
  size_t filled_ = 0;
  std::string block_;
};

bool is_our_header(std::string_view bytes) {
  CacheFileHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return std::memcmp(header.magic, kCacheMagic, sizeof kCacheMagic) == 0 && header.version == kCacheVersion &&
         header.parser_version == kParserVersion && header.hash == files::hash128(bytes.substr(0, offsetof(CacheFileHeader, hash)));
}

// The header at this place, if there is one.
std::optional<RecordHeader> header_at(Reader& reader, uint64_t begin) {
  const auto bytes = reader.at(begin, sizeof(RecordHeader));
  if (!bytes) return std::nullopt;
  RecordHeader header;
  std::memcpy(&header, bytes->data(), sizeof header);
  if (!is_record(header)) return std::nullopt;
  return header;
}

}  // namespace

std::string StructureCache::path_in(const std::string& folder) {
  return (std::filesystem::path(folder) / ("protein-structures-" + std::to_string(kParserVersion) + ".cache")).string();
}

StructureCache::StructureCache(const std::string& path) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return;
  if (fd < 0) throw files::system_error(path, "the cache folder must be readable");
  try {
    struct stat status {};
    if (::fstat(fd, &status) != 0) throw files::system_error(path, "the cache folder must be on a healthy disk");
    scan(fd, static_cast<uint64_t>(status.st_size));
    file_ = files::MappedFile(fd, end_, path);
  } catch (...) {
    ::close(fd);
    throw;
  }
  ::close(fd);
}

void StructureCache::scan(int fd, uint64_t file_bytes) {
  Reader reader(fd, path_, file_bytes);
  const auto start = reader.at(0, sizeof(CacheFileHeader));
  if (!start || !is_our_header(*start)) {
    problem_ = path_ + ": not a cache of structures of this version, or its start is damaged: every file is parsed again";
    return;
  }
  ours_ = true;
  end_ = sizeof(CacheFileHeader);
  bool in_damage = false;
  uint64_t unfinished = 0;
  for (uint64_t at = end_; at < file_bytes;) {
    const auto header = header_at(reader, at);
    std::optional<std::string_view> payload;
    if (header && header->payload_bytes <= file_bytes) payload = reader.at(at + sizeof *header, padded(header->payload_bytes));
    if (!payload || !is_whole(*header, payload->substr(0, header->payload_bytes))) {
      if (!in_damage) ++unfinished;  // a tail, unless a whole record comes after it
      in_damage = true;
      at += payload ? sizeof *header + padded(header->payload_bytes) : kAlignment;
      continue;
    }
    in_damage = false;
    damaged_ = unfinished;
    by_key_.emplace(header->key, records_.size());
    records_.push_back({at, *header});
    at += sizeof *header + padded(header->payload_bytes);
    end_ = at;
  }
  if (damaged_ > 0) {
    problem_ = path_ + ": damaged in " + std::to_string(damaged_) + (damaged_ == 1 ? " place" : " places") +
               ": the files whose records were there are parsed again";
  } else if (end_ < file_bytes) {
    problem_ = path_ + ": its end is not complete (a process was killed, or the disk was full): what is missing is parsed again";
  }
}

const StructureCache::Record* StructureCache::find(const files::Hash128& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &records_[found->second];
}

void StructureCache::append_chains_of(const Record& record, std::vector<ChainView>& chains) const {
  append_chains(record.header, file_.bytes().substr(record.begin + sizeof(RecordHeader), record.header.payload_bytes), chains);
}

std::string_view StructureCache::reason_of(const Record& record) const {
  return file_.bytes().substr(record.begin + sizeof(RecordHeader), record.header.payload_bytes);
}

std::string_view StructureCache::bytes_of(const Record& record) const {
  return file_.bytes().substr(record.begin, sizeof(RecordHeader) + padded(record.header.payload_bytes));
}

}  // namespace pipeline::protein
