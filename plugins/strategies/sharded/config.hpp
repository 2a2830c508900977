#pragma once

#include <cstdint>
#include <string>

#include <pipeline/options.hpp>

namespace pipeline::strategies {

struct ShardedConfig {
  int64_t zero_stage = 2;
  double bucket_mib = 8;
  std::string reduction = "fp32";
  bool overlap = true;
  int64_t unit_slots = 2;
  bool offload = false;

  void describe(Options& o) {
    o("zero_stage", zero_stage, "1 shards the optimizer's state, 2 gradients too, 3 parameters too")
        .min(1)
        .max(3)
        .may_change();
    o("bucket_mib", bucket_mib, "gradients and weights travel in buckets of at most this size")
        .above(0)
        .unit("MiB")
        .may_change();
    o("reduction", reduction, "dtype that gradients travel in; bf16 halves the bytes; they are added in fp32")
        .choices({"fp32", "bf16"});
    o("overlap", overlap, "send while the backward pass goes on, gather while the forward pass does")
        .may_change();
    o("unit_slots", unit_slots, "stage 3: slots for units whose weights are whole at the same time")
        .min(1)
        .may_change();
    o("offload", offload, "keep the optimizer's state in pinned host memory; needs CUDA").may_change();
  }
};

}  // namespace pipeline::strategies
