#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "plugins/tasks/protein/data/structure_cache.hpp"

namespace pipeline::protein {

// Appends records to a cache file. One process at a time: the caller holds a lock. Others may be reading the file, or have it mapped up
// to the last record that was whole when they opened it; that part never changes.
class StructureCacheWriter {
 public:
  // `cache`: the file as it is now. Makes a new file where there is none or one of another kind, and cuts off a tail that is not whole.
  // Throws DataError.
  StructureCacheWriter(const std::string& path, const StructureCache& cache);
  ~StructureCacheWriter();
  StructureCacheWriter(const StructureCacheWriter&) = delete;
  StructureCacheWriter& operator=(const StructureCacheWriter&) = delete;

  void append(std::string_view record);  // from make_record(). A record that does not fit on the disk leaves nothing behind
  void sync();                           // waits until all is on the disk

  // Puts a file with those records of `cache` that are whole and wanted in its place: those who have it mapped keep the old one. Throws
  // DataError.
  static void rewrite(const std::string& path, const StructureCache& cache, const std::function<bool(const CacheRecord&)>& wanted);

 private:
  StructureCacheWriter() = default;
  void write_new(const std::function<void()>& fill);
  void open_at(uint64_t end);
  void write(std::string_view bytes);

  std::string path_;
  int fd_ = -1;
  uint64_t end_ = 0;
};

}  // namespace pipeline::protein
