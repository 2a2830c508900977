// How long a run is, and the learning rate of each of its optimizer steps: linear warm-up, then constant,
// linear or cosine down to a share of the peak.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/config/config.hpp"

namespace pipeline::train {

enum class Decay { constant, linear, cosine };
enum class LrScaling { none, linear, sqrt };

struct Schedule {
  double peak = 0;  // learning rate after warm-up, scaled already
  Decay decay = Decay::cosine;
  uint64_t warmup_steps = 0;
  uint64_t total_steps = 0;  // where the decay ends; not used by `constant`
  double final_ratio = 0;    // of the peak, at total_steps and after

  // The rate of 0-based step `step`. Step 0 of a warm-up of w steps runs at peak/w, step w-1 at the peak.
  double at(uint64_t step) const;
};

// The rate for an effective batch, from one that was right for `base_batch`: x8 the batch makes 1e-4 into
// 8e-4 (linear; Goyal et al., arXiv 1706.02677) or 2.83e-4 (sqrt; Malladi et al., arXiv 2205.10287). Goes by
// samples, never by processes.
double scale_learning_rate(double rate, LrScaling scaling, uint64_t effective_batch, uint64_t base_batch);

// Throws ConfigError where nothing says when training ends, or the schedule lacks something. Needs no data.
void check_schedule(const config::Config& config);

// `total_steps`: 0 where only train.max_seconds ends the run.
Schedule make_schedule(const config::Config& config, uint64_t global_batch, uint64_t total_steps);

}  // namespace pipeline::train
