#include "plugins/data/stores/record_store.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "plugins/data/files/error.hpp"

namespace pipeline::stores {
namespace {

constexpr char kFileMagic[] = "PLRECOR1";
constexpr uint64_t kRecordMagic = 0x5245434f5244ab03;

template <class Header>
uint64_t hash_before(const Header& header, size_t offset) {
  return files::hash128(files::bytes_of(header).substr(0, offset)).low;
}

// Reads headers. The file is read, not mapped, until its records are found: another process may cut off a
// tail that is not whole.
class HeaderReader {
 public:
  HeaderReader(int fd, const std::string& path, uint64_t bytes) : fd_(fd), path_(path), bytes_(bytes) {}

  // The header at `begin`, with `ahead` bytes read at once if need be; nullopt where the file is too short.
  template <class Header>
  std::optional<Header> at(uint64_t begin, uint64_t ahead) {
    Header header;
    if (begin > bytes_ || sizeof header > bytes_ - begin) return std::nullopt;
    if (begin < begin_ || begin + sizeof header > begin_ + block_.size())
      fill(begin, std::min(std::max<uint64_t>(ahead, sizeof header), bytes_ - begin));
    if (begin + sizeof header > begin_ + block_.size()) return std::nullopt;
    std::memcpy(&header, block_.data() + (begin - begin_), sizeof header);
    return header;
  }

 private:
  void fill(uint64_t begin, uint64_t size) {
    begin_ = begin;
    block_.resize(size);
    block_.resize(files::read_at(fd_, begin, block_.data(), size, path_,
                                 "check the disk, or remove it: it is built again"));
  }

  int fd_;
  const std::string& path_;
  uint64_t bytes_, begin_ = 0;
  std::string block_;
};

constexpr uint64_t kLeastUnused = uint64_t{1} << 20;  // bytes: less is not worth a new file

}  // namespace

FileHeader::FileHeader(const Kind& kind) : name{}, version(kind.version), reserved(0) {
  std::memcpy(magic, kFileMagic, sizeof magic);
  std::copy_n(kind.name.begin(), std::min(kind.name.size(), sizeof name), name);
  hash = hash_before(*this, offsetof(FileHeader, hash));
}

RecordHeader::RecordHeader(const Hash128& for_key, uint64_t payload_bytes, const Hash128& payload_hash)
    : magic(kRecordMagic), key(for_key), bytes(payload_bytes), hash(payload_hash) {
  header_hash = hash_before(*this, offsetof(RecordHeader, header_hash));
}

bool RecordHeader::is_right() const {
  return magic == kRecordMagic && header_hash == hash_before(*this, offsetof(RecordHeader, header_hash));
}

std::string make_record(const Hash128& key, std::string_view payload) {
  std::string record(sizeof(RecordHeader) + padded(payload.size()), '\0');
  std::copy(payload.begin(), payload.end(), record.begin() + sizeof(RecordHeader));
  const Hash128 hash = files::hash128(std::string_view(record).substr(sizeof(RecordHeader)));
  const RecordHeader header(key, payload.size(), hash);
  std::memcpy(record.data(), &header, sizeof header);
  return record;
}

RecordStore::RecordStore(const std::string& path, const Kind& kind) : path_(path), kind_(kind) {
  file_ = files::MappedFile(path);
  if (!file_.is_open() && errno == ENOENT) return;
  if (!file_.is_open()) throw files::system_error(path, "the cache folder must be readable");
  const int64_t bytes = file_.length();
  if (bytes < 0) throw files::system_error(path, "the cache folder must be on a healthy disk");
  find_records(static_cast<uint64_t>(bytes));
  if (!file_.map(end_))
    throw files::system_error(path, "it must be on a file system whose files can be mapped into memory");
}

void RecordStore::find_records(uint64_t file_bytes) {
  constexpr uint64_t kBlock = uint64_t{1} << 20;  // is read at once where the next header must be looked for
  HeaderReader reader(file_.fd(), path_, file_bytes);
  struct Start {
    char bytes[sizeof(FileHeader)];
  };
  const auto start = reader.at<Start>(0, 0);
  if (!start || files::bytes_of(*start) != files::bytes_of(FileHeader(kind_))) {
    problem_ = path_ + ": of another version or kind, or its start is damaged: " + std::string(kind_.remedy);
    return;
  }
  end_ = sizeof(FileHeader);
  uint64_t gaps = 0, damaged = 0;  // gaps between records are damage, one at the end is a tail
  for (uint64_t at = end_; at < file_bytes;) {
    const bool lost = at != end_;
    const auto header = reader.at<RecordHeader>(at, lost ? kBlock : 0);
    const uint64_t begin = at + sizeof(RecordHeader);
    if (!header || !header->is_right() || header->bytes > file_bytes ||
        padded(header->bytes) > file_bytes - begin) {
      if (!lost) ++gaps;
      at += kAlignment;
      continue;
    }
    damaged = gaps;
    add({header->key, begin, header->bytes, header->hash});
    at = end_ = begin + padded(header->bytes);
  }
  if (damaged > 0) {
    problem_ = damage_text(damaged);
  } else if (end_ < file_bytes) {
    problem_ = path_ + ": its end is not complete (a process was killed, or the disk was full): " +
               std::string(kind_.remedy);
  }
}

void RecordStore::add(const Record& record) {
  const auto [known, is_new] = by_key_.try_emplace(record.key, records_.size());
  if (is_new) records_.emplace_back();
  records_[known->second] = record;
}

std::string RecordStore::damage_text(uint64_t places) const {
  return path_ + ": damaged in " + std::to_string(places) + (places == 1 ? " place: " : " places: ") +
         std::string(kind_.remedy);
}

const Record* RecordStore::find(const Hash128& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &records_[found->second];
}

std::string_view RecordStore::bytes_of(const Record& record) const {
  const uint64_t begin = record.begin - sizeof(RecordHeader);
  return file_.bytes().substr(begin, record.end() - begin);
}

bool RecordStore::is_whole(const Record& record) const {
  if (!file_.is_all_there()) return false;
  const std::string_view bytes = bytes_of(record);
  const RecordHeader header(record.key, record.bytes, record.hash);
  return bytes.starts_with(files::bytes_of(header)) &&
         files::hash128(bytes.substr(sizeof header)) == record.hash;
}

void RecordStore::check(const Record& record) const {
  was_read(record);
  if (is_whole(record)) return;
  const std::string what = file_.is_all_there() ? "a record of it is not the one that was written"
                                                : "it has " + std::to_string(file_.length()) +
                                                      " bytes, and had at least " + std::to_string(end_);
  throw files::DataError(
      path_ + ": was changed while it is in use (" + what +
      "): stop what uses or changes it, remove it, and run again: " + std::string(kind_.remedy));
}

std::optional<std::string> load(const std::string& path, const Kind& kind, const Hash128& key,
                                bool& problem) {
  const RecordStore store(path, kind);
  const Record* record = store.find(key);
  const bool whole = record != nullptr && store.problem().empty() && store.is_whole(*record);
  problem = store.is_there() && !whole;
  return whole ? std::optional(std::string(store.payload(*record))) : std::nullopt;
}

void save(const std::string& path, const Kind& kind, const Hash128& key, std::string_view payload) {
  RecordWriter writer(path, kind);
  writer.append(make_record(key, payload));
  writer.replace();
}

RecordWriter::RecordWriter(const std::string& path, const Kind& kind) : file_(std::in_place, path) {
  append(files::bytes_of(FileHeader(kind)));
}

RecordWriter::RecordWriter(const RecordStore& store, const Kind& kind) {
  if (store.is_ours()) {
    file_.emplace(store.path(), store.end());
    return;
  }
  file_.emplace(store.path());
  append(files::bytes_of(FileHeader(kind)));
  replace();
}

bool is_mostly_other_than(const RecordStore& store, const Keys& keys) {
  uint64_t used = 0;
  for (const Record& record : store.records())
    used += keys.contains(record.key) ? store.bytes_of(record).size() : 0;
  const uint64_t unused = store.end() - used;
  return unused > kLeastUnused && unused > used;
}

void keep_only(RecordStore& store, const Kind& kind, const Keys& keys) {
  RecordWriter writer(store.path(), kind);
  for (const Record& record : store.records())
    if (keys.contains(record.key) && store.is_whole(record)) writer.append(store.bytes_of(record));
  writer.replace();
  store = RecordStore(std::string(store.path()), kind);
}

}  // namespace pipeline::stores
