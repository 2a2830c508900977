// The order of a session's samples, and how many steps follow from it.
#pragma once

#include <cstdint>

#include "core/train/data/prefetcher.hpp"
#include "core/train/data/sampler.hpp"
#include "core/train/session/session.hpp"

namespace pipeline::train {

// Options for the training data of the session's task, which is open and must outlive the sampler. Throws
// Error where there is none, or the task cannot do what [loader] asks for.
Sampler::Options sampler_options(Session& session);

// What the samples of training cost, as the task tells: it has_sample_costs(), is open and must outlive this.
Sampler::CostFunction sample_costs(plugins::Task& task);

// Options for training whose steps have so many micro-batches on a rank.
Prefetcher::Options loader_options(const Session& session, uint64_t accumulation_steps);

// The steps by train.max_steps and train.max_epochs; 0: only train.max_seconds ends the run.
uint64_t total_steps(const config::Config& config, const Sampler& sampler);

}  // namespace pipeline::train
