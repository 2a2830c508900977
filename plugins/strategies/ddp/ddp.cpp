#include "plugins/strategies/ddp/ddp.hpp"

#include <algorithm>

#include <pipeline/torch/runtime.hpp>

#include "plugins/strategies/common/adopt.hpp"
#include "plugins/strategies/common/gradient_check.hpp"
#include "plugins/strategies/common/peak_flops.hpp"
#include "plugins/strategies/common/replica_step.hpp"
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

const void* Ddp::query(std::string_view extension) {
  return extension == PL_EXTENSION_PEAK_FLOPS ? peak_flops_extension() : nullptr;
}

Ddp::Ddp(Setup setup)
    : Strategy(std::move(setup)),
      replica_(context(), parameters(), optimizer()),
      reduction_(make_reduction()) {}

std::unique_ptr<Reduction> Ddp::make_reduction() const {
  const std::shared_ptr<const Layout>& layout = replica_.layout();
  const bool reproducible = context().reproducible();
  if (reproducible && is_narrow()) {
    config_error("reduction",
                 "rounds sums otherwise for every number of processes, which run.reproducible = true cannot "
                 "allow: use \"fp32\"");
  }
  if (communicator() == nullptr) {
    context().info("one process: gradients are not sent anywhere");
    return std::make_unique<LocalReduction>(layout, replica_.device(), reproducible, run().micro_batches);
  }
  // A device copies at no cost and is better off with few large messages.
  const bool copies_are_cheap = !replica_.device().is_cpu() && !is_set("in_place_mib");
  const BucketSizes sizes = bucket_sizes(config(), copies_are_cheap);
  if (!reproducible) {
    return std::make_unique<BucketReduction>(*communicator(), layout, replica_.device(), sizes,
                                             is_narrow() ? at::kBFloat16 : at::kFloat);
  }
  const auto ranks = static_cast<uint64_t>(run().world_size);
  return std::make_unique<TreeReduction>(*communicator(), layout, replica_.device(), sizes.most,
                                         (run().micro_batches + ranks - 1) / ranks);
}

pl_strategy_info Ddp::info() {
  auto info = sized<pl_strategy_info>();
  info.micro_batch_order = PL_ORDER_BLOCK;
  info.gradient_dtype = info.reduction_dtype = info.master_dtype = info.optimizer_dtype = kFloat32;
  if (is_narrow()) info.reduction_dtype = kBFloat16;
  return info;
}

Ddp::Storage Ddp::storage(uint64_t index) {
  const auto [value, grad] = replica_.storage(index);
  return {value, grad};
}

void Ddp::begin_step(uint64_t micro_batches) {
  progress_.begin(micro_batches);
  const at::NoGradGuard no_grad;
  reduction_->begin(micro_batches);
}

void Ddp::gradient_ready(Gradient gradient) {
  const auto slot = slot_of(gradient, parameters(), *replica_.layout(), run().device);
  progress_.require_micro_batch(parameters()[gradient.index()].name);
  if (!slot) return;
  const at::NoGradGuard no_grad;
  const StreamScope stream(replica_.device(), gradient.stream());
  const bool owned = gradient.is_handed_over();
  reduction_->add(*slot, owned ? adopt(gradient) : to_torch(gradient.tensor()), owned, gradient.stream());
}

void Ddp::end_micro_batch(const pl_tensor* loss) {
  progress_.end_micro_batch();
  const at::NoGradGuard no_grad;
  reduction_->end_micro_batch(keep_loss(loss));
}

uint64_t Ddp::step(const pl_step_args& args) {
  progress_.finish();
  const at::NoGradGuard no_grad;
  const StreamScope stream(replica_.device(), args.stream);
  return finish_step(replica_, reduction_->finish(args.stream), args, context().reproducible(), reports_);
}

pl_step_report Ddp::collect(uint64_t ticket) { return reports_.collect(ticket); }

// Rank 0 reads, once for all; the others need not even have the file.
void Ddp::load_state(const StateReader& reader) {
  const at::NoGradGuard no_grad;
  if (communicator() == nullptr) return replica_.load(reader);
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
  const at::NoGradGuard no_grad;
  return replica_.snapshot(mode);
}

void Ddp::memory(const MemoryVisitor& visit) {
  replica_.visit_parameters(visit);
  reduction_->memory(visit);
  replica_.visit_optimizer(visit);
}

}  // namespace pipeline::strategies
