#include "plugins/strategies/ddp/ddp.hpp"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>

#include "plugins/strategies/ddp/bucket_reduction.hpp"
#include "plugins/strategies/ddp/equal_start.hpp"
#include "plugins/strategies/ddp/tree_reduction.hpp"

namespace pipeline::strategies {
namespace {

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

// Of ranks other than 0, which has it all.
class NoPieces : public Snapshot {
  void visit(const Visitor& /*visitor*/) const override {}
};

}  // namespace

Ddp::Ddp(Setup setup) : Replicated(std::move(setup)) { reduction_ = make_reduction(); }

std::unique_ptr<Reduction> Ddp::make_reduction() const {
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
    return std::make_unique<BucketReduction>(context(), *communicator(), layout, replica_.device(), sizes,
                                             is_narrow() ? at::kBFloat16 : at::kFloat, config().overlap);
  }
  const auto ranks = static_cast<uint64_t>(run().world_size);
  return std::make_unique<TreeReduction>(context(), *communicator(), layout, replica_.device(), sizes.most,
                                         (run().micro_batches + ranks - 1) / ranks);
}

pl_strategy_info Ddp::info() {
  pl_strategy_info info = Replicated::info();
  if (is_narrow()) info.reduction_dtype = kBFloat16;
  return info;
}

// Rank 0 reads, once for all; the others need not even have the file.
void Ddp::load_state(const StateReader& reader) {
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

std::unique_ptr<Snapshot> Ddp::snapshot(uint32_t mode) {
  if (run().rank != 0) return std::make_unique<NoPieces>();
  return Replicated::snapshot(mode);
}

}  // namespace pipeline::strategies
