#include "plugins/data/record_store/record_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "plugins/data/files/error.hpp"
#include "plugins/data/files/hash128.hpp"
#include "plugins/data/files/regular_file.hpp"

namespace pipeline::records {
namespace {

constexpr const char* kRemedy = "check the free space and the permissions of the cache folder";
constexpr uint64_t kLeastUnused = uint64_t{1} << 20;  // bytes: less is not worth a new file

std::string part_of(const std::string& path) { return path + ".part"; }

void sync_folder(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);  // not every file system can; the rename itself has succeeded
  ::close(fd);
}

}  // namespace

RecordWriter::RecordWriter(const std::string& path, const Kind& kind) : path_(path), kind_(kind) { start(); }

RecordWriter::RecordWriter(const RecordStore& store, const Kind& kind) : path_(store.path()), kind_(kind) {
  if (!store.is_ours()) {
    start();
    replace();
    return;
  }
  end_ = store.end();
  fd_ = files::open_regular(path_, O_RDWR);
  if (fd_ >= 0 && ::ftruncate(fd_, static_cast<off_t>(end_)) == 0) return;
  const files::DataError error = files::system_error(path_, kRemedy);
  close();
  throw error;
}

RecordWriter::~RecordWriter() { close(); }

void RecordWriter::close() {
  if (fd_ >= 0) ::close(fd_);
  if (is_part_) ::unlink(part_of(path_).c_str());
  fd_ = -1;
  is_part_ = false;
}

void RecordWriter::start() {
  fd_ = files::open_regular(part_of(path_), O_RDWR | O_CREAT | O_TRUNC, "remove it");
  if (fd_ < 0) throw files::system_error(part_of(path_), kRemedy);
  is_part_ = true;
  try {
    append(files::bytes_of(FileHeader(kind_)));
  } catch (...) {
    close();
    throw;
  }
}

void RecordWriter::replace() {
  sync();
  if (::rename(part_of(path_).c_str(), path_.c_str()) != 0) {
    const files::DataError error = files::system_error(path_, kRemedy);
    close();  // for the constructor, which no destructor follows
    throw error;
  }
  is_part_ = false;
  sync_folder(path_);
}

void RecordWriter::append(std::string_view bytes) {
  uint64_t at = end_;
  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t put = ::pwrite(fd_, rest.data(), rest.size(), static_cast<off_t>(at));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      const files::DataError error = files::system_error(path_, kRemedy);
      // Where that fails, too, the next writer cuts it off.
      [[maybe_unused]] const int ignored = ::ftruncate(fd_, static_cast<off_t>(end_));
      throw error;
    }
    rest.remove_prefix(static_cast<size_t>(put));
    at += static_cast<uint64_t>(put);
  }
  end_ = at;
}

void RecordWriter::sync() {
  if (::fsync(fd_) != 0) throw files::system_error(path_, kRemedy);
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

}  // namespace pipeline::records
