// Peptides too short for any alignment of theirs to mean something.
#include <gmock/gmock.h>

#include "plugins/data/clusters/sequence_set.hpp"
#include "tests/data/clusters/sequences.hpp"

namespace pipeline::clusters {
namespace {

using testing::ElementsAre;

TEST(ShortSequences, EqualOnesAreTogether) {
  EXPECT_THAT(clusters_of({"A", "GG", "A", "", "gg", ""}), ElementsAre(0, 1, 0, 2, 1, 2));
}

TEST(ShortSequences, ThoseThatAreContainedJoinWhatContainsThem) {
  Maker maker(1);
  for (const size_t exact_up_to : {3000, 0}) {
    std::string protein = maker.sequence(200);
    for (size_t length = 1; length <= 40; ++length) {
      EXPECT_THAT(clusters_of({protein, protein.substr(77, length)}, {.exact_up_to = exact_up_to}),
                  ElementsAre(0, 0))
          << length;
    }
  }
}

TEST(ShortSequences, DoNotJoinTheProteinsThatContainThem) {
  Maker maker(2);
  const std::string one = maker.sequence(100) + "SLAKE" + maker.sequence(100),
                    other = maker.sequence(100) + "SLAKE" + maker.sequence(90);
  EXPECT_THAT(clusters_of({"SLAKE", one, other}), ElementsAre(0, 0, 1));
  EXPECT_THAT(clusters_of({other, one, "SLAKE", "LAK"}), ElementsAre(0, 1, 0, 0));
}

TEST(ShortSequences, ThatNothingContainsAreAlone) {
  EXPECT_THAT(clusters_of({"SLAKE", "SLAKD", "XXX"}), ElementsAre(0, 1, 2));
}

TEST(FindContaining, GivesTheFirstLongerSequence) {
  std::vector<Letters> sequences;
  for (const char* text : {"AC", "GACG", "AC", "TTACT", "GACG", ""})
    sequences.push_back(encode_letters(text));
  const auto found = find_containing(sequences, {true, true, false, false, false, true});
  EXPECT_THAT(found, ElementsAre(1u, std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt));
}

}  // namespace
}  // namespace pipeline::clusters
