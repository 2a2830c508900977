// Scores of mutations by what a model says of residues.
#include "plugins/tasks/protein/variant_scores.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tasks/protein/small_task.hpp"

namespace pipeline::tasks::protein {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kSlope = 0.5;

struct Scored : SmallTask {
  Scored() : SmallTask("id,sequence\np,ACDAC\nq,AAA\n", PL_PURPOSE_PREDICT) { model.slope = kSlope; }

  proteins::Sample sample() { return data().sample(Split::kTest, 0); }
  // Of the whole table that task.predict.mutations names.
  std::string table(const std::string& mutations) {
    config.predict.mutations = folder.write("mutations.csv", mutations);
    const Setting lent = setting();
    VariantScores scores(lent, data());
    ProteinBatch batch;
    batch.ids = {0, 1}, batch.split = Split::kTest;
    Sent sent;
    scores.predict(batch, inference(), sent.prediction());
    return sent.grown.at("variants.csv");
  }
};

const Substitutions kOne{{.place = 0, .from = 0, .to = 3}},
    kTwo{{.place = 0, .from = 0, .to = 3}, {.place = 1, .from = 1, .to = 0}};

TEST(Marginals, AddUpLogOddsOverTheSubstitutions) {
  Scored scored;
  EXPECT_THAT(marginals(scored.sample(), {kOne, kTwo, {}}, true, Packing::kSequence, scored.inference()),
              ElementsAre(DoubleNear(-3 * kSlope, 1e-6), DoubleNear(-2 * kSlope, 1e-6), 0));
}

TEST(Marginals, ThatAreMaskedHideWhatAVariantChanges) {
  Scored scored;
  marginals(scored.sample(), {kTwo}, true, Packing::kSequence, scored.inference());
  const at::Tensor expected =
      at::tensor({residues::kMaskToken, residues::kMaskToken, int64_t{2}, int64_t{0}, int64_t{1}});
  EXPECT_TRUE(scored.model.seen.at(0).equal(expected)) << scored.model.seen.at(0);
}

TEST(Marginals, OfTheWildTypeHideNothing) {
  Scored scored;
  marginals(scored.sample(), {kTwo}, false, Packing::kSequence, scored.inference());
  EXPECT_EQ(scored.model.seen.at(0).eq(residues::kMaskToken).sum().item<int64_t>(), 0);
}

TEST(PseudoLikelihoods, AreThoseOfTheMutantLessTheWildTypes) {
  Scored scored;
  EXPECT_THAT(pseudo_likelihoods(scored.sample(), {kOne, {}}, Packing::kSequence, scored.inference()),
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
  EXPECT_THAT(
      Scored().table("id,mutation\nnobody,A1C\np,A1C\n"),
      HasSubstr("\nnobody,A1C,,,,\"no protein or chain of this name is predicted: it is another, or was "
                "left out\"\n"));
}

TEST(VariantScores, OfSeveralProteinsNeedTheirNames) {
  EXPECT_THAT(tests::message_of<Error>([] { Scored().table("mutation\nA1C\n"); }),
              HasSubstr("predict.mutations: has no column \"id\" (task.data.id_column), and there are 2 "
                        "proteins"));
}

}  // namespace
}  // namespace pipeline::tasks::protein
