#pragma once

#include <memory>
#include <optional>

#include <pipeline/communicator.hpp>
#include <pipeline/context.hpp>

#include "plugins/strategies/common/late_rows.hpp"
#include "plugins/strategies/common/reduction.hpp"
#include "plugins/strategies/ddp/buckets.hpp"

namespace pipeline::strategies {

// The fast way: micro-batches are added up on each rank; in the last one every gradient that is complete goes
// into its bucket, and full buckets travel while the backward pass goes on. What was not used goes as zeros
// at its end, what comes after its bucket has left travels by itself.
class BucketReduction : public Reduction {
 public:
  BucketReduction(const Context& context, const Communicator& group, std::shared_ptr<const Layout> layout,
                  at::Device device, const BucketSizes& sizes, at::ScalarType wire, bool overlap);
  void begin(uint64_t micro_batches) override;
  void add(size_t slot, const at::Tensor& gradient, bool owned) override;
  void add_rows(size_t slot, const at::Tensor& rows, const at::Tensor& values) override;
  // On CUDA the host would have to wait for which rows there are.
  bool takes_rows() const override { return overlap_ && device_.is_cpu(); }
  void end_micro_batch(at::Tensor loss) override;
  StepSums finish() override;
  void memory(const MemoryVisitor& visit) const override;

 private:
  struct Loss {
    at::Tensor sum;
    Communicator::Work work;
  };

  // Whether gradients travel as soon as they are there.
  bool sends_now() const { return overlap_ && left_ == 1; }
  void send(size_t slot);
  void send_unused();
  void send_rest();
  StepSums receive();
  // What came after its bucket had left, on any rank: 1 for each slot, and behind them for rows.
  std::vector<uint8_t> late_on_any_rank() const;
  void learn_order();

  const Context context_;
  const Communicator& group_;
  std::shared_ptr<const Layout> layout_;
  at::Device device_;
  BucketSizes sizes_;
  bool overlap_;
  GradientSum gradients_;
  Buckets buckets_;
  Arrivals arrivals_;
  LateRows late_rows_;         // of gradients that have been sent
  std::vector<size_t> order_;  // in which gradients came in the first step's last micro-batch
  bool knows_order_ = false;
  LossTree loss_ = make_loss_tree();
  std::optional<Loss> loss_sum_;  // under way
  bool unfinished_ = false;       // between begin() and finish()
  uint64_t left_ = 0;             // micro-batches of this step
};

}  // namespace pipeline::strategies
