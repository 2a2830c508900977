// Which sample goes to which split.
#include <algorithm>
#include <initializer_list>
#include <set>

#include "plugins/tasks/protein/clusters/clusters.hpp"
#include "plugins/tasks/protein/task/dataset.hpp"
#include "plugins/tasks/protein/task/report_text.hpp"

namespace pipeline::protein {

// Whole clusters go to a split.
void Dataset::deal_out(std::vector<Entry> all) {
  chains_ = count_chains(all);
  const bool exact = comparison_.cluster(all);
  std::vector<uint64_t> residues;
  for (const Entry& entry : all) {
    if (entry.cluster >= residues.size()) residues.resize(entry.cluster + 1);
    residues[entry.cluster] += static_cast<uint64_t>(entry.residues);
  }
  const auto folds = static_cast<uint32_t>(config_.split.folds),
             fold = static_cast<uint32_t>(config_.split.fold);
  if (folds > residues.size())
    context_.warn("task.split.folds = ", folds, ": there are only ", residues.size(),
                  " clusters of similar sequences, so the folds from ", residues.size(), " on are empty");
  std::vector<Split> split_of;  // by cluster
  for (const uint32_t part : assign_folds(residues, folds))
    split_of.push_back(part == fold                 ? Split::kTest
                       : part == (fold + 1) % folds ? Split::kVal
                                                    : Split::kTrain);
  if (!exact) keep_apart(all, split_of);
  for (Entry& entry : all) entries_[static_cast<size_t>(split_of[entry.cluster])].push_back(std::move(entry));
}

// Of what the prefilter has missed, nothing shall cross from training to what is held out, nor from
// validation to test. Clusters that turn out to be like some of training are learnt from, too, and so on with
// those that are like these; then likewise those of validation go to test.
void Dataset::keep_apart(const std::vector<Entry>& all, std::vector<Split>& split_of) const {
  const auto in = [&](std::initializer_list<Split> splits) {
    std::vector<const Entry*> found;
    for (const Entry& entry : all)
      if (std::find(splits.begin(), splits.end(), split_of[entry.cluster]) != splits.end())
        found.push_back(&entry);
    return found;
  };
  const auto move_to = [&](Split split, std::vector<const Entry*> others) {
    std::set<uint32_t> moved;
    for (std::vector<const Entry*> like = in({split}); !like.empty();) {
      const std::vector<uint8_t> alike = comparison_.similar(others, like, chains_);
      std::set<uint32_t> clusters;
      for (size_t i = 0; i < others.size(); ++i)
        if (alike[i] != 0) clusters.insert(others[i]->cluster);
      const auto middle = std::stable_partition(others.begin(), others.end(), [&](const Entry* entry) {
        return !clusters.contains(entry->cluster);
      });
      like.assign(middle, others.end());
      others.erase(middle, others.end());
      moved.merge(clusters);
    }
    for (const uint32_t cluster : moved) split_of[cluster] = split;
    return moved.size();
  };

  const std::vector<const Entry*> learnt = in({Split::kTrain}), held_out = in({Split::kVal, Split::kTest});
  if (Comparison::is_affordable(held_out, learnt)) {
    const size_t to_training = move_to(Split::kTrain, held_out),
                 to_test = move_to(Split::kTest, in({Split::kVal}));
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

// Training does not depend on test data of their own, and these not on the rest: only what is said of them
// does.
void Dataset::take_test_structures(std::vector<Entry> test, const Learnt* learnt) {
  if (context_.run().purpose != PL_PURPOSE_PREDICT) {
    comparison_.cluster(test);
    const Learnt now = this->learnt();
    const ContentKeys& known = learnt != nullptr ? learnt->training : now.training;
    std::vector<const Entry*> references, queries;  // what is known itself is not looked for
    std::vector<std::string> same, alike;           // names
    for (const std::vector<Entry>& split : entries_)
      for (const Entry& entry : split)
        if (any_of(entry.keys, known)) references.push_back(&entry);
    for (const Entry& entry : test)
      if (any_of(entry.keys, known))
        same.push_back(entry.name);
      else
        queries.push_back(&entry);
    const std::vector<uint8_t> found = comparison_.similar(queries, references, chains_ + count_chains(test));
    for (size_t i = 0; i < queries.size(); ++i)
      if (found[i] != 0) alike.push_back(queries[i]->name);
    const auto shown = [](const std::vector<std::string>& names) {
      return names.empty() ? "" : " (" + first_of(names) + ")";
    };
    if (same.size() + alike.size() > 0)
      context_.warn("of the ", test.size(), " samples of task.test_path ", same.size(), " are training data",
                    shown(same), ", and ", alike.size(), " are like some that are", shown(alike),
                    ": figures over them say little about new proteins");
  }
  entries_[static_cast<size_t>(Split::kTest)] = std::move(test);
}

}  // namespace pipeline::protein
