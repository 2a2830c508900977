#include "plugins/tasks/protein/data/structure_cache.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "plugins/tasks/common/files/error.hpp"
#include "plugins/tasks/protein/data/cache_names.hpp"
#include "plugins/tasks/protein/data/structure_directory.hpp"
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
        if (got < 0) throw files::system_error(path_, kUnreadable);
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

bool is_our_header(std::string_view bytes, CacheFileHeader& header) {
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
  opened_ = files::OpenFile(path);
  if (!opened_.is_open() && errno == ENOENT) return;
  if (!opened_.is_open()) throw files::system_error(path, "the cache folder must be readable");
  const int64_t bytes = opened_.bytes();
  if (bytes < 0) throw files::system_error(path, "the cache folder must be on a healthy disk");
  find_records(static_cast<uint64_t>(bytes));
  file_ = files::MappedFile(opened_.fd(), end_, path);
}

void StructureCache::find_records(uint64_t file_bytes) {
  Reader reader(opened_.fd(), path_, file_bytes);
  const auto start = reader.at(0, sizeof(CacheFileHeader));
  CacheFileHeader file_header;
  if (!start || !is_our_header(*start, file_header)) {
    problem_ = path_ + ": not a cache of structures of this version, or its start is damaged: every file is parsed again";
    return;
  }
  ours_ = true;
  id_ = file_header.id;
  end_ = sizeof(CacheFileHeader);
  if (const auto directory = StructureDirectory::load(StructureDirectory::path_of(path_), id_, file_bytes)) {
    for (const Record& record : directory->records) add(record);
    end_ = directory->end;
    has_directory_ = true;
  }
  bool in_damage = false;
  uint64_t unfinished = 0;
  for (uint64_t at = end_; at < file_bytes;) {
    const auto header = header_at(reader, at);
    const Record record{at, header.value_or(RecordHeader{})};
    std::optional<std::string_view> body;
    if (header && record.is_within(file_bytes)) body = reader.at(at + sizeof *header, padded(record.body_bytes()));
    if (!body || !protein::is_whole(*header, body->substr(0, record.body_bytes()))) {
      if (!in_damage) ++unfinished;  // a tail, unless a whole record comes after it
      in_damage = true;
      at += body ? record.bytes() : kAlignment;
      continue;
    }
    in_damage = false;
    damaged_ = unfinished;
    add(record);
    ++scanned_;
    at += record.bytes();
    end_ = at;
  }
  if (damaged_ > 0) {
    problem_ = damage_text(path_, damaged_);
  } else if (end_ < file_bytes) {
    problem_ = path_ + ": its end is not complete (a process was killed, or the disk was full): what is missing is parsed again";
  }
}

void StructureCache::add(const Record& record) {
  const auto [known, is_new] = by_key_.try_emplace(record.header.key, records_.size());
  if (is_new) {
    records_.push_back(record);
  } else {
    records_[known->second] = record;
  }
}

std::string StructureCache::damage_text(const std::string& path, uint64_t places) {
  return path + ": damaged in " + std::to_string(places) + (places == 1 ? " place" : " places") +
         ": the files whose records were there are parsed again";
}

void StructureCache::save_directory() const { StructureDirectory{id_, end_, records_}.save(StructureDirectory::path_of(path_)); }

const StructureCache::Record* StructureCache::find(const files::Hash128& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &records_[found->second];
}

std::string_view StructureCache::bytes_of(const Record& record) const { return file_.bytes().substr(record.begin, record.bytes()); }

std::string_view StructureCache::body_of(const Record& record) const {
  return file_.bytes().substr(record.begin + sizeof(RecordHeader), record.body_bytes());
}

bool StructureCache::is_whole(const Record& record) const {
  return is_all_there() && std::memcmp(bytes_of(record).data(), &record.header, sizeof record.header) == 0 &&
         protein::is_whole(record.header, body_of(record));
}

bool StructureCache::is_all_there() const { return opened_.bytes() >= static_cast<int64_t>(file_.bytes().size()); }

void StructureCache::check(const Record& record) const {
  if (is_whole(record)) return;
  const std::string what =
      is_all_there() ? "a record of it is not the one that was written"
                     : "it has " + std::to_string(opened_.bytes()) + " bytes, and had at least " + std::to_string(end_);
  throw files::DataError(path_ + ": was changed while it is in use (" + what +
                         "): stop what uses or changes it, remove it, and run again: the files are parsed again");
}

void StructureCache::append_chains_of(const Record& record, std::vector<ChainView>& chains) const {
  append_chains(record.header, body_of(record), chains);
}

std::string_view StructureCache::reason_of(const Record& record) const { return body_of(record).substr(0, record.header.payload_bytes); }

std::string_view StructureCache::remark_of(const Record& record) const { return body_of(record).substr(record.header.payload_bytes); }

}  // namespace pipeline::protein
