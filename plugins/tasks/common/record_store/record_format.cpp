#include "plugins/tasks/common/record_store/record_format.hpp"

#include <algorithm>
#include <cstring>

#include "plugins/tasks/common/files/hash128.hpp"

namespace pipeline::records {
namespace {

using files::bytes_of;

constexpr char kFileMagic[] = "PLRECOR1";
constexpr uint64_t kRecordMagic = 0x5245434f5244ab03;

template <class Header>
uint64_t hash_before(const Header& header, size_t offset) {
  return files::hash128(bytes_of(header).substr(0, offset)).low;
}

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

}  // namespace pipeline::records
