#pragma once

#include <limits>

#include "core/base/error.hpp"
#include "core/checkpoint/file_system.hpp"

namespace pipeline::checkpoint {

// The real file system until operation number `fail_at` (0 is the first), which fails; a write then has
// already put half of its bytes on disk. `broken` makes all later ones fail, too: as if the process had been
// killed there.
class FaultyFileSystem : public FileSystem {
 public:
  uint64_t fail_at = std::numeric_limits<uint64_t>::max();
  bool broken = false;
  uint32_t code = PL_ERROR_NO_SPACE;
  uint64_t free = std::numeric_limits<uint64_t>::max();
  uint64_t operations = 0;
  bool can_link = true;

  std::unique_ptr<OutputFile> create(const std::string& path) override {
    step();
    return std::make_unique<FaultyFile>(*this, real().create(path));
  }
  void make_folder(const std::string& path) override { step(), real().make_folder(path); }
  void sync_folder(const std::string& path) override { step(), real().sync_folder(path); }
  bool link(const std::string& from, const std::string& to) override {
    step();
    return can_link && real().link(from, to);
  }
  void rename(const std::string& from, const std::string& to) override { step(), real().rename(from, to); }
  void remove(const std::string& path) override { step(), real().remove(path); }
  uint64_t free_bytes(const std::string&) override { return free; }

  bool failed() const { return operations > fail_at; }

 private:
  class FaultyFile : public OutputFile {
   public:
    FaultyFile(FaultyFileSystem& owner, std::unique_ptr<OutputFile> file)
        : owner_(owner), file_(std::move(file)) {}
    void write(std::span<const std::byte> bytes) override {
      try {
        owner_.step();
      } catch (...) {
        file_->write(bytes.first(bytes.size() / 2));
        throw;
      }
      file_->write(bytes);
    }
    void sync() override { owner_.step(), file_->sync(); }
    void close() override { owner_.step(), file_->close(); }

   private:
    FaultyFileSystem& owner_;
    std::unique_ptr<OutputFile> file_;
  };

  void step() {
    const uint64_t operation = operations++;
    if (operation == fail_at || (broken && operation > fail_at)) throw Error(code, "injected fault");
  }
};

}  // namespace pipeline::checkpoint
