#include "plugins/tasks/protein/predictions.hpp"
#include "plugins/data/residues/residue.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "plugins/scores/figures/svg.hpp"

namespace pipeline::tasks::protein {
namespace {

using ::testing::HasSubstr;
using testing::Not;

size_t count(const std::string& text, const std::string& part) {
  size_t times = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++times;
  return times;
}

const std::string kCell = "h13v13h-13z";

struct Fixture {
  proteins::Sample sample;
  Predicted predicted;

  Fixture() : predicted{sample, {"A", "b,c"}, {}} {
    const auto add = [&](char letter, int32_t number, char insertion, int64_t chain) {
      residues::Residue residue;
      sample.codes.push_back(
          static_cast<uint8_t>(std::min(residues::kAminoAcids.find(letter), size_t{residues::kUnknown})));
      residue.number = number;
      residue.insertion = insertion;
      sample.backbone.push_back(residue);
      sample.chains.push_back(chain);
      std::vector<float> log_p(residues::kAminoAcidCount, std::log(0.5f / 18));
      log_p[0] = std::log(0.3f);  // A
      log_p[2] = std::log(0.2f);  // D
      predicted.log_p.insert(predicted.log_p.end(), log_p.begin(), log_p.end());
    };
    add('A', 52, ' ', 0);
    add('D', 52, 'A', 0);
    add('X', -3, ' ', 1);
  }
};

TEST(Predictions, ARowPerResidueWithInsertionCodeAndTheLikeliest) {
  const Fixture f;
  const std::string table = residue_table(f.predicted, 2);
  EXPECT_THAT(table,
              testing::StartsWith("chain,number,insertion,residue,probability,top1,p1,top2,p2,entropy\n"
                                  "A,52,,A,0.3000,A,0.3000,D,0.2000,"));
  EXPECT_THAT(table, HasSubstr("\nA,52,A,D,0.2000,A,0.3000,D,0.2000,"));
  EXPECT_THAT(table, HasSubstr("\n\"b,c\",-3,,X,,A,0.3000,D,0.2000,"));
}

TEST(Predictions, EntropyIsInNats) {
  const Fixture f;
  const double p = 0.5 / 18, entropy = -(0.3 * std::log(0.3) + 0.2 * std::log(0.2) + 18 * p * std::log(p));
  EXPECT_NEAR(summarize(f.predicted).entropy, entropy, 1e-5);
}

TEST(Predictions, LogOddsAreAgainstTheResidueThatIsThere) {
  const Fixture f;
  const std::string table = mutation_table(f.predicted);
  EXPECT_THAT(table, HasSubstr("\nA,52,,A,0.0000,-2.3795,-0.4055,"));  // ln(0.2 / 0.3)
  EXPECT_THAT(table, HasSubstr("\nA,52,A,D,0.4055,-1.9741,0.0000,"));
  EXPECT_THAT(table, HasSubstr("\n\"b,c\",-3,,X,,,"));
}

TEST(Predictions, SummaryCountsKnownResidues) {
  const Fixture f;
  const Summary summary = summarize(f.predicted);
  EXPECT_EQ(summary.residues, 3);
  EXPECT_EQ(summary.known, 2);
  EXPECT_DOUBLE_EQ(summary.recovery, 0.5);
  EXPECT_NEAR(summary.perplexity, std::exp(-(std::log(0.3) + std::log(0.2)) / 2), 1e-5);
}

TEST(HeatMap, EscapesLabelsAndGreysWhatIsNoNumber) {
  const std::string svg =
      figures::draw({.title = "<&>", .rows = {"r"}, .columns = {"1", "2"}, .values = {0.5, std::nan("")}});
  EXPECT_THAT(svg, HasSubstr("&lt;&amp;&gt;"));
  EXPECT_THAT(svg, Not(HasSubstr("<&>")));
  EXPECT_EQ(count(svg, kCell), 2u);
  EXPECT_EQ(count(svg, "#c8c8c8"), 1u);
}

TEST(HeatMap, LongOnesAreWrapped) {
  figures::HeatMap map{.rows = {"a", "b"}, .wrap = 10};
  for (int i = 0; i < 25; ++i) map.columns.push_back(std::to_string(i));
  map.values.assign(50, 1);
  const std::string svg = figures::draw(map);
  EXPECT_EQ(count(svg, kCell), 50u);
  EXPECT_EQ(count(svg, ">b</text>"), 3u) << "the row's label stands in every line";
}

}  // namespace
}  // namespace pipeline::tasks::protein
