#pragma once

#include <deque>

#include "plugins/strategies/common/late_rows.hpp"
#include "plugins/strategies/sharded/reducer.hpp"

namespace pipeline::strategies {

// Sends each bucket as soon as it can, while the backward pass goes on, and lets its gradients go. Buckets
// that are complete while enough are in flight wait for their turn, and the backward pass goes on: up to as
// much as the largest parameter has, which comes at once. All ranks send in the same order, whatever order
// gradients come in: in the first step from the last bucket to the first, as a backward pass makes them, then
// as they were complete on rank 0. A bucket whose gradients do not all come goes at the end of the
// micro-batch, the missing ones as zeros; so that it does not hold up the others, after the first step it is
// the last one everywhere.
//
// A gradient that comes again when its bucket is gone goes with the next micro-batch. From then on this rank
// waits for as many. Rows that come then go with the next micro-batch, too, or by themselves at the end of
// the step, and are not waited for. On CUDA no rows are taken: the host would have to wait for which they
// are.
class EagerReducer : public Reducer {
 public:
  enum class When {
    kComplete,  // a bucket goes when its gradients are there and it is next
    kUnitEnd,   // when the backward pass is through with its unit: between gathers, a place that all ranks
                // know
    kMicroBatchEnd  // no overlap
  };

  EagerReducer(const ReducerArgs& args, const std::vector<Parameter>& parameters, When when,
               at::ScalarType wire);
  void begin(uint64_t micro_batches) override;
  void add(size_t slot, const at::Tensor& gradient, bool owned) override;
  void add_rows(size_t slot, const at::Tensor& rows, const at::Tensor& values) override;
  bool takes_rows() const override { return when_ == When::kComplete && args_.peers.device().is_cpu(); }
  void end_unit(uint32_t unit) override;
  void end_micro_batch(bool empty) override;
  void finish() override;
  void memory(const MemoryVisitor& visit) const override;

 private:
  struct SlotState {
    std::pair<size_t, size_t> buckets;  // that it lies in
    uint32_t expected = 1;              // times that its gradient comes in a micro-batch
    uint32_t arrived = 0;               // in this one
    bool taken = false;                 // to be sent
    size_t sent = 0;                    // of its buckets
  };
  struct BucketState {
    std::pair<size_t, size_t> slots;
    uint32_t expected = 0;  // gradients
    uint32_t arrived = 0;
    bool sent = false;          // or ready
    bool deferred = false;      // to the end of the micro-batch
    bool was_deferred = false;  // in this step on this rank: incomplete or late
  };

  bool sends_now() const { return args_.every_micro_batch || seen_ + 1 == micro_batches_; }
  void start_round();
  void expect_again(size_t slot);
  void send(size_t bucket);
  void send_complete();
  void start_ready(bool all);
  void start(size_t bucket);
  void send_rest(bool empty);
  void learn_order();
  void sum_between(size_t bucket);
  void finish_late_rows();

  ReducerArgs args_;
  const std::vector<Parameter>& parameters_;
  When when_;
  GradientSum sum_;
  Exchange exchange_;
  std::vector<SlotState> slots_;
  std::vector<BucketState> buckets_;
  std::vector<at::Tensor> outgoing_;  // by slot: taken, and not all sent
  std::deque<size_t> ready_;          // buckets whose gradients are taken, to be started in this order
  int64_t ready_length_ = 0;          // elements in them
  int64_t longest_slot_ = 0;
  std::vector<size_t> order_;  // of buckets
  size_t next_ = 0;            // in order_
  uint64_t micro_batches_ = 0;
  uint64_t seen_ = 0;
  std::optional<size_t> late_;  // a slot whose gradient came after its bucket went, in the micro-batch that
                                // is going on
  LateRows late_rows_;
  bool rows_came_ = false;         // on this rank
  bool expects_rows_ = false;      // some came on any rank in the first step, hence perhaps in every one
  std::vector<size_t> completed_;  // buckets in the order in which they were complete in the first step, the
                                   // first time counts
  bool knows_order_ = false;
  std::vector<uint64_t> delivered_;      // times that a bucket came in this step
  std::vector<Peers::Pending> between_;  // by bucket: its sum over the groups, under way
};

}  // namespace pipeline::strategies
