// A kept division of the data is found by all that it depends on.
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <vector>

#include "plugins/data/proteins/labels.hpp"
#include "plugins/data/proteins/split_list.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::proteins {
namespace {

TEST(SplitList, TheKeyHasEachOptionAndTheListsContent) {
  const tests::FilesFolder folder;
  const std::string list = folder.write("list.tsv", "id\tcluster\na\t1\n");
  const auto key = [&](const std::function<void(ProteinData&)>& change) {
    ProteinData options;
    options.split.by = "clusters";
    options.split.list = list;
    change(options);
    return SplitList::key(options, folder / "cache", {});
  };
  const std::vector<std::function<void(ProteinData&)>> changes{
      [](ProteinData&) {},
      [](ProteinData& o) { o.split.by = "column"; },
      [](ProteinData& o) { o.split.folds = 7; },
      [](ProteinData& o) { o.split.fold = 3; },
      [](ProteinData& o) { o.split.exact_up_to = 10; },
      [](ProteinData& o) { o.split.identity += 1e-9; },  // divides test data of their own, whatever `by` is
      [](ProteinData& o) { o.split.coverage += 1e-9; },
      [&](ProteinData& o) { o.split.list = folder.write("other.tsv", "id\tcluster\na\t2\n"); },
      [](ProteinData& o) { o.split.list.clear(); },
      [](ProteinData& o) { o.data.id_column = "name"; },
      [](ProteinData& o) { o.data.split_column = "part"; },
      [](ProteinData& o) { o.data.cluster_column = "family"; }};
  std::set<std::string> keys;
  for (const auto& change : changes) keys.insert(key(change));
  EXPECT_EQ(keys.size(), changes.size());
  const auto moved = [&](ProteinData& o) {
    o.split.list = folder.write("moved.tsv", "id\tcluster\na\t1\n");
    o.data.min_residues = 5;  // the division's own
    o.cache_dir = "elsewhere";
  };
  EXPECT_EQ(key(moved), key(changes.front()));
}

TEST(Labels, TheKeyHasEachOptionThatSaysWhatIsALabel) {
  const std::vector<std::function<void(LabelConfig&)>> changes{[](LabelConfig&) {},
                                                               [](LabelConfig& o) { o.per = "residue"; },
                                                               [](LabelConfig& o) { o.source = "backbone"; },
                                                               [](LabelConfig& o) { o.column = "stability"; },
                                                               [](LabelConfig& o) { o.missing = "-"; },
                                                               [](LabelConfig& o) {
                                                                 o.classes = {"a", "b"};
                                                               }};
  std::set<std::string> keys;
  for (const std::string objective : {"classes", "numbers"})
    for (const auto& change : changes) {
      LabelConfig options;
      change(options);
      keys.insert(Labels(objective, options).key());
    }
  EXPECT_EQ(keys.size(), 2 * changes.size());
}

}  // namespace
}  // namespace pipeline::proteins
