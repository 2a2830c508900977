#include "plugins/data/proteins/division.hpp"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <set>
#include <unordered_map>

#include "plugins/data/clusters/clusters.hpp"
#include "plugins/data/proteins/report_text.hpp"

namespace pipeline::proteins {
namespace {

constexpr uint32_t kDivisionVersion = 1;  // raise it whenever the same sequences would be divided otherwise
constexpr uint64_t kRowsBetweenReports = 4096;
// Test data of one's own beyond this are not compared, with each other or with training data: that would take
// longer than what is to be learnt from it is worth.
constexpr uint64_t kMostCompared = 50'000, kMostKnown = 200'000;

size_t number_of(Split split) { return static_cast<size_t>(split); }

// Makes each key a cluster, numbered in the order in which they first appear.
void number_clusters(std::vector<SplitRow>& rows) {
  std::unordered_map<uint64_t, uint32_t> numbers;
  for (SplitRow& row : rows)
    row.cluster = numbers.try_emplace(row.cluster_key, static_cast<uint32_t>(numbers.size())).first->second;
}

// Groups equal samples.
void group_equal(const Samples& samples, std::vector<SplitRow>& rows) {
  for (SplitRow& row : rows) row.cluster_key = content_key(samples.keys(row.sample));
  number_clusters(rows);
}

}  // namespace

// Divisions of sequences are kept in the cache; for a few thousand chains of structures it is not worth it.
Splits Division::kept(const Samples& samples, const std::string& what,
                      const std::function<SplitRows()>& make) const {
  if (std::string_view(samples.noun()) != "sequence") return Splits(make(), samples);
  const std::string folder = cache_folder(options_, context_);
  const files::Hooks hooks = data_hooks("dividing sequences", context_);
  files::Hasher128 key;
  for (const std::string& part :
       {what, samples.fingerprint(), SplitList::key(options_, folder, hooks), labels_.key(),
        std::to_string(options_.data.min_residues), std::to_string(kDivisionVersion)})
    key.update(part).update("\n");
  const files::Hash128 hash = key.finish();
  return Splits::in_file((std::filesystem::path(folder) / ("protein-" + hash.hex() + ".split")).string(),
                         hash, samples, hooks, make);
}

Splits Division::of_training_data(const Samples& samples) const {
  const std::string what = concat("task.", options_.path_key(), " = ", options_.path().string());
  return kept(samples, "training", [&] {
    require_labels(samples, what);
    SplitRows parts = divide(samples, what);
    leave_out_unlabelled(samples, parts);
    return parts;
  });
}

Splits Division::of_own_test_data(const Samples& samples) const {
  // What is only predicted needs no intervals.
  const bool is_predicted = context_.run().purpose == PL_PURPOSE_PREDICT,
             is_compared = !is_predicted && samples.size() <= kMostCompared;
  const char* const kind = is_compared ? "test, compared" : is_predicted ? "test, all predicted" : "test";
  return kept(samples, kind, [&] {
    const std::string what = "task.test_path = " + options_.test_path.string();
    if (!is_predicted) require_labels(samples, what);
    SplitRows parts;
    std::vector<SplitRow>& test = parts[number_of(Split::kTest)];
    test =
        usable(samples, is_predicted ? kLeastPredicted : options_.data.min_residues, parts[kLeftOut], what);
    for (SplitRow& row : test) row.reason = Reason::kOwnTest;
    if (is_compared)
      comparison_.cluster(samples, test);
    else
      group_equal(samples, test);
    if (!is_predicted) leave_out_unlabelled(samples, parts);
    return parts;
  });
}

std::vector<SplitRow> Division::usable(const Samples& samples, int64_t least, std::vector<SplitRow>& left_out,
                                       const std::string& what) const {
  std::vector<SplitRow> rows;
  uint64_t residues = 0;
  std::vector<std::string> names;
  for (uint64_t i = 0; i < samples.size(); ++i) {
    if (i % kRowsBetweenReports == 0) context_.throw_if_cancelled();
    const Samples::Size size = samples.size_of(i);
    SplitRow row{.sample = static_cast<uint32_t>(i),
                 .residues = size.residues,
                 .known = size.known,
                 .chains = size.chains};
    if (static_cast<int64_t>(size.known) >= least) {
      rows.push_back(row);
      continue;
    }
    row.reason = Reason::kTooFew;
    left_out.push_back(row);
    residues += size.residues;
    names.push_back(left_out.size() <= kNamesShown ? samples.name(i) : "");
  }
  if (!rows.empty()) return rows;
  fail_with(PL_ERROR_CONFIG, what, ": no sample is left without ",
            left_out_text(names, residues, samples.noun(), least));
}

// Comes before anything that takes long.
void Division::require_labels(const Samples& samples, const std::string& what) const {
  if (!labels_.is_wanted()) return;
  bool has_column = labels_.is_from_structures();
  for (uint64_t i = 0; i < samples.size(); ++i) {
    if (i % kRowsBetweenReports == 0) context_.throw_if_cancelled();
    if (labels_.of(samples, i).problem.empty()) return;
    has_column = has_column || samples.label(i);
  }
  fail_with(PL_ERROR_CONFIG, what, ": none of ", counted(samples.size(), samples.noun()),
            " has a label (task.label): ",
            has_column ? concat(samples.name(0), ": ", labels_.of(samples, 0).problem)
                       : concat("there is no column \"", options_.label.column, "\" (task.label.column)"));
}

// The labelled samples stay where they would be among all: a stage on masked residues, which learns from all,
// and one on labels hold out the same.
void Division::leave_out_unlabelled(const Samples& samples, SplitRows& parts) const {
  for (size_t part = 0; labels_.is_wanted() && part < kLeftOut; ++part) {
    context_.throw_if_cancelled();
    const auto middle = std::stable_partition(
        parts[part].begin(), parts[part].end(),
        [&](const SplitRow& row) { return labels_.of(samples, row.sample).problem.empty(); });
    for (auto row = middle; row != parts[part].end(); ++row) {
      row->reason = Reason::kNoLabel;
      parts[kLeftOut].push_back(*row);
    }
    parts[part].erase(middle, parts[part].end());
  }
}

SplitRows Division::divide(const Samples& samples, const std::string& what) const {
  const files::Hooks hooks = data_hooks("dividing", context_);
  SplitRows parts;
  std::vector<SplitRow> rows = usable(samples, options_.data.min_residues, parts[kLeftOut], what);
  const std::string& by = options_.split.by;
  if (by == "similarity") {
    const bool exact = comparison_.cluster(samples, rows);
    deal_out(samples, rows, exact, parts);
    return parts;
  }
  group_equal(samples, rows);
  const SplitList list(options_, cache_folder(options_, context_), hooks);
  uint64_t alone = 0;
  if (by == "clusters") {
    for (SplitRow& row : rows) {
      const auto word = list.words(samples, row.sample).cluster;
      if (word && !word->empty())
        row.cluster_key = hash_of(*word);
      else
        ++alone;
    }
    if (alone == rows.size())
      fail_with(PL_ERROR_CONFIG, "task.split.by = \"clusters\": none of the ",
                counted(rows.size(), samples.noun()), " has a cluster: ",
                options_.split.list.empty()
                    ? concat("give them a column \"", options_.data.cluster_column,
                             "\" (task.data.cluster_column), or set task.split.list")
                    : concat("task.split.list = ", options_.split.list.string(),
                             " has none of their names, as ", samples.name(rows.front().sample)));
    number_clusters(rows);
  }
  if (by == "column")
    deal_out_by_column(samples, list, std::vector(rows), parts);
  else
    deal_out(samples, rows, true, parts);
  if (alone > 0)
    context_.warn(alone, " of ", counted(rows.size(), samples.noun()),
                  " have no cluster: each of them is one by itself, with what equals it");
  if (list.unused() > 0)
    context_.warn("task.split.list = ", options_.split.list.string(), ": ", list.unused(), " of its ",
                  list.size(), " names are not in ", options_.path().string());
  return parts;
}

// Deals out whole clusters to the splits.
void Division::deal_out(const Samples& samples, const std::vector<SplitRow>& rows, bool exact,
                        SplitRows& parts) const {
  std::vector<uint64_t> residues;  // by cluster
  for (const SplitRow& row : rows) {
    if (row.cluster >= residues.size()) residues.resize(row.cluster + 1);
    residues[row.cluster] += row.residues;
  }
  const auto folds = static_cast<uint32_t>(options_.split.folds),
             fold = static_cast<uint32_t>(options_.split.fold);
  if (folds > residues.size())
    context_.warn("task.split.folds = ", folds, ": there are only ", counted(residues.size(), "cluster"),
                  ", so the folds from ", residues.size(), " on are empty");
  std::vector<Split> split_of;
  for (const uint32_t part : clusters::assign_folds(residues, folds))
    split_of.push_back(part == fold                 ? Split::kTest
                       : part == (fold + 1) % folds ? Split::kVal
                                                    : Split::kTrain);
  std::vector<Reason> reason_of(split_of.size(), Reason::kFold);
  if (!exact) keep_apart(samples, rows, split_of, reason_of);
  for (SplitRow row : rows) {
    row.reason = reason_of[row.cluster];
    parts[number_of(split_of[row.cluster])].push_back(row);
  }
}

void Division::deal_out_by_column(const Samples& samples, const SplitList& list, std::vector<SplitRow>&& rows,
                                  SplitRows& parts) const {
  std::vector<std::string> names;
  std::set<std::string> others;
  constexpr size_t kMostOthers = 100;
  std::vector<std::optional<Split>> splits;
  for (SplitRow& row : rows) {
    const Samples::Words words = list.words(samples, row.sample);
    const std::optional<Split> split = split_named(words.split.value_or(""));
    splits.push_back(split);
    row.reason = split ? Reason::kColumn : Reason::kNoWord;
    if (words.cluster && !words.cluster->empty()) row.cluster_key = hash_of(*words.cluster);
    if (split) continue;
    names.push_back(names.size() < kNamesShown ? samples.name(row.sample) : "");
    if (words.split && !words.split->empty() && others.size() < kMostOthers)
      others.insert("\"" + *words.split + "\"");
  }
  number_clusters(rows);
  for (size_t i = 0; i < rows.size(); ++i)
    parts[splits[i] ? number_of(*splits[i]) : kLeftOut].push_back(rows[i]);
  const std::string where =
      options_.split.list.empty()
          ? concat("the column \"", options_.data.split_column, "\" (task.data.split_column)")
          : concat("task.split.list = ", options_.split.list.string());
  if (names.size() == rows.size())
    fail_with(PL_ERROR_CONFIG, "task.split.by = \"column\": ", where,
              " says train, val or test of none of the ", counted(rows.size(), samples.noun()), ", as ",
              names.front(),
              others.empty() ? "" : concat("; it has ", first_of({others.begin(), others.end()})));
  if (!names.empty())
    context_.warn("left out   ", counted(names.size(), samples.noun()), ", of which ", where,
                  " does not say train, val or test: ", first_of(names),
                  others.empty() ? "" : concat("; it has ", first_of({others.begin(), others.end()})));
}

// The prefilter may have missed similar pairs, but none shall be split between training and what is held out,
// nor between validation and test. So clusters that turn out to be like training join it, then those that are
// like these, and so on; after that, those of validation that are like test join test in the same way.
void Division::keep_apart(const Samples& samples, const std::vector<SplitRow>& rows,
                          std::vector<Split>& split_of, std::vector<Reason>& reason_of) const {
  const size_t chains = count_chains(rows);
  const auto in = [&](std::initializer_list<Split> splits) {
    std::vector<SplitRow> found;
    for (const SplitRow& row : rows)
      if (std::find(splits.begin(), splits.end(), split_of[row.cluster]) != splits.end())
        found.push_back(row);
    return found;
  };
  const auto move_to = [&](Split split, Reason reason, std::vector<SplitRow> others) {
    std::set<uint32_t> moved;
    for (std::vector<SplitRow> like = in({split}); !like.empty();) {
      const std::vector<uint8_t> alike = comparison_.similar({samples, others}, {samples, like}, chains);
      std::set<uint32_t> clusters;
      for (size_t i = 0; i < others.size(); ++i)
        if (alike[i] != 0) clusters.insert(others[i].cluster);
      const auto middle = std::stable_partition(
          others.begin(), others.end(), [&](const SplitRow& row) { return !clusters.contains(row.cluster); });
      like.assign(middle, others.end());
      others.erase(middle, others.end());
      moved.merge(clusters);
    }
    for (const uint32_t cluster : moved) split_of[cluster] = split, reason_of[cluster] = reason;
    return moved.size();
  };

  const std::vector<SplitRow> learnt = in({Split::kTrain}), held_out = in({Split::kVal, Split::kTest});
  if (Comparison::is_affordable(held_out, learnt)) {
    const size_t to_training = move_to(Split::kTrain, Reason::kLikeTraining, held_out),
                 to_test = move_to(Split::kTest, Reason::kLikeTest, in({Split::kVal}));
    context_.info(
        "held out   every chain of the test and validation parts was aligned with those of training, and "
        "with each other; ",
        to_training, " clusters similar to training data are used for training, too, and ", to_test,
        " of validation similar to test are in test");
  } else {
    context_.warn("held out   ", held_out.size(),
                  " samples of the test and validation parts are too many to be aligned with ", learnt.size(),
                  " of training one by one: distant relatives may be among both");
  }
}

// Training does not depend on one's own test data, nor do these on the rest: only what is said of them does.
void Division::compare(const Samples& test, const Splits& test_splits, const Samples& training,
                       const Splits& splits, const ContentKeys& known) const {
  constexpr size_t kTest = static_cast<size_t>(Split::kTest);
  std::vector<SplitRow> references, queries;  // test samples that are known themselves are left out
  std::vector<std::string> same, alike;       // names
  size_t chains = 0;
  uint64_t all = 0;
  for (size_t part = 0; part < kLeftOut; ++part) all += splits.size(part);
  for (uint64_t i = 0; i < test_splits.size(kTest); ++i) {
    const SplitRow row = test_splits.row(kTest, i);
    chains += row.chains;
    if (known.has_any(test.keys(row.sample)))
      same.push_back(test.name(row.sample));
    else
      queries.push_back(row);
  }
  const bool is_compared = all <= kMostKnown && queries.size() <= kMostCompared;
  for (size_t part = 0; is_compared && part < kLeftOut; ++part)
    for (uint64_t i = 0; i < splits.size(part); ++i) {
      const SplitRow row = splits.row(part, i);
      chains += row.chains;
      if (known.has_any(training.keys(row.sample))) references.push_back(row);
    }
  const std::vector<uint8_t> found = comparison_.similar({test, queries}, {training, references}, chains);
  for (size_t i = 0; i < queries.size(); ++i)
    if (found[i] != 0) alike.push_back(test.name(queries[i].sample));
  const auto shown = [](const std::vector<std::string>& names) {
    return names.empty() ? "" : " (" + first_of(names) + ")";
  };
  if (!is_compared)
    context_.warn("the ", queries.size(), " samples of task.test_path are not compared with the ", all,
                  " of ", options_.path().string(),
                  ", which are too many: some may be similar to training data without being equal");
  if (same.size() + alike.size() > 0)
    context_.warn("of the ", test_splits.size(kTest), " samples of task.test_path ", same.size(),
                  " are training data", shown(same), ", and ", alike.size(), " are like some that are",
                  shown(alike), ": figures over them say little about new proteins");
}

}  // namespace pipeline::proteins
