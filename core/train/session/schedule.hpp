// How long a run is, the order of its samples, and the learning rate of each of its optimizer steps: linear
// warm-up, then what `kind` says, down to a share of the peak.
#pragma once

#include <cstdint>
#include <optional>

#include "core/config/config.hpp"
#include "core/train/data/prefetcher.hpp"
#include "core/train/data/sampler.hpp"
#include "core/train/session/session.hpp"

namespace pipeline::train {

enum class ScheduleKind {
  constant,
  linear,        // from the warm-up's end on
  cosine,        // from the warm-up's end on
  wsd,           // warm-up, stable, decay: the peak, but for the last steps (arXiv 2404.06395, 2405.18392)
  inverse_sqrt,  // peak / sqrt(1 + n / warmup_steps) n steps after the warm-up (arXiv 1706.03762)
};
enum class Fall { linear, cosine, one_minus_sqrt };  // 1 - x, (1 + cos(pi x)) / 2, 1 - sqrt(x)
enum class LrScaling { none, linear, sqrt };

struct Schedule {
  double peak = 0;  // learning rate after warm-up, scaled already
  ScheduleKind kind = ScheduleKind::cosine;
  uint64_t warmup_steps = 0;
  uint64_t total_steps = 0;  // where the rate has fallen; not used by `constant` and `inverse_sqrt`
  double final_ratio = 0;    // of the peak, at total_steps and after; as total_steps
  uint64_t decay_steps = 0;  // wsd: before total_steps
  Fall fall = Fall::linear;  // wsd

  // The rate of 0-based step `step`. Step 0 of a warm-up of w steps runs at peak/w, step w-1 at the peak.
  double at(uint64_t step) const;

 private:
  double left(double done) const;  // of what is lost in the end, after a share of the time in which it is
};

// The rate for an effective batch, from one that was right for `base_batch`: x8 the batch makes 1e-4 into
// 8e-4 (linear; Goyal et al., arXiv 1706.02677) or 2.83e-4 (sqrt; Malladi et al., arXiv 2205.10287). Goes by
// samples, never by processes.
double scale_learning_rate(double rate, LrScaling scaling, uint64_t effective_batch, uint64_t base_batch);

// Throws ConfigError where nothing says when training ends, or the schedule lacks something. Needs no data.
void check_schedule(const config::Config& config);

// `total_steps`: 0 where only train.max_seconds ends the run.
Schedule make_schedule(const config::Config& config, uint64_t global_batch, uint64_t total_steps);

// Options for the training data of the session's task, which is open and must outlive the sampler. Throws
// Error where there is none, or the task cannot do what [loader] asks for.
Sampler::Options sampler_options(Session& session);

// What the samples of training cost, as the task tells: it has_sample_costs(), is open and must outlive this.
Sampler::CostFunction sample_costs(plugins::Task& task);

// Options for training whose steps have so many micro-batches on a rank.
Prefetcher::Options loader_options(const Session& session, uint64_t accumulation_steps);

// The steps by train.max_steps and train.max_epochs; 0: only train.max_seconds ends the run.
uint64_t total_steps(const config::Config& config, const Sampler& sampler);

// The first and the last step that are recorded in a trace, counted from 1.
struct ProfiledSteps {
  uint64_t first = 0, last = 0;
};
// observe.profile; nullopt: off. Throws ConfigError.
std::optional<ProfiledSteps> profiled_steps(const config::Config& config);

}  // namespace pipeline::train
