#include "core/report/loss_file.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "core/base/error.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class LossFiles : public testing::Test {
 protected:
  LossFile read(const std::string& text) const { return read_losses(folder_.write("x", text), "x"); }
  // What is wrong with this text, without the file's folder.
  std::string problem_with(const std::string& text) const {
    return tests::message_of<Error>([&] { read(text); }).substr((folder_ / "").size());
  }

  tests::FilesFolder folder_;
};

TEST_F(LossFiles, OfOtherProgramsAreRead) {
  for (const std::string text :
       {"{\"_step\": 10, \"train/loss\": 2.5}\n{\"_step\": 20, \"train/loss\": 2, \"note\": \"x\"}\n",
        "\xef\xbb\xbfiter,\"train_loss\",lr\r\n10,2.5,1e-3\r\n20,2,1e-3\r\n",
        "global_step,loss\n20, 2.0\n10.0,+2.5\n"}) {
    const RunRecord run = read(text).run;
    EXPECT_THAT(run.training.steps, ElementsAre(10, 20)) << text;
    ASSERT_NE(run.training.find("loss"), nullptr) << text;
    EXPECT_THAT(*run.training.find("loss"), ElementsAre(2.5, 2)) << text;
  }
}

TEST_F(LossFiles, WhatIsNotFiniteIsAStepLikeAnyOther) {
  for (const std::string text :
       {"{\"step\": 1, \"loss\": NaN}\n{\"step\": 2, \"loss\": -Infinity}\n{\"step\": 3, \"loss\": null}\n",
        "step,loss\n1,nan\n2,-inf\n3,\n"}) {
    const Curve curve = read(text).run.training;
    EXPECT_THAT(curve.steps, ElementsAre(1, 2, 3)) << text;
    EXPECT_TRUE(std::isnan(curve.find("loss")->at(0)));
    EXPECT_EQ(curve.find("loss")->at(1), -INFINITY);
    EXPECT_TRUE(std::isnan(curve.find("loss")->at(2)));
  }
}

TEST_F(LossFiles, WhatIsChosenAndLeftOutIsSaid) {
  EXPECT_EQ(
      read("step,_step,train_loss,loss\n1,1,5,4\n").how_read,
      folder_ / "x: the step is step (there is _step, too), the loss is loss (there is train_loss, too)");
  EXPECT_EQ(
      read("step,loss,val_loss\n1,4,\n1,,3\n").how_read,
      folder_ / "x: the step is step, the loss is loss; 1 line without a loss left out, the first is line 3")
      << "its step has a loss in another line";
  const LossFile mixed = read(
      "{\"step\": 1, \"loss\": 2}\n{\"step\": 1, \"eval_loss\": 3}\n{\"eval_loss\": 3}\n{\"step\": 2, \"lo");
  EXPECT_EQ(mixed.how_read, folder_ /
                                "x: the step is step, the loss is loss; 2 lines without a loss left out, the "
                                "first is line 2; line 4 is cut short and left out");
  EXPECT_THAT(mixed.run.training.steps, ElementsAre(1));
}

TEST_F(LossFiles, WhatCannotBeReadIsNamed) {
  const std::string whole = ": must be a whole number, 0 or more";
  EXPECT_EQ(problem_with("step,loss\n1,2\n2,3,4\n"), "x:3: cells: 3, and the header has 2");
  EXPECT_EQ(problem_with("step,loss\n1.5,2\n"), "x:2: step = 1.5" + whole);
  EXPECT_EQ(problem_with("step,loss\n-1,2\n"), "x:2: step = -1.0" + whole);
  EXPECT_EQ(problem_with("step,loss\n,2\n"), "x:2: step = null" + whole);
  EXPECT_EQ(problem_with("{\"step\": 1e300, \"loss\": 2}\n"), "x:1: step = 1e+300" + whole);
  EXPECT_EQ(problem_with("{\"loss\": 2}\n{\"step\": 1}\n"), "x:1: has no step");
  EXPECT_EQ(problem_with("step,loss\n1,\"2,5\"\n"), "x:2: loss = \"2,5\": must be a number");
  EXPECT_EQ(problem_with("step,loss\n1,2\n2,1\n1,3\n"),
            "x:4: step = 1: stands in line 2, too: keep the one that counts");
  EXPECT_EQ(problem_with("step,loss,loss\n1,2,3\n"), "x:1: the column loss stands there twice");
  EXPECT_THAT(problem_with("step,accuracy\n1,2\n"), HasSubstr("the columns are: step, accuracy"));
  EXPECT_THAT(problem_with("loss\n2\n"), HasSubstr("has no loss by step"))
      << "lines are not numbered unasked";
  EXPECT_THAT(problem_with(""), HasSubstr("the columns are: none"));
}

}  // namespace
}  // namespace pipeline::report
