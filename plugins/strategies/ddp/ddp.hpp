#pragma once

#include <memory>
#include <string>

#include <pipeline/strategy.hpp>

#include "plugins/strategies/common/reduction.hpp"
#include "plugins/strategies/common/replica.hpp"
#include "plugins/strategies/common/report_queue.hpp"
#include "plugins/strategies/common/step_progress.hpp"

namespace pipeline::strategies {

struct DdpConfig {
  double bucket_mib = 25;
  double first_bucket_mib = 1;
  double in_place_mib = 1;
  std::string reduction = "fp32";

  void describe(Options& o) {
    o("bucket_mib", bucket_mib, "gradients travel in buckets of at most this size")
        .above(0)
        .unit("MiB")
        .may_change();
    o("first_bucket_mib", first_bucket_mib, "of the first bucket, which should be on its way early")
        .above(0)
        .unit("MiB")
        .may_change();
    o("in_place_mib", in_place_mib,
      "gradients of at least this size are not copied into a bucket; on CUDA bucket_mib unless set")
        .above(0)
        .unit("MiB")
        .may_change();
    o("reduction", reduction, "dtype that gradients travel and are added up in; bf16 halves the bytes")
        .choices({"fp32", "bf16"});
  }
};

// The whole model on every rank, each working on its own micro-batches. Outside of reproducible mode the
// gradients of a step are summed over the ranks while the backward pass of its last micro-batch runs; in it,
// after the pass, along the same tree as in one process. The update is then done by every rank alike, from
// the same bits. With one process it is what `single` is.
class Ddp : public Strategy<DdpConfig> {
 public:
  explicit Ddp(Setup setup);
  static const void* query(std::string_view extension);

  pl_strategy_info info() override;
  Storage storage(uint64_t index) override;
  void begin_step(uint64_t micro_batches) override;
  void gradient_ready(Gradient gradient) override;
  void end_micro_batch(const pl_tensor* loss) override;
  uint64_t step(const pl_step_args& args) override;
  pl_step_report collect(uint64_t ticket) override;
  void load_state(const StateReader& reader) override;
  std::unique_ptr<Snapshot> snapshot(uint32_t mode) override;
  void memory(const MemoryVisitor& visit) override;

 private:
  bool is_narrow() const { return config().reduction == "bf16"; }
  std::unique_ptr<Reduction> make_reduction() const;

  Replica replica_;
  std::unique_ptr<Reduction> reduction_;
  ReportQueue reports_;
  StepProgress progress_;
};

}  // namespace pipeline::strategies
