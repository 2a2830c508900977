#include "core/checkpoint/average.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/base/error.hpp"
#include "core/checkpoint/store.hpp"

namespace pipeline::checkpoint {
namespace {

constexpr uint64_t kElements = uint64_t{1} << 20;  // in memory at once

}  // namespace

Average Average::before(Checkpoint last, uint64_t count) {
  const std::string folder = std::filesystem::path(last.path()).parent_path().string(), path = last.path();
  std::vector<Checkpoint> of;
  of.push_back(std::move(last));
  const uint64_t step = of.front().contents().step;
  const Scan scan = Store({.folder = folder.empty() ? "." : folder}).scan();
  for (const Found& found : scan.checkpoints) {
    if (of.size() == count) break;
    if (found.step >= step) continue;
    of.push_back(Checkpoint::open(found.path));
    of.back().verify();
  }
  if (of.size() < count)
    throw Error(PL_ERROR_CONFIG,
                "--average " + std::to_string(count) + ": there are " + std::to_string(of.size()) +
                    " checkpoints up to " + path +
                    ": average as many, or keep more in the next run (checkpoint.keep, checkpoint.every)");
  return Average(std::move(of));
}

void Average::read(const pl_piece& request, void* destination) const {
  auto* out = static_cast<float*>(destination);
  std::vector<float> values;
  std::vector<double> sum;
  pl_piece piece = request;
  for (uint64_t done = 0; done < request.count; done += piece.count) {
    piece.offset = request.offset + done;
    piece.count = std::min(kElements, request.count - done);
    values.resize(piece.count);
    sum.assign(piece.count, 0);
    for (const Checkpoint& one : of_) {
      one.read(piece, values.data());
      for (uint64_t i = 0; i < piece.count; ++i) sum[i] += static_cast<double>(values[i]);
    }
    for (uint64_t i = 0; i < piece.count; ++i)
      out[done + i] = static_cast<float>(sum[i] / static_cast<double>(of_.size()));
  }
}

}  // namespace pipeline::checkpoint
