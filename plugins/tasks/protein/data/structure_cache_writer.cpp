#include "plugins/tasks/protein/data/structure_cache_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>

#include "plugins/tasks/common/files/error.hpp"
#include "plugins/tasks/protein/data/structure_directory.hpp"
#include "plugins/tasks/protein/data/structure_reader.hpp"

namespace pipeline::protein {
namespace {

constexpr const char* kRemedy = "check the free space and the permissions of the cache folder";

std::string file_header() {
  CacheFileHeader header{};
  std::memcpy(header.magic, kCacheMagic, sizeof kCacheMagic);
  header.version = kCacheVersion;
  header.parser_version = kParserVersion;
  std::random_device random;
  const auto half = [&] { return uint64_t{random()} << 32 | random(); };
  header.id = {half(), half()};
  header.hash = files::hash128({reinterpret_cast<const char*>(&header), offsetof(CacheFileHeader, hash)});
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

}  // namespace

StructureCacheWriter::StructureCacheWriter(const std::string& path, const StructureCache& cache) : path_(path) {
  try {
    if (cache.is_ours()) {
      // One that knows more than there is would be right again by its size only, once there is more.
      if (!cache.has_directory()) ::unlink(StructureDirectory::path_of(path).c_str());
      open_at(cache.end());
    } else {
      write_new([] {});
    }
  } catch (...) {
    if (fd_ >= 0) ::close(fd_);
    throw;
  }
}

StructureCacheWriter::~StructureCacheWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void StructureCacheWriter::rewrite(const std::string& path, const StructureCache& cache,
                                   const std::function<bool(const CacheRecord&)>& wanted) {
  StructureCacheWriter writer;
  writer.path_ = path;
  writer.write_new([&] {
    for (const CacheRecord& record : cache.records()) {
      if (wanted(record) && cache.is_whole(record)) writer.append(cache.bytes_of(record));
    }
  });
}

void StructureCacheWriter::open_at(uint64_t end) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(end)) != 0) throw files::system_error(path_, kRemedy);
  end_ = end;
}

// Under another name first, so that those who have the old one mapped keep it, and that a process that ends on the way leaves it there.
void StructureCacheWriter::write_new(const std::function<void()>& fill) {
  const std::string part = path_ + ".part";
  fd_ = ::open(part.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) throw files::system_error(part, kRemedy);
  try {
    write(file_header());
    fill();
    sync();
    if (::rename(part.c_str(), path_.c_str()) != 0) throw files::system_error(path_, kRemedy);
  } catch (...) {
    ::unlink(part.c_str());
    throw;
  }
}

void StructureCacheWriter::write(std::string_view bytes) {
  uint64_t at = end_;
  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t put = ::pwrite(fd_, rest.data(), rest.size(), static_cast<off_t>(at));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      const files::DataError error = files::system_error(path_, kRemedy);
      [[maybe_unused]] const int ignored = ::ftruncate(fd_, static_cast<off_t>(end_));  // if not, the next writer cuts it off
      throw error;
    }
    rest.remove_prefix(static_cast<size_t>(put));
    at += static_cast<uint64_t>(put);
  }
  end_ = at;
}

void StructureCacheWriter::append(std::string_view record) { write(record); }

void StructureCacheWriter::sync() {
  if (::fsync(fd_) != 0) throw files::system_error(path_, kRemedy);
}

}  // namespace pipeline::protein
