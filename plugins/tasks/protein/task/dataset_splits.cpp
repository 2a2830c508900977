// Which sample goes to which split.
#include <algorithm>
#include <set>

#include "plugins/tasks/protein/clusters/folds.hpp"
#include "plugins/tasks/protein/task/dataset.hpp"

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
  const auto folds = static_cast<uint32_t>(config_.split.folds), fold = static_cast<uint32_t>(config_.split.fold);
  std::vector<Split> split_of;  // by cluster
  for (const uint32_t part : assign_folds(residues, folds))
    split_of.push_back(part == fold ? Split::kTest : part == (fold + 1) % folds ? Split::kVal : Split::kTrain);
  if (!exact) keep_apart(all, split_of);
  for (Entry& entry : all) entries_[static_cast<size_t>(split_of[entry.cluster])].push_back(std::move(entry));
}

// Of what the prefilter has missed, nothing shall cross from training to what is held out: clusters that turn out to be like some that are
// learnt from are learnt from, too, and so on with those that are like these.
void Dataset::keep_apart(const std::vector<Entry>& all, std::vector<Split>& split_of) const {
  std::vector<const Entry*> held_out, learnt;
  for (const Entry& entry : all) (split_of[entry.cluster] == Split::kTrain ? learnt : held_out).push_back(&entry);
  if (!Comparison::is_affordable(held_out, learnt)) {
    context_.warn("held out   ", held_out.size(), " samples of the test and validation parts are too many to be aligned with ",
                  learnt.size(), " of training one by one: distant relatives may be among both");
    return;
  }
  std::set<uint32_t> moved;
  for (std::vector<const Entry*> like = learnt; !like.empty();) {
    const std::vector<uint8_t> alike = comparison_.similar(held_out, like, chains_);
    std::set<uint32_t> clusters;
    for (size_t i = 0; i < held_out.size(); ++i)
      if (alike[i] != 0) clusters.insert(held_out[i]->cluster);
    const auto middle =
        std::stable_partition(held_out.begin(), held_out.end(), [&](const Entry* entry) { return !clusters.contains(entry->cluster); });
    like.assign(middle, held_out.end());
    held_out.erase(middle, held_out.end());
    moved.merge(clusters);
  }
  for (const uint32_t cluster : moved) split_of[cluster] = Split::kTrain;
  context_.info("held out   every chain of the test and validation parts was aligned with those of training; ", moved.size(),
                " clusters that are like some there are learnt from, too");
}

// Training does not depend on test data of their own, and these not on the rest: only what is said of them does.
void Dataset::take_test_structures(std::vector<Entry> test, const Learnt* learnt) {
  if (context_.run().purpose != PL_PURPOSE_PREDICT) {
    comparison_.cluster(test);
    const Learnt now = this->learnt();
    const std::vector<uint64_t>& known = learnt != nullptr ? learnt->training : now.training;
    std::vector<const Entry*> references, queries;  // of those whose content is known there is nothing to be found out
    for (const std::vector<Entry>& split : entries_)
      for (const Entry& entry : split)
        if (any_of(entry.keys, known)) references.push_back(&entry);
    for (const Entry& entry : test)
      if (!any_of(entry.keys, known)) queries.push_back(&entry);
    const size_t same = test.size() - queries.size();
    const std::vector<uint8_t> found = comparison_.similar(queries, references, chains_ + count_chains(test));
    const auto alike = std::count(found.begin(), found.end(), 1);
    if (same > 0 || alike > 0)
      context_.warn("of the ", test.size(), " samples of task.test_path ", same, " were learnt from, and ", alike,
                    " are like some that were: figures over them say little about new proteins");
  }
  entries_[static_cast<size_t>(Split::kTest)] = std::move(test);
}

}  // namespace pipeline::protein
