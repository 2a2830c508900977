// A model of whose weights nothing can be computed: every verb says so, with the sample, and none hands out
// what only looks like a result.
#include <filesystem>

#include <gmock/gmock.h>

#include "tests/e2e/jobs.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

template <class JobT>
class RuinedModel : public testing::Test, public JobT {
 protected:
  // Ruins the weights by one step that is far too large.
  void SetUp() override {
    this->call("run", {"optimizer.kind=sgd", "optimizer.lr=1e30", "train.max_steps=1", "evaluate.every=0",
                       "evaluate.at_end=false"})
        .ended(0);
  }
  void expect_error(const std::string& verb, const Words& more, const std::string& error) {
    const Result result = this->call(verb, more).ended(2);
    EXPECT_THAT(result.err, AllOf(HasSubstr(error), HasSubstr(" is nan, must be a number"))) << result.out;
  }
};
TYPED_TEST_SUITE(RuinedModel, Jobs, JobNames);

TYPED_TEST(RuinedModel, IsNotEvaluated) {
  this->expect_error("evaluate", {"--split", "val"}, "evaluate: sample");
}

// Reports of a run that evaluates itself, and of a test of rates: all JSON is valid, and what was computed
// and is no number is named.
TYPED_TEST(RuinedModel, IsNamedByEveryReport) {
  const Result run = this->call("run", {"optimizer.kind=sgd", "optimizer.lr=1e30", "train.max_steps=1",
                                        "evaluate.every=0", "run.dir=bad"})
                         .ended(2);
  EXPECT_THAT(run.out, HasSubstr("  loss nan"));
  EXPECT_THAT(run.err, HasSubstr("the run has diverged: the evaluation after step 1 gave loss nan"));
  EXPECT_THAT(pipeline({"ls", "."}, this->folder()).out, HasSubstr("  diverged  1 "));
  const auto verdict = [&] {
    EXPECT_EQ(pipeline({"report", "bad"}, this->folder()).code, 0);
    const std::string page = read_text(this->path("bad/report.html")), begin = "id=\"data\">";
    const size_t at = page.find(begin) + begin.size();
    return nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at))["verdict"]
        .get<std::string>();
  };
  EXPECT_THAT(verdict(), HasSubstr("the run has diverged"));
  fs::remove(this->path("bad/diverged.txt"));
  EXPECT_THAT(verdict(), HasSubstr("loss is not finite in 1 of 1 evaluations, first after step 1"));
  EXPECT_EQ(pipeline({"csv", "bad"}, this->folder()).code, 0);
  EXPECT_THAT(read_text(this->path("bad/eval.csv")), HasSubstr(",NaN"));

  const Result rates =
      this->call("find-lr", {"--start", "1e29", "--end", "1e30", "--steps", "5", "optimizer.kind=sgd"})
          .ended(0);
  EXPECT_THAT(rates.out, HasSubstr("no rate is suggested"));
  size_t files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(this->folder())) {
    const std::string kind = entry.path().extension();
    std::vector<std::string> texts;
    if (kind == ".json") texts.push_back(read_text(entry.path()));
    if (kind == ".jsonl") texts = read_lines(entry.path());
    for (const std::string& text : texts)
      EXPECT_TRUE(nlohmann::json::accept(text)) << entry.path() << ": " << text;
    files += texts.empty() ? 0 : 1;
  }
  EXPECT_GE(files, 5u);
}

using OfSummaries = RuinedModel<SmallJob>;
TEST_F(OfSummaries, WritesNone) {
  for (const char* method : {"greedy", "sample", "beam"})
    expect_error("predict", {std::string("task.generate.method=") + method}, "sample \"x1\": summary");
}

using OfProteins = RuinedModel<SmallEsm2Job>;
TEST_F(OfProteins, GivesNoScores) {
  expect_error("predict", {}, "sample \"");
  expect_error("predict", {"task.predict.what=[\"embeddings\"]"}, ": embedding");
}

using OfPictures = RuinedModel<SmallVlmJob>;
TEST_F(OfPictures, GivesNoAnswers) { expect_error("predict", {}, "sample \"c200\": answer"); }

}  // namespace
}  // namespace pipeline::tests
