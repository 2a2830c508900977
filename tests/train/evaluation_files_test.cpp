#include "core/train/results/evaluation_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.hpp"
#include "core/train/results/kept_sums.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

constexpr const char* kRemedy = "choose another run.dir";

Evaluation evaluation_with(std::vector<ReportFile> files, double sum = 1) {
  Evaluation evaluation;
  evaluation.sums = {{"", "loss", sum, 2}};
  evaluation.files = std::move(files);
  evaluation.samples = evaluation.available = 5;
  return evaluation;
}

class KeptFiles : public testing::Test {
 protected:
  void write(const std::string& figures, const Evaluation& evaluation) const {
    EvaluationFiles(output_, kRemedy).write(figures, PL_SPLIT_TEST, evaluation);
  }
  std::string problem() const {
    return tests::message_of<Error>([&] { EvaluationFiles(output_, kRemedy); });
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) names.push_back(entry.path().filename());
    if (fs::exists(folder_ / "x-files"))
      for (const auto& entry : fs::directory_iterator(folder_ / "x-files"))
        names.push_back("x-files/" + entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }
  double kept_sum() const { return read_sums(folder_ / "x-files/sums.json", "").values.at(0).sum; }

  tests::FilesFolder folder_;
  const std::string output_ = folder_ / "x.json";
};

TEST_F(KeptFiles, OfAnEarlierEvaluationAreGone) {
  write("old", evaluation_with({{"a.csv", "1"}, {"b.csv", "2"}}, 1));
  EXPECT_THAT(names(),
              ElementsAre("x-files", "x-files/a.csv", "x-files/b.csv", "x-files/sums.json", "x.json"));
  write("new", evaluation_with({{"c.csv", "3"}}, 7));
  EXPECT_THAT(names(), ElementsAre("x-files", "x-files/c.csv", "x-files/sums.json", "x.json"));
  EXPECT_EQ(tests::read_all(output_), "new");
  EXPECT_EQ(kept_sum(), 7);
}

TEST_F(KeptFiles, OfOneThatWasKilledAreNoPartOfTheNext) {
  fs::create_directory(folder_ / "x-files.tmp");
  folder_.write("x-files.tmp/half.csv", "ha");
  write("new", evaluation_with({}));
  EXPECT_THAT(names(), ElementsAre("x-files", "x-files/sums.json", "x.json"));
}

TEST_F(KeptFiles, StayWhereTheNextOnesCannotBeWritten) {
  write("old", evaluation_with({{"a.csv", "1"}}, 1));
  const std::string name(300, 'n');  // longer than file systems take
  EXPECT_EQ(tests::message_of<Error>([&] {
              write("new", evaluation_with({{"b.csv", "2"}, {name, "3"}}, 7));
            }),
            folder_ / "x-files.tmp/" + name + ": cannot be written: File name too long");
  EXPECT_EQ(tests::read_all(output_), "old");
  EXPECT_EQ(kept_sum(), 1);
  write("new", evaluation_with({}));
  EXPECT_THAT(names(), ElementsAre("x-files", "x-files/sums.json", "x.json"));
}

TEST_F(KeptFiles, AreNotPutWhereOtherPeoplesFilesAre) {
  fs::create_directory(folder_ / "x-files");
  const std::string thesis = folder_.write("x-files/thesis.tex", "years of work");
  const std::string expected = thesis +
                               ": is not of the evaluation that is kept in this folder, which the next one "
                               "replaces: move it away, or choose another run.dir";
  EXPECT_EQ(problem(), expected);
  fs::remove(thesis);
  write("old", evaluation_with({{"a.csv", "1"}}));
  EXPECT_EQ(problem(), "(nothing was thrown)");
  folder_.write("x-files/thesis.tex", "years of work");
  EXPECT_EQ(problem(), expected);
  EXPECT_EQ(tests::read_all(thesis), "years of work");
}

}  // namespace
}  // namespace pipeline::train
