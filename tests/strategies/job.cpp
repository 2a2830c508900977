#include "tests/strategies/job.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>

namespace pipeline::strategies {
namespace {

Outcome run_rank(const Job& job, const Rank& rank, RunOptions options, uint64_t micro_batches) {
  options.group = rank.view();
  options.micro_batches = micro_batches;
  StrategyRun run(job.specs, job.optimizer, options);
  if (!job.start.empty()) run.load(job.start, true);
  Outcome outcome;
  for (uint64_t step = 0; step < job.steps; ++step) {
    const auto share = share_of(rank, run, job.batch(step));
    pl_step_args args = StrategyRun::step_args(job.learning_rate, job.clip_norm, job.inverse_scale);
    if (step % 2 == 0 && std::ranges::any_of(job.specs, [](const auto& spec) { return spec.loss == 1; }))
      args.idle_losses = 2;
    const pl_step_report report = run.strategy().collect(run.start_step(share, args));
    outcome.losses.push_back(report.loss_sum);
    outcome.norms.push_back(report.grad_norm);
    outcome.finite.push_back(report.finite);
  }
  outcome.state = run.state();
  State trained = outcome.state;
  for (const ParameterSpec& spec : job.specs)
    if (!spec.trainable)
      std::erase_if(trained, [&](const auto& piece) { return piece.first.ends_with("/" + spec.name); });
  EXPECT_EQ(run.state(PL_SNAPSHOT_COPY | PL_SNAPSHOT_TRAINED), trained);
  run.strategy().gather_values();
  for (size_t i = 0; i < job.specs.size(); ++i) outcome.values.push_back(run.value(i).clone().cpu());
  EXPECT_EQ(run.live_gradients(), 0);
  return outcome;
}

// Numbers as bits: NaN is equal to itself, and -0 is not +0.
std::vector<uint64_t> bits(const std::vector<double>& numbers) {
  std::vector<uint64_t> result;
  for (const double number : numbers) result.push_back(std::bit_cast<uint64_t>(number));
  return result;
}

bool same_values(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::ranges::equal(a, b, [](const at::Tensor& x, const at::Tensor& y) { return x.equal(y); });
}

double relative(double a, double b) { return std::abs(a - b) / std::max(1e-3, std::abs(b)); }

}  // namespace

Job Job::with_two_losses() const {
  Job job = *this;
  for (size_t i = 1; i < job.specs.size(); i += 2) job.specs[i].loss = 1;
  return job;
}

void append(State& into, const State& from) {
  for (const auto& [key, bytes] : from) {
    // A rank has zeros where it has no piece.
    std::vector<std::byte>& all = into[key];
    all.resize(bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i) all[i] |= bytes[i];
  }
}

bool Outcome::operator==(const Outcome& other) const {
  return bits(losses) == bits(other.losses) && bits(norms) == bits(other.norms) && finite == other.finite &&
         state == other.state && same_values(values, other.values);
}

Outcome run_job(const Job& job, int world_size, const RunOptions& options) {
  const uint64_t micro_batches = job.batch(0).size();
  std::vector<Outcome> ranks =
      each_rank(world_size, [&](const Rank& rank) { return run_rank(job, rank, options, micro_batches); });
  Outcome& first = ranks.front();
  for (size_t r = 1; r < ranks.size(); ++r) {
    EXPECT_EQ(bits(ranks[r].losses), bits(first.losses)) << "rank " << r;
    EXPECT_EQ(bits(ranks[r].norms), bits(first.norms)) << "rank " << r;
    EXPECT_EQ(ranks[r].finite, first.finite) << "rank " << r;
    EXPECT_TRUE(same_values(ranks[r].values, first.values)) << "rank " << r;
    append(first.state, ranks[r].state);
  }
  return first;
}

double distance(const Outcome& a, const Outcome& b) {
  double most = 0;
  for (size_t i = 0; i < a.losses.size(); ++i) {
    most = std::max({most, relative(a.losses[i], b.losses[i]), relative(a.norms[i], b.norms[i])});
  }
  for (size_t i = 0; i < a.values.size(); ++i) {
    if (a.values[i].numel() == 0) continue;
    const at::Tensor difference = (a.values[i] - b.values[i]).abs().max();
    most = std::max(most,
                    difference.item().toDouble() / std::max(1e-3, b.values[i].abs().max().item().toDouble()));
  }
  return most;
}

namespace {

// Every rank asks for every step; making it once saves most of a test's time.
std::function<std::vector<MicroBatch>(uint64_t)> made_once(
    std::function<std::vector<MicroBatch>(uint64_t)> make) {
  struct Made {
    std::mutex mutex;
    std::map<uint64_t, std::vector<MicroBatch>> steps;
  };
  return [make = std::move(make), made = std::make_shared<Made>()](uint64_t step) {
    const std::lock_guard lock(made->mutex);
    const auto found = made->steps.find(step);
    return found != made->steps.end() ? found->second : made->steps[step] = make(step);
  };
}

}  // namespace

Job difficult_job(uint64_t micro_batches, const plugins::Optimizer& optimizer) {
  Job job;
  job.specs = {{"embedding", {500, 65}, true},  // used twice, and the largest
               {"bias", {7}, false},           {"frozen", {33}, true, 1, false},
               {"weight", {64, 33}, true},     {"nothing", {0, 5}, false},
               {"unused", {41, 3}, true},      {"sometimes", {17, 16}, true, 0.5},
               {"scalar", {}, false},          {"head", {3, 4099}, true, 0.5}};
  job.optimizer = optimizer;
  job.batch = made_once([specs = job.specs, micro_batches](uint64_t step) {
    std::vector<MicroBatch> batch;
    const uint64_t filled = step % 4 == 1 ? 1 : step % 4 == 3 ? (micro_batches + 1) / 2 : micro_batches;
    for (uint64_t m = 0; m < micro_batches; ++m) {
      if (m >= filled) {
        batch.emplace_back();
        continue;
      }
      const uint64_t seed = 1000 * step + m;
      const double weight = seed % 5 == 3 ? 0 : 1 + static_cast<double>(seed % 4);
      MicroBatch one{.gradients = random_gradients(specs, seed), .loss = {}, .lent = seed % 3 == 1};
      for (at::Tensor& gradient : one.gradients) {
        if (gradient.defined()) gradient.mul_(weight / 10);
      }
      one.loss = at::scalar_tensor(weight * std::sin(static_cast<double>(seed)), at::kFloat);
      one.gradients[5] = at::Tensor();
      if ((step + m) % 3 != 0) one.gradients[6] = at::Tensor();
      // The second use of the embedding: a few rows.
      one.again.resize(specs.size());
      one.again[0] = at::zeros(specs[0].shape);
      one.again[0][static_cast<int64_t>(seed * 7 % 500)].fill_(weight / 7);
      batch.push_back(std::move(one));
    }
    return batch;
  });
  return job;
}

std::vector<MicroBatch> random_batch(const std::vector<ParameterSpec>& specs, uint64_t step) {
  std::vector<MicroBatch> result;
  for (uint64_t m = 0; m < 5; ++m) {
    result.push_back({.gradients = random_gradients(specs, 100 * step + m), .loss = at::ones({})});
    for (at::Tensor& gradient : result.back().gradients)
      if (gradient.defined() && gradient.numel() == 0) gradient = at::Tensor();
  }
  return result;
}

void expect_a_broken_group_fails_the_step(const std::vector<ParameterSpec>& specs,
                                          const std::function<RunOptions(const Rank&)>& options) {
  std::string problem;
  on_ranks(2, [&](const Rank& rank) {
    StrategyRun run(specs, adamw(), options(rank));
    for (uint64_t step = 0; step < 3; ++step) {
      if (step == 2 && rank.rank == 1) return fail_on(rank, "rank 1 was told to leave");
      const auto start = [&] {
        run.start_step(share_of(rank, run, random_batch(specs, step)), StrategyRun::step_args(0.01));
      };
      try {
        start();
      } catch (const Error& error) {
        problem = error.what();
        EXPECT_THROW(start(), Error) << "trying again does not crash, either";
      }
    }
  });
  EXPECT_THAT(problem, testing::HasSubstr("rank 1 was told to leave"));
}

void expect_gradients_that_do_not_fit_are_refused(StrategyRun& run) {
  const auto hand_over = [&](size_t index) { run.hand_over(index, at::ones(run.specs()[index].shape)); };
  EXPECT_THAT(error_of([&] { hand_over(0); }), testing::HasSubstr("gradient of w outside of a micro-batch"));
  run.strategy().begin_step(1);
  EXPECT_THAT(error_of([&] { hand_over(2); }), testing::HasSubstr("gradient of frozen, which is frozen"));
  EXPECT_THAT(error_of([&] { run.strategy().step(StrategyRun::step_args(1)); }),
              testing::HasSubstr("step: after 0 of 1 micro-batches"));
  EXPECT_EQ(run.live_gradients(), 0);
}

}  // namespace pipeline::strategies
