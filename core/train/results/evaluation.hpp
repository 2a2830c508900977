// Evaluates a split on all ranks: batches are composed over the whole of it and dealt out, and their sums and
// weights are added in the order of the samples, so that the figures do not depend on who computed them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/plugins/task.hpp"
#include "core/train/data/prefetcher.hpp"
#include "core/train/processes/process_group.hpp"
#include "core/train/session/session.hpp"

namespace pipeline::train {

struct EvaluationRequest {
  uint32_t split = PL_SPLIT_VAL;
  uint32_t purpose = PL_PURPOSE_VALIDATE;
  uint64_t samples = 0;  // the first this many; 0: all
  uint64_t batch = 8;    // samples per batch
  unsigned workers = 4;
  uint64_t prefetch = 2;                                        // batches per worker
  uint64_t shown = 0;                                           // samples to show, of the first ones
  std::function<bool()> cancelled;                              // asked between batches
  std::function<void(uint64_t done, uint64_t total)> progress;  // in samples
  std::function<void(uint64_t sample_id, std::string_view text)> show;
  std::function<void()> failed;  // on all ranks, when the task failed on one: before evaluate() throws
};

// The request by the session's configuration; of the callbacks only `cancelled` is set.
EvaluationRequest request_for(const Session& session, uint32_t split, uint32_t purpose);

// This rank's batches of a split, from sample `first` to `end`: they are composed over all of it and dealt
// out one by one, so that what all ranks make of them can be put in the order of the samples.
class DealtBatches {
 public:
  DealtBatches(ProcessGroup& processes, const plugins::Task& task, EvaluationRequest request, uint64_t first,
               uint64_t end);

  // Does `work` with the next batch, of which `begin` is the first sample, if there is one. False: cancelled.
  bool next(const std::function<void(const plugins::Batch& batch, uint64_t begin)>& work);

 private:
  uint64_t begin_of(uint64_t index) const { return begin_ + index * stride_; }

  ProcessGroup& processes_;
  const EvaluationRequest request_;
  const uint64_t begin_, stride_, end_;  // of this rank's samples
  uint64_t next_ = 0;                    // batch of this rank
  Prefetcher batches_;
};

struct Figure {
  std::string name;
  double value = 0;
  uint32_t better = PL_BETTER_LOWER;
};

struct ReportFile {
  std::string name, bytes;
};

struct Evaluation {
  uint32_t split = PL_SPLIT_TEST;
  std::vector<plugins::EvaluationValue> sums;  // what the figures are computed from,
  std::vector<plugins::Metric> metrics;        // and how
  uint64_t records = 0;                        // that the task's report got
  std::vector<Figure> figures;                 // "loss" first
  std::vector<std::string> text;               // what the task's report says beside them
  std::vector<ReportFile> files;
  uint64_t samples = 0;
  uint64_t available = 0;  // samples that there are in the split
  double seconds = 0;

  const Figure* find(std::string_view name) const;
};

// Sums by group and name, in the order in which these first came.
class EvaluationSums {
 public:
  void add(const plugins::EvaluationValue& value);
  const std::vector<plugins::EvaluationValue>& all() const { return all_; }

 private:
  std::vector<plugins::EvaluationValue> all_;
  std::map<std::pair<std::string, std::string>, size_t> index_;
};

// The figures of the sums, by `metrics` as the task describes them, and what its report makes of them and of
// the records, which are sorted here by sample and key.
Evaluation conclude(plugins::Task& task, uint32_t split, uint32_t purpose, const EvaluationSums& sums,
                    std::vector<plugins::Metric> metrics, std::vector<plugins::EvaluationRecord> records);

// All ranks call it and get the same. nullopt: cancelled on one of them. `progress` and `show` are called on
// all. What the task throws on one rank ends all of them here, the others with PL_ERROR_PEER.
std::optional<Evaluation> evaluate(ProcessGroup& processes, plugins::Task& task,
                                   const EvaluationRequest& request);

// PL_SPLIT_... for "train", "val", "test".
uint32_t split_code(std::string_view name);
std::string_view split_name(uint32_t code);

}  // namespace pipeline::train
