#include "plugins/data/proteins/dataset.hpp"

#include <numeric>

#include "plugins/data/files/appended_file.hpp"
#include "plugins/data/proteins/division.hpp"
#include "plugins/data/proteins/report_text.hpp"

namespace pipeline::proteins {
namespace {

constexpr std::array<Split, 3> kAllSplits{Split::kTrain, Split::kVal, Split::kTest};
// With fewer clusters of similar sequences an interval is wider than most differences.
constexpr uint64_t kFewClusters = 5;

// least: of known residues.
void tell_left_out(const Samples& samples, const Splits& splits, int64_t least, const ProteinData& options,
                   const Context& context) {
  std::vector<std::string> names;
  uint64_t residues = 0;
  const Labels labels(options.objective, options.label);
  std::vector<std::string> unlabelled;
  for (uint64_t i = 0; i < splits.size(kLeftOut); ++i) {
    const SplitRow row = splits.row(kLeftOut, i);
    if (row.reason == Reason::kNoLabel)
      unlabelled.push_back(
          unlabelled.size() < kNamesShown
              ? concat(samples.name(row.sample), " (", labels.of(samples, row.sample).problem, ")")
              : "");
    if (row.reason != Reason::kTooFew) continue;
    names.push_back(names.size() < kNamesShown ? samples.name(row.sample) : "");
    residues += row.residues;
  }
  if (!names.empty()) context.info("left out   ", left_out_text(names, residues, samples.noun(), least));
  if (!unlabelled.empty())
    context.warn("left out   ", counted(unlabelled.size(), samples.noun()),
                 " without a label: ", first_of(unlabelled));
}

}  // namespace

const char* name_of(Split split) {
  return split == Split::kTrain ? "training" : split == Split::kVal ? "validation" : "test";
}

Dataset::Dataset(const ProteinData& options, const Context& context, const Learnt* learnt)
    : options_(options),
      labels_(options.objective, options.label),
      context_(context),
      own_test_(!options.test_path.empty() && context.run().purpose != PL_PURPOSE_TRAIN) {
  if (context.run().purpose == PL_PURPOSE_EXPORT) return;  // reads no data
  files::with_data_errors([&] {
    const Division division(options_, context_);
    if (needs_training_data()) {
      samples_ =
          (options_.has_sequences() ? open_sequences : open_structures)(options_.path(), options_, context_);
      splits_ = division.of_training_data(*samples_);
      tell_left_out(*samples_, splits_, options_.data.min_residues, options_, context_);
      fingerprint_ = samples_->fingerprint();
      if (!options_.split.list.empty())
        fingerprint_ += sources::find_and_hash(options_.split.list.string(), cache_folder(options_, context_),
                                               data_hooks("reading the list", context_))
                            .hash.hex();
    }
    if (own_test_) {
      test_samples_ = (are_sequences(options_.test_path) ? open_sequences : open_structures)(
          options_.test_path, options_, context_);
      test_splits_ = division.of_own_test_data(*test_samples_);
      const bool is_predicted = context_.run().purpose == PL_PURPOSE_PREDICT;
      tell_left_out(*test_samples_, test_splits_, is_predicted ? kLeastPredicted : options_.data.min_residues,
                    options_, context_);
      if (context_.run().purpose != PL_PURPOSE_PREDICT && samples_)
        division.compare(*test_samples_, test_splits_, *samples_, splits_,
                         learnt != nullptr ? learnt->training : this->learnt().training);
      fingerprint_ += test_samples_->fingerprint();
    }
    describe();
    if (samples_ && options_.split.by == "column") warn_of_equal_sequences();
  });
}

// Whether training data are needed: with test data of one's own a model can be used where they are missing.
bool Dataset::needs_training_data() const {
  if (!own_test_) return true;
  if (context_.run().purpose == PL_PURPOSE_PREDICT || options_.path().empty()) return false;
  if (std::filesystem::exists(options_.path())) return true;
  context_.warn(options_.path().string(),
                " is missing, so the test data cannot be compared with the training data");
  return false;
}

void Dataset::describe() const {
  std::string text;
  const bool is_training = context_.run().purpose == PL_PURPOSE_TRAIN;
  for (const Split split : kAllSplits) {
    if (size(split) == 0 && !samples_) continue;  // not looked for
    const PartTotals& totals = splits_of(split).totals(static_cast<size_t>(split));
    const bool grouped = !is_own(split) || context_.run().purpose != PL_PURPOSE_PREDICT;
    text += concat(text.empty() ? "" : "; ", name_of(split), " ",
                   counted(totals.rows, samples_of(split).noun()), " of ",
                   grouped ? counted(totals.clusters, "cluster") + ", " : "", totals.residues, " residues");
  }
  context_.info("data       ", text);
  for (const Split split : kAllSplits) {
    const uint64_t clusters = splits_of(split).totals(static_cast<size_t>(split)).clusters;
    if (split != Split::kTrain && samples_ && !is_own(split) && clusters > 0 && clusters < kFewClusters)
      context_.warn("the ", name_of(split), " split has ", counted(size(split), samples_->noun()), " of ",
                    counted(clusters, "cluster"),
                    ": figures over so few say little. Give more data, or hold out more",
                    options_.split.by == "column"
                        ? ""
                        : concat(": a smaller task.split.folds (", options_.split.folds, ")"));
  }
  if (!is_training) return;
  if (size(Split::kTrain) == 0) {
    const bool by_column = options_.split.by == "column";
    fail_with(PL_ERROR_CONFIG, options_.path().string(), ": no sample is left to learn from: ",
              by_column ? "no row says train (task.split.by = \"column\")"
                        : concat("there are too few clusters for ", options_.split.folds,
                                 " parts (task.split.folds, task.split.by = \"", options_.split.by,
                                 "\"): give more data, or where all are alike, as mutants of one protein, "
                                 "divide by task.split.by = \"sequence\" or \"column\""));
  }
  if (!options_.test_path.empty())
    context_.info("test       task.test_path is what evaluations and predictions use; the test part of task.",
                  options_.path_key(), " is held out all the same");
}

// Where the user has divided the data, nobody else has looked for samples that are training data, too.
void Dataset::warn_of_equal_sequences() const {
  const ContentKeys& known = splits_.totals(static_cast<size_t>(Split::kTrain)).keys;
  for (const Split split : {Split::kVal, Split::kTest}) {
    std::vector<std::string> names;
    for (uint64_t i = 0; !is_own(split) && i < size(split); ++i)
      if (known.has_any(samples_->keys(row(split, i).sample)))
        names.push_back(names.size() < kNamesShown ? name(split, i) : "");
    if (!names.empty())
      context_.warn("of the ", counted(size(split), samples_->noun()), " of the ", name_of(split), " split ",
                    names.size(), " are in the training split, too (", first_of(names),
                    "): figures over them say little about new proteins");
  }
}

SplitRow Dataset::row(Split split, uint64_t id) const {
  return files::with_data_errors([&] { return splits_of(split).row(static_cast<size_t>(split), id); });
}

std::string Dataset::group(Split split, uint64_t id) const {
  return files::with_data_errors(
      [&] { return samples_of(split).words(row(split, id).sample).cluster.value_or(""); });
}

SampleLabels Dataset::labels(Split split, uint64_t id) const {
  return files::with_data_errors([&] { return labels_.of(samples_of(split), row(split, id).sample); });
}

records::LabelCounts Dataset::label_counts() const {
  records::LabelCounts counts;
  for (const Split split : kAllSplits)
    for (uint64_t id = 0; samples_ && !is_own(split) && id < size(split); ++id) {
      context_.throw_if_cancelled();
      add(labels(split, id), split == Split::kTrain, counts);
    }
  return counts;
}

uint64_t Dataset::key(Split split, uint64_t id) const {
  return files::with_data_errors([&] { return content_key(samples_of(split).keys(row(split, id).sample)); });
}

Frequencies Dataset::frequencies() const {
  const PartTotals& totals = splits_.totals(static_cast<size_t>(Split::kTrain));
  Frequencies counts;
  for (size_t a = 0; a < counts.size(); ++a) counts[a] = 1 + static_cast<double>(totals.amino_acids[a]);
  const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
  for (double& count : counts) count /= all;
  return counts;
}

Learnt Dataset::learnt() const {
  return {.training = splits_.totals(static_cast<size_t>(Split::kTrain)).keys,
          .validation = splits_.totals(static_cast<size_t>(Split::kVal)).keys};
}

Dataset::Seen Dataset::seen(Split split, const Learnt& learnt) const {
  return files::with_data_errors([&] {
    Seen seen;
    for (uint64_t i = 0; i < size(split); ++i) {
      const std::vector<uint64_t> keys = samples_of(split).keys(row(split, i).sample);
      const bool trained = learnt.training.has_any(keys);
      seen.training += trained ? 1 : 0;
      seen.validation += !trained && learnt.validation.has_any(keys) ? 1 : 0;
    }
    return seen;
  });
}

void Dataset::write_table(const std::string& path) const {
  constexpr size_t kBlock = size_t{1} << 20;
  files::with_data_errors([&] {
    files::AppendedFile file(path);
    std::string text = "id,cluster,split,reason,residues\n";
    for (size_t part = 0; part < kParts; ++part)
      for (uint64_t i = 0; i < splits_.size(part); ++i) {
        const SplitRow row = splits_.row(part, i);
        text += csv_field(samples_->name(row.sample)) + "," +
                (part == kLeftOut ? "" : std::to_string(row.cluster)) + "," +
                (part == kLeftOut ? "" : name_of(static_cast<Split>(part))) + "," +
                std::string(text_of(row.reason)) + "," + std::to_string(row.residues) + "\n";
        if (text.size() < kBlock) continue;
        file.append(text);
        text.clear();
      }
    file.append(text);
    file.replace();
  });
}

}  // namespace pipeline::proteins
