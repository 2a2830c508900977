// What a frozen vision encoder made of pictures, for the next epoch, stage and run, and other processes.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include "plugins/data/files/cache_folder.hpp"
#include "plugins/data/stores/record_store.hpp"
#include "plugins/models/llava/vlm.hpp"

namespace pipeline::tasks::vlm {

// Files of records, one for each process that writes at the same time, named after the encoder: of its
// weights, how it computes, and how it is given pictures. All of them are read. What is damaged, or was cut
// off when a process was killed, is as if it were not there. Where nothing can be written, nothing is kept.
class FeatureCache : public llava::FeatureStore {
 public:
  struct Options {
    std::string folder;
    std::string settings;     // all that the features depend on besides picture and weights
    uint64_t most_bytes = 0;  // in all files of one encoder
    std::function<void(const std::string&line)> note, warn;
  };
  explicit FeatureCache(Options options) : options_(std::move(options)) {}
  ~FeatureCache() override;  // says how many pictures it had

  // From now on there is something to be found and kept. [main]
  void open(const files::Hash128& weights) override;
  bool is_open() const override { return open_; }
  // What other processes have written until now is found, too. [any-thread]
  void begin_epoch(uint64_t epoch);

  // The features, on the CPU; with squares undefined if they are not there. [any-thread]
  llava::PictureFeatures find(const files::Hash128& picture) const override;
  // Takes features that are on a device, once that has computed them. [main]
  void put(const files::Hash128& picture, const llava::PictureFeatures& features) override;
  // Counts for the log. [main]
  void count(uint64_t found, uint64_t made) override { found_ += found, made_ += made; }

 private:
  using Stores = std::vector<stores::RecordStore>;
  struct Waiting {
    files::Hash128 picture;
    llava::PictureFeatures host;
    std::optional<c10::Event> copied;
  };

  std::string path(size_t number) const;
  void open_mine();
  void reopen();
  uint64_t bytes() const;
  void keep(const Waiting& waiting);
  void stop_keeping(std::string_view problem);

  const Options options_;
  files::Hash128 encoder_;
  std::atomic<bool> open_ = false;
  std::atomic<uint64_t> epoch_ = 0;
  uint64_t found_ = 0, made_ = 0;
  std::deque<Waiting> waiting_;

  std::mutex files_mutex_;  // guards the next two
  std::optional<files::FileLock> lock_;
  std::optional<stores::RecordWriter> writer_;

  mutable std::mutex mutex_;  // guards the others
  std::shared_ptr<const Stores> stores_ = std::make_shared<Stores>();
  std::unordered_map<files::Hash128, llava::PictureFeatures> fresh_;  // written since reopen()
  uint64_t fresh_bytes_ = 0;
};

}  // namespace pipeline::tasks::vlm
