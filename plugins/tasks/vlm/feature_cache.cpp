#include "plugins/tasks/vlm/feature_cache.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <filesystem>
#include <regex>

#include "plugins/data/files/error.hpp"

namespace pipeline::tasks::vlm {
namespace {

namespace fs = std::filesystem;
using files::Hash128;

constexpr stores::Kind kFeatures{
    .name = "PLVLFEAT", .version = 3, .remedy = "the pictures are encoded again"};
constexpr uint64_t kLeastFresh = uint64_t{1} << 23;  // bytes held in memory before the files are read again
constexpr uint64_t kFreshShare = 16;                 // and one more for so many in the files

// What stands before a record's values.
struct Head {
  int64_t dtype, squares, patches, hidden_size;
  int64_t width, height;  // of the picture
};

std::string packed(const llava::PictureFeatures& features) {
  const at::Tensor& squares = features.squares;
  const Head head{.dtype = static_cast<int64_t>(squares.scalar_type()),
                  .squares = squares.size(0),
                  .patches = squares.size(1),
                  .hidden_size = squares.size(2),
                  .width = features.width,
                  .height = features.height};
  std::string bytes(files::bytes_of(head));
  return bytes.append(static_cast<const char*>(squares.const_data_ptr()), squares.nbytes());
}

llava::PictureFeatures unpacked(std::string_view bytes) {
  Head head{};
  if (!files::take(bytes, head) || head.squares < 1 || head.patches < 1 || head.hidden_size < 1) return {};
  const auto dtype = static_cast<at::ScalarType>(head.dtype);
  if (dtype != at::kFloat && dtype != at::kBFloat16 && dtype != at::kHalf) return {};
  uint64_t left = bytes.size();  // memory is taken for what is there
  for (const int64_t size : {static_cast<int64_t>(c10::elementSize(dtype)), head.hidden_size, head.patches}) {
    if (left % static_cast<uint64_t>(size) != 0) return {};
    left /= static_cast<uint64_t>(size);
  }
  if (left != static_cast<uint64_t>(head.squares)) return {};
  llava::PictureFeatures features{.squares = at::empty({head.squares, head.patches, head.hidden_size}, dtype),
                                  .width = head.width,
                                  .height = head.height};
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(features.squares.mutable_data_ptr()));
  return features;
}

const std::regex& feature_names() {
  static const std::regex names(R"(vision-[0-9a-f]{32}-[0-9]+\.features(\.part|\.lock)?)");
  return names;
}

}  // namespace

std::string FeatureCache::path(size_t number) const {
  return (fs::path(options_.folder) /
          ("vision-" + encoder_.hex() + "-" + std::to_string(number) + ".features"))
      .string();
}

void FeatureCache::open(const Hash128& weights) {
  encoder_ = files::hash128(options_.settings + " " + weights.hex());
  try {
    open_mine();
  } catch (const files::DataError& error) {
    stop_keeping(error.what());
  }
  reopen();
  for (const stores::RecordStore& store : *stores_) files::mark_used(store.path());
  if (const std::string removed = files::remove_unused(options_.folder, feature_names()); !removed.empty())
    options_.note(removed);
  open_ = true;
}

// The first file that no other process writes.
void FeatureCache::open_mine() {
  size_t number = 0;
  for (; !lock_; ++number) try {
      lock_.emplace(path(number) + ".lock", nullptr, [] { return true; });
    } catch (const files::Cancelled&) {  // another has it
    }
  const stores::RecordStore mine(path(number - 1), kFeatures);
  if (!mine.problem().empty()) options_.note(mine.problem());
  writer_.emplace(mine, kFeatures);
}

void FeatureCache::stop_keeping(std::string_view problem) {
  writer_.reset();
  options_.warn("features of pictures are not kept from here on: " + std::string(problem));
}

void FeatureCache::reopen() {
  const std::lock_guard no_writing(files_mutex_);
  auto stores = std::make_shared<Stores>();
  for (size_t number = 0; fs::exists(path(number)); ++number) try {
      stores->emplace_back(path(number), kFeatures);
    } catch (const files::DataError& error) {
      options_.warn(error.what());
    }
  const std::lock_guard lock(mutex_);
  stores_ = std::move(stores);
  fresh_.clear();
  fresh_bytes_ = 0;
}

void FeatureCache::begin_epoch(uint64_t epoch) {
  if (open_ && epoch_.exchange(epoch) != epoch) reopen();
}

llava::PictureFeatures FeatureCache::find(const Hash128& picture) const {
  std::shared_ptr<const Stores> stores;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = fresh_.find(picture); found != fresh_.end()) return found->second;
    stores = stores_;
  }
  for (const stores::RecordStore& store : *stores) {
    const stores::Record* record = store.find(picture);
    if (record == nullptr || !store.is_whole(*record)) continue;
    store.was_read(*record);
    return unpacked(store.payload(*record));
  }
  return {};
}

void FeatureCache::put(const Hash128& picture, const llava::PictureFeatures& made) {
  Waiting mine{.picture = picture, .host = made, .copied = {}};
  const at::Tensor& features = made.squares;
  if (features.is_cpu()) {
    mine.host.squares = features.detach().clone();
  } else {
    mine.host.squares = at::empty(features.sizes(), features.options().device(at::kCPU).pinned_memory(true));
    mine.host.squares.copy_(features.detach(), /*non_blocking=*/true);
    mine.copied.emplace(features.device().type());
    mine.copied->record(c10::impl::VirtualGuardImpl(features.device().type()).getStream(features.device()));
  }
  waiting_.push_back(std::move(mine));
  for (; !waiting_.empty(); waiting_.pop_front()) {
    if (waiting_.front().copied && !waiting_.front().copied->query()) return;  // with a later one
    keep(waiting_.front());
  }
}

uint64_t FeatureCache::bytes() const {
  uint64_t sum = 0;
  std::error_code error;
  for (size_t number = 0;; ++number) {
    const uintmax_t bytes = fs::file_size(path(number), error);
    if (error) return sum;
    sum += bytes;
  }
}

void FeatureCache::keep(const Waiting& waiting) {
  bool many = false;
  {
    const std::lock_guard writing(files_mutex_);
    if (!writer_ || find(waiting.picture).squares.defined()) return;
    const std::string record = stores::make_record(waiting.picture, packed(waiting.host));
    const uint64_t written = bytes();
    if (written + record.size() > options_.most_bytes)
      return stop_keeping("there are " + files::megabytes(written) +
                          " of them, and task.vision.cache_bytes (" + files::megabytes(options_.most_bytes) +
                          ") are allowed");
    try {
      writer_->append(record);
    } catch (const files::DataError& error) {
      return stop_keeping(error.what());
    }
    const std::lock_guard lock(mutex_);
    fresh_.emplace(waiting.picture, waiting.host);
    fresh_bytes_ += record.size();
    many = fresh_bytes_ > kLeastFresh + written / kFreshShare;
  }
  if (many) reopen();
}

FeatureCache::~FeatureCache() {
  try {
    for (const Waiting& waiting : waiting_) {
      if (waiting.copied) waiting.copied->synchronize();
      keep(waiting);
    }
  } catch (const std::exception& error) {  // a device that has failed, and more has been said about it
    options_.warn("the last features of pictures are not kept: " + std::string(error.what()));
  }
  if (found_ + made_ > 0)
    options_.note("pictures   " + std::to_string(found_) + " times from the cache of features, " +
                  std::to_string(made_) + " times encoded; " + files::megabytes(bytes()) + " in " + path(0));
}

}  // namespace pipeline::tasks::vlm
