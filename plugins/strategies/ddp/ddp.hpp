#pragma once

#include <memory>
#include <string>

#include "plugins/strategies/common/replicated.hpp"

namespace pipeline::strategies {

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

// The whole model on every rank, each working on its own micro-batches. Outside of reproducible mode the
// gradients of a step are summed over the ranks while the backward pass of its last micro-batch runs; in it,
// after the pass, along the same tree as in one process. The update is then done by every rank alike, from
// the same bits. With one process it is what `single` is.
class Ddp : public Replicated<DdpConfig> {
 public:
  explicit Ddp(Setup setup);

  pl_strategy_info info() override;
  void load_state(const StateReader& reader) override;
  std::unique_ptr<Snapshot> snapshot(uint32_t mode) override;

 private:
  bool is_narrow() const { return config().reduction == "bf16"; }
  std::unique_ptr<Reduction> make_reduction() const;
};

}  // namespace pipeline::strategies
