#include "plugins/tasks/summarization/data/token_cache_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

#include "plugins/tasks/common/files/bytes_of.hpp"
#include "plugins/tasks/summarization/data/files.hpp"

namespace pipeline::summarization {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr const char* kRemedy = "check the free space and the permissions of the cache folder";

using files::bytes_of;

}  // namespace

HashedFile::HashedFile(const std::string& path)
    : path_(path), fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (fd_ < 0) throw system_error(path, kRemedy);
  buffer_.reserve(kBufferBytes);
}

HashedFile::~HashedFile() { ::close(fd_); }

void HashedFile::write(std::string_view bytes) {
  size_ += bytes.size();
  hasher_.update(bytes);
  buffer_ += bytes;
  if (buffer_.size() >= kBufferBytes) flush();
}

void HashedFile::flush() {
  for (std::string_view rest = buffer_; !rest.empty();) {
    const ssize_t put = ::write(fd_, rest.data(), rest.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw system_error(path_, kRemedy);
    rest.remove_prefix(static_cast<size_t>(put));
  }
  buffer_.clear();
}

void HashedFile::append_file(HashedFile& other) {
  other.flush();
  std::string block(kBufferBytes, '\0');
  for (uint64_t at = 0; at < other.size_;) {
    const ssize_t got = ::pread(other.fd_, block.data(), block.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error(other.path_, kRemedy);
    if (got == 0) throw DataError(other.path_ + ": cut off while it was in use: " + kRemedy);
    write(std::string_view(block).substr(0, static_cast<size_t>(got)));
    at += static_cast<uint64_t>(got);
  }
}

void HashedFile::overwrite_start(std::string_view bytes) {
  flush();
  if (::pwrite(fd_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw system_error(path_, kRemedy);
}

void HashedFile::sync() {
  flush();
  if (::fsync(fd_) != 0) throw system_error(path_, kRemedy);
}

TokenCacheWriter::TokenCacheWriter(const std::string& path, const Hash128& key, uint32_t vocabulary_size)
    : vocabulary_size_(vocabulary_size), file_(path), index_(path + ".index"), ids_(path + ".ids") {
  // The two beside it need no name: they vanish with this process, however it ends.
  ::unlink((path + ".index").c_str());
  ::unlink((path + ".ids").c_str());
  std::memcpy(header_.magic, kCacheMagic, sizeof kCacheMagic);
  header_.version = kCacheVersion;
  header_.token_bytes = vocabulary_size <= uint32_t{std::numeric_limits<uint16_t>::max()} + 1 ? 2 : 4;
  header_.key = key;
  file_.write(bytes_of(header_));
  file_.restart_hash();
}

void TokenCacheWriter::write_tokens(std::span<const int32_t> tokens) {
  const auto outside = std::find_if(tokens.begin(), tokens.end(), [&](int32_t token) {
    return token < 0 || static_cast<uint32_t>(token) >= vocabulary_size_;
  });
  if (outside != tokens.end()) {
    throw DataError("the tokenizer gave token " + std::to_string(*outside) + ", its vocabulary has " +
                    std::to_string(vocabulary_size_) + ": the tokenizer's files do not belong together");
  }
  if (header_.token_bytes == 4) {
    file_.write({reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()});
  } else {
    narrow_.resize(tokens.size());
    std::transform(tokens.begin(), tokens.end(), narrow_.begin(),
                   [](int32_t token) { return static_cast<uint16_t>(token); });
    file_.write({reinterpret_cast<const char*>(narrow_.data()), narrow_.size() * sizeof(uint16_t)});
  }
  header_.tokens += tokens.size();
}

void TokenCacheWriter::add(std::span<const int32_t> document, std::span<const int32_t> summary,
                           std::string_view id, uint64_t line) {
  const CacheEntry entry{header_.tokens, static_cast<uint32_t>(document.size()),
                         static_cast<uint32_t>(summary.size()), ids_.size(), line};
  write_tokens(document);
  write_tokens(summary);
  index_.write(bytes_of(entry));
  ids_.write(id);
  ++header_.samples;
}

void TokenCacheWriter::finish(const PairReport& report) {
  file_.write(
      std::string((alignof(CacheEntry) - file_.size() % alignof(CacheEntry)) % alignof(CacheEntry), '\0'));
  index_.write(bytes_of(CacheEntry{header_.tokens, 0, 0, ids_.size(), 0}));
  header_.tokens_hash = file_.hash();
  file_.restart_hash();
  header_.index_begin = file_.size();
  file_.append_file(index_);
  header_.ids_begin = file_.size();
  file_.append_file(ids_);
  header_.report_begin = file_.size();
  file_.write(report.to_json());
  header_.file_bytes = file_.size();
  header_.tables_hash = file_.hash();
  header_.header_hash = hash128(bytes_of(header_).substr(0, offsetof(CacheHeader, header_hash)));
  file_.overwrite_start(bytes_of(header_));
  file_.sync();
}

}  // namespace pipeline::summarization
