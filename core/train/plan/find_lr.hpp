// A learning-rate range test (Smith, arXiv 1506.01186): the rate rises exponentially from step to step, and
// the loss shows which rates a model learns with.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/train/stages/stages.hpp"

namespace pipeline::train {

struct RateTestArgs {
  double first = 1e-7, last = 1;
  uint64_t steps = 100;
  uint64_t processes = 1;  // of the run, whose global batch may depend on them
};

struct RatePoint {
  double rate = 0, loss = 0;
  double smoothed = 0;  // loss, averaged exponentially with the bias of the beginning taken out
};

// The test's curve. Smoothing (0.98), the end at four times the least smoothed loss, and both suggestions are
// those of fastai and Lightning.
class RateCurve {
 public:
  // False: the loss has diverged, and no higher rate is worth a try.
  bool add(double rate, double loss);

  const std::vector<RatePoint>& points() const { return points_; }
  // Whether the loss ended the test, or the last tenth of the losses is half as much again above the first
  // tenth of them: the average of many steps has not followed yet.
  bool diverged() const;
  // The mean loss of a tenth of the points, at the beginning and at the end.
  double first_loss() const { return mean_of_tenth(0); }
  double last_loss() const { return mean_of_tenth(points_.size() - tenth()); }
  // The point with the least smoothed loss; nullptr: there is none.
  const RatePoint* minimum() const;
  // Where the smoothed loss falls fastest over the logarithm of the rate, the first tenth of the points and
  // the last one left out; nullopt where it never falls.
  std::optional<double> steepest() const;
  // A tenth of the rate with the least smoothed loss; nullopt where there is none.
  std::optional<double> tenth_of_minimum() const;

 private:
  size_t tenth() const { return (points_.size() + 9) / 10; }
  double mean_of_tenth(size_t begin) const;

  std::vector<RatePoint> points_;
  double average_ = 0, bias_ = 1, least_ = 0;
  bool ended_ = false;
};

// The learning rate of 0-based step `step` of the test.
double rate_at(const RateTestArgs& args, uint64_t step);

struct RateTest {
  RateCurve curve;
  double scale = 1;  // the rates are optimizer.lr times this (schedule.lr_scaling)
};

// Works in this process alone, whatever the number of processes of a run: its steps are the same. Leaves
// nothing behind.
Outcome test_rates(const Workspace& workspace, const RateTestArgs& args, RateTest& test);

}  // namespace pipeline::train
