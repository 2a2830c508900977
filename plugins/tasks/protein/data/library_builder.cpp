#include "plugins/tasks/protein/data/library_builder.hpp"

#include <chrono>
#include <filesystem>
#include <optional>
#include <unordered_set>

#include "plugins/tasks/common/files/file_lock.hpp"
#include "plugins/tasks/common/files/unused.hpp"
#include "plugins/tasks/protein/data/cache_names.hpp"
#include "plugins/tasks/protein/data/file_index.hpp"
#include "plugins/tasks/protein/data/ordered_workers.hpp"
#include "plugins/tasks/protein/data/structure_cache_writer.hpp"
#include "plugins/tasks/protein/data/structure_reader.hpp"

namespace pipeline::protein {
namespace {

struct ReadResult {
  FileOutcome outcome;
  files::FileState state;
  bool settled = false;  // a later change will show in the state
  std::string record;    // to be appended; empty if the cache has the key, or there is none
};

int64_t now() { return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// [any-thread]
ReadResult read_file(const InputFile& file, const ReadLimits& limits, const StructureCache& cache) {
  ReadResult result;
  const int64_t begin = now();
  try {
    const FileContent content = read_content(file.path, limits);
    const files::Hash128 key = files::hash128(content.bytes);
    if (cache.find(key) == nullptr) {
      try {
        result.record = make_record(key, parse_structure(content.bytes, limits));
      } catch (const ReadError&) {
        throw;
      } catch (const files::DataError& error) {
        result.record = make_record(key, std::string(error.what()));
      }
    }
    result.state = content.state;
    result.settled = content.state.settled_at(begin);
    result.outcome = {true, key, ""};
  } catch (const ReadError& error) {
    result.outcome.reason = error.what();
  } catch (const std::bad_alloc&) {
    result.outcome.reason = "needs more memory than there is";
  }
  return result;
}

class Builder {
 public:
  Builder(const InputFiles& inputs, const LibraryOptions& options, const LibraryHooks& hooks)
      : inputs_(inputs),
        options_(options),
        hooks_(hooks),
        cache_path_(StructureCache::path_in(options.cache_dir)),
        index_path_(FileIndex::path_in(options.cache_dir, inputs.root)) {}

  Built build() {
    find_known();
    if (!pending_.empty()) {
      std::filesystem::create_directories(options_.cache_dir);
      const files::FileLock lock((std::filesystem::path(options_.cache_dir) / kLockName).string(),
                                 [&] { note("waiting for another process that is reading structures into " + options_.cache_dir); },
                                 hooks_.cancelled);
      find_known();  // whoever held the lock has most likely done it
      note(built_.cache.problem());
      note(index_.problem());
      if (!pending_.empty()) read_pending();
    } else {
      note(built_.cache.problem());
    }
    files::mark_used(cache_path_);
    files::mark_used(index_path_);
    return std::move(built_);
  }

 private:
  void note(const std::string& line) const {
    if (hooks_.note && !line.empty()) hooks_.note(line);
  }
  void check_cancelled() const {
    if (hooks_.cancelled && hooks_.cancelled()) throw files::Cancelled();
  }

  // What index and cache know as they are now; the rest is pending.
  void find_known() {
    check_cancelled();
    index_ = FileIndex(index_path_);
    built_.cache = StructureCache(cache_path_);
    built_.outcomes.assign(inputs_.files.size(), {});
    pending_.clear();
    for (size_t i = 0; i < inputs_.files.size(); ++i) {
      const files::Hash128* key = index_.find(inputs_.files[i].relative, inputs_.files[i].state);
      if (key != nullptr && built_.cache.find(*key) != nullptr) {
        built_.outcomes[i] = {true, *key, ""};
      } else {
        pending_.push_back(i);
      }
    }
  }

  void read_pending() {
    FileIndex index;
    for (size_t i = 0; i < inputs_.files.size(); ++i) {
      if (built_.outcomes[i].has_key) index.set(inputs_.files[i].relative, inputs_.files[i].state, built_.outcomes[i].key);
    }
    StructureCacheWriter writer(cache_path_, built_.cache);
    std::unordered_set<files::Hash128, KeyHash> appended;
    const auto take = [&](size_t done, ReadResult&& result) {
      const InputFile& file = inputs_.files[pending_[done]];
      if (result.outcome.has_key) ++built_.read;
      if (!result.record.empty()) {
        ++built_.parsed;
        if (appended.insert(result.outcome.key).second) writer.append(result.record);
      }
      if (result.outcome.has_key && result.settled) index.set(file.relative, result.state, result.outcome.key);
      built_.outcomes[pending_[done]] = std::move(result.outcome);
      if (hooks_.progress) hooks_.progress(done + 1, pending_.size());
      check_cancelled();
    };
    const auto work = [&](size_t i) { return read_file(inputs_.files[pending_[i]], options_.limits, built_.cache); };
    try {
      run_in_order<ReadResult>(pending_.size(), hooks_.threads, work, take, [&] { check_cancelled(); });
    } catch (const files::Cancelled&) {
      writer.sync();
      index.save(index_path_);  // so that the next call goes on where this one ended
      throw;
    }
    writer.sync();
    index.save(index_path_);
    built_.cache = StructureCache(cache_path_);
    note(files::remove_unused(options_.cache_dir, removable_names()));
  }

  const InputFiles& inputs_;
  const LibraryOptions& options_;
  const LibraryHooks& hooks_;
  const std::string cache_path_, index_path_;
  FileIndex index_;
  Built built_;
  std::vector<size_t> pending_;  // of inputs_.files
};

}  // namespace

Built build_library(const InputFiles& inputs, const LibraryOptions& options, const LibraryHooks& hooks) try {
  return Builder(inputs, options, hooks).build();
} catch (const std::filesystem::filesystem_error& error) {
  throw files::DataError(std::string(error.what()) + ": check that the cache folder can be written", error.code().value());
}

}  // namespace pipeline::protein
