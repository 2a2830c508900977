#include "plugins/data/structures/structure_library.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "plugins/data/files/cache_folder.hpp"
#include "plugins/data/files/ordered_work.hpp"
#include "plugins/data/stores/record_store.hpp"
#include "plugins/data/structures/structure_record.hpp"

namespace pipeline::structures {
namespace {

// Bytes for the files that are being read; larger ones are read one at a time.
constexpr uint64_t kMemory = uint64_t{1} << 30;

bool is_forbidden(int code) { return code == EACCES || code == EPERM || code == EROFS; }

class Builder {
 public:
  Builder(const InputFiles& inputs, const LibraryOptions& options, const files::Hooks& hooks)
      : inputs_(inputs),
        options_(options),
        hooks_(hooks),
        cache_path_(structures_path(options.cache_dir)),
        index_path_(FileIndex::path_in(options.cache_dir, inputs.root)) {}

  Built build() {
    find_known();
    if (!pending_.empty()) {
      try {
        work_under_lock();
      } catch (const files::DataError& error) {
        if (!is_forbidden(error.code())) throw;
        go_on_without_writing(error);
      }
    } else {
      hooks_.tell(built_.cache.problem());
      if (has_upkeep()) keep_up_if_free();
    }
    mark_used();
    return std::move(built_);
  }

 private:
  std::string lock_path() const { return (std::filesystem::path(options_.cache_dir) / kLockName).string(); }
  void mark_used() const {
    for (const auto& path : {cache_path_, index_path_}) files::mark_used(path);
  }

  // Looks up what index and cache know as they are now; the rest is pending.
  void find_known() {
    hooks_.throw_if_cancelled();
    stamp_ = stamp();
    index_ = FileIndex(index_path_);
    built_ = {};
    built_.cache = stores::RecordStore(cache_path_, kStructures);
    built_.outcomes.resize(inputs_.files.size());
    pending_.clear();
    for (size_t i = 0; i < inputs_.files.size(); ++i) {
      const InputFile& file = inputs_.files[i];
      const FileIndex::Entry* entry = index_.find(file.relative, file.state);
      if (entry != nullptr && !holds(*entry, file, options_.limits)) entry = nullptr;
      if (entry != nullptr && (!entry->is_read() || is_in_cache(entry->is.hash)))
        built_.outcomes[i] = *entry;
      else
        pending_.push_back(i);
    }
  }

  bool is_in_cache(const files::Hash128& key) const {
    const stores::Record* record = built_.cache.find(key);
    return record != nullptr && StoredFile::of(built_.cache, *record).has_value();
  }

  // When these are the same, so is what find_known() would find.
  struct Stamp {
    FileState cache, index;
    bool operator==(const Stamp&) const = default;
  };
  Stamp stamp() const {
    const auto state = [](const std::string& path) {
      struct stat status {};
      return ::stat(path.c_str(), &status) == 0 ? FileState(status) : FileState();
    };
    return {state(cache_path_), state(index_path_)};
  }

  void work_under_lock() {
    if (::access(options_.cache_dir.c_str(), W_OK) != 0 && errno != ENOENT)
      throw files::system_error(options_.cache_dir, "the cache folder must be writable");
    const files::FileLock lock(
        lock_path(),
        [&] {
          hooks_.tell("waiting for another process that is reading structures into " + options_.cache_dir);
        },
        hooks_.cancelled);
    remove_left_over_parts(options_.cache_dir);
    if (stamp() != stamp_) find_known();  // whoever held the lock has most likely done it
    hooks_.tell(built_.cache.problem());
    hooks_.tell(index_.problem());
    if (!pending_.empty()) read_pending();
  }

  // What the index says of the files that are there and need not be read.
  FileIndex index_of_known() const {
    FileIndex index;
    for (size_t i = 0, next = 0; i < inputs_.files.size(); ++i) {
      if (next < pending_.size() && pending_[next] == i) {
        ++next;
      } else {
        index.set(inputs_.files[i].relative, *index_.find(inputs_.files[i].relative, inputs_.files[i].state));
      }
    }
    return index;
  }

  void read_pending() {
    FileIndex index = index_of_known();
    stores::RecordWriter writer(built_.cache, kStructures);
    stores::Keys appended;
    uint64_t damaged = 0;  // records that were looked for and are not whole
    const auto take = [&](size_t done, ReadResult&& result) {
      const InputFile& file = inputs_.files[pending_[done]];
      if (result.entry.is_read()) ++built_.read;
      if (!result.record.empty()) {
        ++built_.parsed;
        damaged += result.is_damaged ? 1 : 0;
        if (appended.insert(result.entry.is.hash).second) writer.append(result.record);
      }
      if (result.lasting) index.set(file.relative, result.entry);
      built_.outcomes[pending_[done]] = std::move(result.entry);
      hooks_.report(done + 1, pending_.size());
      hooks_.throw_if_cancelled();
    };
    MemoryBudget budget(kMemory);
    const auto work = [&](size_t i) {
      return read_file(inputs_.files[pending_[i]], options_.limits, built_.cache, budget);
    };
    try {
      files::run_in_order<ReadResult>(pending_.size(), hooks_.threads, work, take,
                                      [&] { hooks_.throw_if_cancelled(); });
    } catch (const files::Cancelled&) {
      writer.sync();
      index.save(index_path_);  // so that the next call goes on where this one ended
      throw;
    }
    writer.sync();
    index.save(index_path_);
    if (damaged > 0) hooks_.tell(built_.cache.damage_text(damaged));
    built_.cache = stores::RecordStore(cache_path_, kStructures);
    keep_up(damaged > 0);
  }

  CacheUse use() const {
    CacheUse use{options_.cache_dir, index_path_, {}};
    for (const FileIndex::Entry& outcome : built_.outcomes)
      if (outcome.is_read()) use.keys.insert(outcome.is.hash);
    return use;
  }

  // To be called under the lock.
  void keep_up(bool damaged) {
    mark_used();
    hooks_.tell(files::remove_unused(options_.cache_dir, removable_names()));
    hooks_.tell(keep_what_is_used(use(), damaged || !built_.cache.problem().empty(), built_.cache));
  }

  // Whether there is anything to do although no file is new: files went, a process ended before it was done.
  bool has_upkeep() const {
    return !built_.cache.problem().empty() || has_gone_files() ||
           !left_over_parts(options_.cache_dir).empty() || is_mostly_unused(built_.cache, use());
  }
  // Every file that is there is known.
  bool has_gone_files() const { return index_.entries().size() > inputs_.files.size(); }

  // Upkeep can be left out: another process that is at work does it, and who may not write goes without.
  void keep_up_if_free() {
    try {
      const files::FileLock lock(lock_path(), nullptr, [] { return true; });
      if (stamp() != stamp_) return;  // somebody has just done it
      remove_left_over_parts(options_.cache_dir);
      if (has_gone_files()) index_of_known().save(index_path_);
      keep_up(false);
    } catch (const files::Cancelled&) {
    } catch (const files::DataError& error) {
      if (!is_forbidden(error.code())) hooks_.tell(error.what());
    }
  }

  // The cache folder serves those, too, who may only read it.
  void go_on_without_writing(const files::DataError& error) {
    find_known();
    const std::string why = std::generic_category().message(error.code());
    uint64_t left_out = 0;
    for (const size_t i : pending_) {
      hooks_.throw_if_cancelled();
      FileIndex::Entry& outcome = built_.outcomes[i];
      try {
        outcome.is.hash = files::hash128(read_content(inputs_.files[i].path, options_.limits).bytes);
        if (is_in_cache(outcome.is.hash)) continue;
        outcome.reason = "not in the cache, to which nothing can be added: " + why;
        ++left_out;
      } catch (const ReadError& reason) {
        outcome.reason = reason.what();
      }
    }
    if (left_out == pending_.size() && pending_.size() == inputs_.files.size()) throw error;
    if (left_out > 0) {
      hooks_.tell(options_.cache_dir + ": " + why + ": " + std::to_string(left_out) +
                  (left_out == 1 ? " file that is" : " files that are") +
                  " new or changed cannot be kept there and " + (left_out == 1 ? "is" : "are") + " left out");
    }
  }

  const InputFiles& inputs_;
  const LibraryOptions& options_;
  const files::Hooks& hooks_;
  const std::string cache_path_, index_path_;
  FileIndex index_;
  Built built_;
  Stamp stamp_;                  // before these were read
  std::vector<size_t> pending_;  // of inputs_.files, ascending
};

}  // namespace

Built build_library(const InputFiles& inputs, const LibraryOptions& options, const files::Hooks& hooks) {
  return Builder(inputs, options, hooks).build();
}

}  // namespace pipeline::structures
