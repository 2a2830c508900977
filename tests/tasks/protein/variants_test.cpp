// Mutations as people write them, and their rank correlation with what was measured.
#include <cmath>
#include <sstream>

#include <gmock/gmock.h>

#include "plugins/data/residues/residue.hpp"
#include "plugins/tasks/protein/variants.hpp"
#include "tests/data/proteins/made_up_chains.hpp"
#include "tests/support/test_files.hpp"
#include "tests/tasks/protein/small_task.hpp"

namespace pipeline::tasks::protein {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// M10 K11 A11b V12 of chain A, M10 of chain B.
struct TwoChains {
  std::vector<residues::Residue> a{4}, b{1};
  std::vector<std::string> names{"A", "B"};
  proteins::Sample sample;

  TwoChains() {
    const auto set = [](residues::Residue& residue, char letter, int32_t number, char insertion = ' ') {
      residue.amino_acid = static_cast<uint8_t>(residues::kAminoAcids.find(letter));
      residue.number = number;
      residue.insertion = insertion;
    };
    a.resize(4);
    b.resize(1);
    set(a[0], 'M', 10), set(a[1], 'K', 11), set(a[2], 'A', 11, 'B'), set(a[3], 'V', 12);
    set(b[0], 'M', 10);
    const std::array<std::span<const residues::Residue>, 2> chains{a, b};
    sample = proteins::make_sample(chains);
  }
  std::vector<size_t> places(const std::string& mutation, const std::string& chain = "",
                             int32_t offset = 0) const {
    std::vector<size_t> all;
    for (const Substitution& one : substitutions_of(
             {.id = {}, .mutation = mutation, .chain = chain, .measured = {}}, sample, names, offset))
      all.push_back(one.place);
    return all;
  }
  std::string problem(const std::string& mutation, const std::string& chain = "") const {
    return tests::message_of<files::DataError>([&] { places(mutation, chain); });
  }
};

TEST(Substitutions, AreFoundByNumberInsertionAndChain) {
  const TwoChains two;
  EXPECT_THAT(two.places("K11A"), ElementsAre(1));
  EXPECT_THAT(two.places("A11bV"), ElementsAre(2));
  EXPECT_THAT(two.places("a11BV"), ElementsAre(2));
  EXPECT_THAT(two.places("M10A", "B"), ElementsAre(4));
  for (const char* several :
       {"K11A:V12W", "K11A,V12W", "K11A;V12W", "K11A/V12W", "K11A + V12W", " K11A V12W"})
    EXPECT_THAT(two.places(several), ElementsAre(1, 3)) << several;
}

TEST(Substitutions, MayBeAsHgvsHasThem) {
  const TwoChains two;
  for (const char* one : {"p.Lys11Ala", "Lys11Ala", "p.(Lys11Ala)", "p.K11A", "NP_000550.1:p.Lys11Ala",
                          "p.LYS11ALA", "p.Lys11="})
    EXPECT_THAT(two.places(one), ElementsAre(1)) << one;
  EXPECT_THAT(two.places("p.[Lys11Ala;Val12Trp]"), ElementsAre(1, 3));
  EXPECT_THAT(two.places("p.Ala11BVal"), ElementsAre(2));
  for (const char* wild_type : {"WT", "wt", "_wt", "wild-type", "wild type", "p.=", "p.(=)"})
    EXPECT_THAT(two.places(wild_type), ElementsAre()) << wild_type;
  const auto all = substitutions_of({.id = {}, .mutation = "p.Lys11Trp", .chain = {}, .measured = {}},
                                    two.sample, two.names);
  EXPECT_EQ(residues::kAminoAcids[all.at(0).from], 'K');
  EXPECT_EQ(residues::kAminoAcids[all.at(0).to], 'W');
  for (const char* odd : {"p.Lys11Ter", "p.Lys11*", "p.Lys11fs", "p.Lys11_Val12del", "p.Xyz11Ala"})
    EXPECT_THAT(two.problem(odd), HasSubstr("must be as A23V")) << odd;
}

TEST(Substitutions, NumberedOtherwiseFitAtOneOffset) {
  const TwoChains two;
  const auto offset = [&](const std::vector<std::string>& mutations, const std::string& chain) {
    std::vector<Variant> all;
    for (const std::string& mutation : mutations)
      all.push_back({.id = {}, .mutation = mutation, .chain = chain, .measured = {}});
    std::vector<const Variant*> variants;
    for (const Variant& variant : all) variants.push_back(&variant);
    return fitting_offset(variants, two.sample, two.names);
  };
  EXPECT_EQ(offset({"M1A", "K2A", "V3W", "WT", "odd"}, "A"), 9);
  EXPECT_EQ(offset({"M110A", "K111A"}, "A"), -100);
  EXPECT_EQ(offset({"M10A", "K11A"}, "A"), 0);
  EXPECT_EQ(offset({"M1A", "V2A"}, "A"), std::nullopt) << "nowhere";
  EXPECT_EQ(offset({"WT"}, "A"), std::nullopt);
  EXPECT_THAT(two.places("M1A:V3W", "A", 9), ElementsAre(0, 3));
  EXPECT_THAT(tests::message_of<files::DataError>([&] { two.places("V1A", "A", 9); }),
              HasSubstr("V1A: residue 10 is M, not V"));
}

TEST(Substitutions, ThatCannotBeSayWhy) {
  const TwoChains two;
  EXPECT_EQ(two.problem("M10A"), "M10A: residue 10 is there in several chains: name one in the column chain");
  EXPECT_EQ(two.problem("K12A"), "K12A: residue 12 is V, not K");
  EXPECT_EQ(two.problem("K99A"), "K99A: there is no residue 99; they are numbered 10 to 12");
  EXPECT_THAT(two.problem("K11A", "B"), HasSubstr("there is no residue 11 in chain B"));
  EXPECT_THAT(two.problem("K11A:K11V"), HasSubstr("a residue is in it twice"));
  EXPECT_THAT(two.problem(""), HasSubstr("there is no mutation"));
  for (const char* odd : {"KA", "11A", "K11", "K11AB", "K-A", "X11A", "K11X", "K99999999999A", "K11del"})
    EXPECT_THAT(two.problem(odd), HasSubstr("must be as A23V")) << odd;
}

TEST(Variants, AreThoseOfAProteinByNameOrAccession) {
  const tests::FilesFolder folder;
  const auto read = [&](const std::string& text, const std::string& measured = "") {
    return Variants(folder.write("a.csv", text), {.id = "id", .measured = measured}, records::Quotes::kAuto,
                    folder / "cache", {});
  };
  const Variants all = read("id,mutation,dms,chain\nP1,A1G,0.5,\nP2,A2G,,B\nP1,A3G,-1e-2,\n", "dms");
  ASSERT_EQ(all.of("sp|P1|NAME").size(), 2u);
  EXPECT_EQ(all.of("P1")[1]->mutation, "A3G");
  EXPECT_EQ(all.of("P1")[1]->measured, -0.01);
  EXPECT_EQ(all.of("P2")[0]->measured, std::nullopt);
  EXPECT_EQ(all.of("P2")[0]->chain, "B");
  EXPECT_TRUE(all.of("P3").empty());
  EXPECT_EQ(read("mutation\nA1G\n").of("anything").size(), 1u);
  // One protein under both its names; a chain of a structure under the structure's.
  const Variants both =
      read("id,mutation,chain\nP1,A1G,\nsp|P1|X,A2G,\n1abc,A3G,B\n1abc_B,A4G,\n1abc,A5G,A\n");
  const auto rows = [&](const char* name, const char* chain = "") {
    std::vector<uint64_t> numbers;
    for (const Variant* variant : both.of(name, chain)) numbers.push_back(variant->row);
    return numbers;
  };
  EXPECT_THAT(rows("sp|P1|X"), ElementsAre(0, 1));
  EXPECT_THAT(rows("1abc_B", "B"), ElementsAre(2, 3));
  EXPECT_THAT(rows("1abc_C", "C"), ElementsAre());
  // What is no measurement is left out of the correlation, and told; no more than that is lost.
  const Variants odd = read("id,mutation,dms\nP1,A1G,NA\nP1,A2G, 2 \nP1,A3G,nan\nP1,A4G,high\n", "dms");
  EXPECT_EQ(odd.of("P1").size(), 4u);
  EXPECT_EQ(odd.of("P1")[1]->measured, 2);
  EXPECT_EQ(odd.of("P1")[0]->measured_text, "NA") << "goes out as it came in";
  EXPECT_EQ(read("id,mutation,dms\nP1,A1G,5000000.10\n", "dms").of("P1")[0]->measured_text, "5000000.10");
  EXPECT_EQ(odd.not_numbers(), 3u);
  EXPECT_THAT(odd.first_not_number(), HasSubstr("\"NA\", "));
  const auto problem = [&](const std::string& text, const std::string& measured = "") {
    return tests::message_of<files::DataError>([&] { read(text, measured); });
  };
  EXPECT_THAT(problem("id,mutation\nP1,A1G\n", "dms"), HasSubstr("no column \"dms\""));
  EXPECT_THAT(problem("id,mutation\nP1,A1G\n,A2G\n"),
              HasSubstr("1 of its 2 rows do not say of which protein"));
}

// Scores of mutations by what a model says of residues.

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
