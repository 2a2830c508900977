#include "plugins/strategies/ddp/equal_start.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "plugins/strategies/common/collective.hpp"

namespace pipeline::strategies {
namespace {

constexpr int64_t kPiece = int64_t{1} << 22;  // elements that are looked at, and copied to the host, at once
constexpr size_t kLanes = 8;  // independent of each other, so that a processor can overlap them

// A hash of bytes in which every bit and its place matter.
class Checksum {
 public:
  void add(const std::byte* data, size_t bytes) {
    size_t at = 0;
    for (; at + kLanes * sizeof(uint64_t) <= bytes; at += kLanes * sizeof(uint64_t)) {
      for (size_t lane = 0; lane < kLanes; ++lane) mix(lanes_[lane], data + at + lane * sizeof(uint64_t), 8);
    }
    for (; at < bytes; at += sizeof(uint64_t)) mix(lanes_[0], data + at, std::min<size_t>(8, bytes - at));
  }
  int64_t value() const {
    uint64_t sum = 0;
    for (const uint64_t lane : lanes_) sum = std::rotl(sum ^ lane, 23) * kFactor;
    return static_cast<int64_t>(sum);
  }

 private:
  static constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;  // odd: no bit is lost

  static void mix(uint64_t& lane, const std::byte* data, size_t bytes) {
    uint64_t word = 0;
    std::memcpy(&word, data, bytes);
    lane = std::rotl(lane ^ word, 23) * kFactor;
  }

  std::array<uint64_t, kLanes> lanes_{};
};

int64_t checksum(const std::vector<at::Tensor>& tensors) {
  Checksum sum;
  for (const at::Tensor& tensor : tensors) {
    for (int64_t begin = 0; begin < tensor.numel(); begin += kPiece) {
      const at::Tensor piece = tensor.narrow(0, begin, std::min(kPiece, tensor.numel() - begin)).cpu();
      sum.add(static_cast<const std::byte*>(piece.const_data_ptr()), piece.nbytes());
    }
  }
  return sum.value();
}

}  // namespace

void broadcast(const Communicator& group, const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() > 0) group.broadcast(to_buffer(tensor), 0).wait();
  }
}

void require_equal(const Communicator& group, const std::vector<at::Tensor>& tensors) {
  const auto device = tensors.front().device();
  const at::Tensor mine =
      at::full({1}, checksum(tensors), at::TensorOptions().dtype(at::kLong).device(device));
  const at::Tensor all = at::empty({group.world_size()}, mine.options());
  group.all_gather(to_buffer(mine), to_buffer(all)).wait();
  const at::Tensor sums = all.cpu();
  for (int64_t rank = 1; rank < sums.numel(); ++rank) {
    if (sums[rank].item<int64_t>() == sums[0].item<int64_t>()) continue;
    fail("rank ", rank, " holds other weights or another optimizer state than rank 0 (checksum ",
         sums[rank].item<int64_t>(), ", expected ", sums[0].item<int64_t>(),
         "), although they were just sent to it: the network or that host's memory is at fault");
  }
}

}  // namespace pipeline::strategies
