#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "plugins/strategies/common/collective.hpp"
#include "plugins/strategies/common/replica.hpp"
#include "plugins/strategies/ddp/reductions.hpp"

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

// Sends rank 0's tensors to all ranks. One-dimensional, contiguous, the same shapes on all.
void broadcast(const Communicator& group, const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() > 0) group.broadcast(to_buffer(tensor, "state of rank 0"), 0).wait();
  }
}

// Throws Error, on all ranks and with the ranks' numbers, unless the tensors are the same bits everywhere.
void require_equal(const Communicator& group, const std::vector<at::Tensor>& tensors) {
  const auto device = tensors.front().device();
  const at::Tensor mine =
      at::full({1}, checksum(tensors), at::TensorOptions().dtype(at::kLong).device(device));
  const at::Tensor all = at::empty({group.world_size()}, mine.options());
  group.all_gather(to_buffer(mine, "checksums"), to_buffer(all)).wait();
  const at::Tensor sums = all.cpu();
  for (int64_t rank = 1; rank < sums.numel(); ++rank) {
    if (sums[rank].item<int64_t>() == sums[0].item<int64_t>()) continue;
    fail("rank ", rank, " holds other weights or another optimizer state than rank 0 (checksum ",
         sums[rank].item<int64_t>(), ", expected ", sums[0].item<int64_t>(),
         "), although they were just sent to it: the network or that host's memory is at fault");
  }
}

struct DdpConfig {
  double bucket_mib = 25;
  double first_bucket_mib = 1;
  double in_place_mib = 1;
  std::string reduction = "fp32";
  bool overlap = true;

  void describe(Options& o) {
    o("bucket_mib", bucket_mib, "maximum size of a gradient bucket").above(0).unit("MiB").may_change();
    o("first_bucket_mib", first_bucket_mib, "size of the first bucket: small, to be sent early")
        .above(0)
        .unit("MiB")
        .may_change();
    o("in_place_mib", in_place_mib,
      "gradients of at least this size are not copied into a bucket; default on CUDA: bucket_mib")
        .above(0)
        .unit("MiB")
        .may_change();
    o("reduction", reduction, "dtype in which gradients are sent and summed; bf16 halves the bytes")
        .choices({"fp32", "bf16"});
    o("overlap", overlap, "send during the backward pass; false: after it, for comparison").may_change();
  }
};

int64_t to_elements(double mib) {
  constexpr double kPerMib = 1048576.0 / sizeof(float);
  return round_up(std::max<int64_t>(1, static_cast<int64_t>(mib * kPerMib)), kChunk);
}

BucketSizes bucket_sizes(const DdpConfig& config, bool copies_are_cheap) {
  const int64_t most = to_elements(config.bucket_mib);
  return {.first = std::min(to_elements(config.first_bucket_mib), most),
          .most = most,
          .in_place = copies_are_cheap ? most : to_elements(config.in_place_mib)};
}

// The whole model on every rank, each working on its own micro-batches. Outside of reproducible mode the
// gradients of a step are summed over the ranks while the backward pass of its last micro-batch runs; in it,
// after the pass, along the same tree as in one process. The update is then done by every rank alike, from
// the same bits. With one process it is what `single` is.
class Ddp : public Replicated<DdpConfig> {
 public:
  explicit Ddp(Setup setup) : Replicated(std::move(setup)) { reduction_ = make_reduction(); }

  pl_strategy_info info() override {
    pl_strategy_info info = Replicated::info();
    if (is_narrow()) info.reduction_dtype = kBFloat16;
    return info;
  }

  // Rank 0 reads, once for all; the others need not even have the file.
  void load_state(const StateReader& reader) override {
    if (communicator() == nullptr) return Replicated::load_state(reader);
    const at::NoGradGuard no_grad;
    if (communicator()->rank() == 0) {
      try {
        replica_.load(reader);
      } catch (const std::exception& error) {
        communicator()->abort(concat("loading failed: ", error.what()));
        throw;
      }
    }
    const std::vector<at::Tensor> tensors = replica_.tensors();
    broadcast(*communicator(), tensors);
    require_equal(*communicator(), tensors);
    replica_.publish();
  }

  std::unique_ptr<Snapshot> snapshot(uint32_t mode) override {
    if (run().rank != 0) return no_pieces();  // rank 0 has them
    return Replicated::snapshot(mode);
  }

 private:
  bool is_narrow() const { return config().reduction == "bf16"; }
  std::unique_ptr<Reduction> make_reduction() const {
    const std::shared_ptr<const Layout>& layout = replica_.layout();
    const bool reproducible = context().reproducible();
    if (reproducible && is_narrow()) {
      config_error("reduction",
                   "rounds sums differently for each number of processes, which run.reproducible = true "
                   "forbids: use \"fp32\"");
    }
    if (communicator() == nullptr) {
      if (run().purpose == PL_PURPOSE_TRAIN) context().info("one process: gradients are not sent anywhere");
      return std::make_unique<LocalReduction>(layout, replica_.device(), reproducible, run().micro_batches);
    }
    // A device copies at no cost and is better off with few large messages.
    const bool copies_are_cheap = !replica_.device().is_cpu() && !is_set("in_place_mib");
    const BucketSizes sizes = bucket_sizes(config(), copies_are_cheap);
    if (!reproducible) {
      return bucket_reduction(context(), *communicator(), layout, replica_.device(), sizes,
                              is_narrow() ? at::kBFloat16 : at::kFloat, config().overlap);
    }
    const auto ranks = static_cast<uint64_t>(run().world_size);
    return tree_reduction(context(), *communicator(), layout, replica_.device(), sizes.most,
                          (run().micro_batches + ranks - 1) / ranks);
  }
};

}  // namespace
}  // namespace pipeline::strategies

PIPELINE_STRATEGY(pipeline::strategies::Ddp, "ddp", "1.0.0",
                  "The whole model on every process; gradients are summed during the backward pass")
