// Runs of one configuration with different values: which are best, and whether that is more than chance.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pipeline::report {

struct SweptRun {
  std::string name;
  std::filesystem::path folder;
  std::string problem = {};  // why it failed; empty: it did not
};

// One choice of values, with all its seeds.
struct SweptPoint {
  std::vector<std::string> values;  // of the sweep's keys
  std::vector<SweptRun> runs;
  std::optional<uint64_t> stopped_at = std::nullopt;  // left behind at this step by halving
};

struct Sweep {
  std::vector<std::string> keys;
  std::string figure;  // of evaluations, by which points are ranked
  std::vector<SweptPoint> points;
};

// What a figure came to in the runs of a point. Runs without a value that is finite count for nothing.
struct PointScore {
  size_t runs = 0;
  bool is_whole = false;           // all of the point's have one
  double mean = 0, deviation = 0;  // of samples: over runs - 1
};

// At an evaluation after step `step`, or the last one before it.
PointScore score_at(const SweptPoint& point, const std::string& figure, uint64_t step);
// Whether larger values of the figure are better, by what the runs say of their best evaluation.
bool higher_is_better(const Sweep& sweep);
// Whether `a` ranks before `b`: one whose runs all have a value comes before one of which some have failed.
bool ranks_before(const PointScore& a, const PointScore& b, bool higher_is_better);

struct RankedPoint {
  const SweptPoint* point;
  PointScore best;  // each run's best evaluation
  std::string state;
  bool is_near = false;  // came as far as the first, and is as good, as far as their seeds tell
};

struct Ranking {
  bool higher_is_better = false;
  std::vector<RankedPoint> points;  // those that halving left behind later come first
  std::string verdict;
};
Ranking rank(const Sweep& sweep);

// For the console: a line per point, best first, and what follows from it.
std::string table(const Sweep& sweep, const Ranking& ranking);
// A page with the values and figures of all points, and the curves of the best ones.
std::string page(const Sweep& sweep, const Ranking& ranking, const std::string& title);

}  // namespace pipeline::report
