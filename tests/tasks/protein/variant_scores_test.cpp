// Scores of mutations by what a model says of residues.
#include <sstream>

#include <gmock/gmock.h>

#include "tests/tasks/protein/small_task.hpp"

namespace pipeline::tasks::protein {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kSlope = 0.5;

struct Scored : SmallTask {
  Scored() : SmallTask("id,sequence\np,ACDAC\nq,AAA\n", PL_PURPOSE_PREDICT) { model.slope = kSlope; }

  // The scores for the whole table that task.predict.mutations names.
  std::string table(const std::string& mutations) {
    config.predict.mutations = folder.write("mutations.csv", mutations);
    ProteinBatch batch;
    batch.ids = {0, 1}, batch.split = Split::kTest;
    Sent sent;
    variant_scores(setting(), data())->predict(batch, inference(), sent.prediction());
    return sent.grown.at("variants.csv");
  }
  std::vector<double> scores(const std::string& mutations, const std::string& scoring) {
    config.predict.scoring = scoring;
    std::istringstream lines(table("id,mutation\n" + mutations));
    std::vector<double> all;
    std::string line, field;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::istringstream fields(line);
      for (int k = 0; k < 4; ++k) std::getline(fields, field, ',');
      all.push_back(std::stod(field));
    }
    return all;
  }
};

TEST(Marginals, AddUpLogOddsOverTheSubstitutions) {
  EXPECT_THAT(Scored().scores("p,A1E\np,A1E:C2A\np,WT\n", "masked"),
              ElementsAre(DoubleNear(-3 * kSlope, 1e-6), DoubleNear(-2 * kSlope, 1e-6), 0));
}

TEST(Marginals, ThatAreMaskedHideWhatAVariantChanges) {
  Scored scored;
  scored.scores("p,A1E:C2A\n", "masked");
  const std::vector<int64_t> hidden{residues::kMaskToken, residues::kMaskToken, 2, 0, 1};
  EXPECT_TRUE(scored.model.seen.at(0).equal(at::tensor(hidden))) << scored.model.seen.at(0);
}

TEST(Marginals, OfTheWildTypeHideNothing) {
  Scored scored;
  scored.scores("p,A1E:C2A\n", "wild-type");
  EXPECT_EQ(scored.model.seen.at(0).eq(residues::kMaskToken).sum().item<int64_t>(), 0);
}

TEST(PseudoLikelihoods, AreThoseOfTheMutantLessTheWildTypes) {
  EXPECT_THAT(Scored().scores("p,A1E\np,WT\n", "pseudo-perplexity"),
              ElementsAre(DoubleNear(-3 * kSlope, 1e-5), 0));
}

TEST(VariantScores, HaveARowForEachMutation) {
  EXPECT_THAT(Scored().table("id,mutation\np,A1C\n"),
              testing::MatchesRegex("id,mutation,chain,score,measured,problem\np,A1C,,-0\\.[0-9]+,,\n"));
}

TEST(VariantScores, SayWhatIsWrongWithAMutation) {
  EXPECT_THAT(Scored().table("id,mutation\nq,C1A\n"), HasSubstr("q,C1A,,,,\"C1A: residue 1 is A, not C\"\n"));
}

TEST(VariantScores, NameMutationsOfOtherProteinsAtTheEnd) {
  EXPECT_THAT(Scored().table("id,mutation\nnobody,A1C\np,A1C\n"),
              HasSubstr("\nnobody,A1C,,,,\"no protein or chain of this name is predicted: it is another, or "
                        "was left out\"\n"));
}

TEST(VariantScores, OfSeveralProteinsNeedTheirNames) {
  EXPECT_THAT(
      tests::message_of<Error>([] { Scored().table("mutation\nA1C\n"); }),
      HasSubstr("predict.mutations: has no column \"id\" (task.data.id_column), and there are 2 proteins"));
}

}  // namespace
}  // namespace pipeline::tasks::protein
