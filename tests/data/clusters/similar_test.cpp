// Tests which sequences of one list are like some of another.
#include "plugins/data/clusters/clusters.hpp"

#include <gmock/gmock.h>

#include "plugins/data/files/error.hpp"
#include "tests/data/clusters/sequences.hpp"

namespace pipeline::clusters {
namespace {

using testing::ElementsAre;

std::vector<uint8_t> similar(const std::vector<std::string>& queries,
                             const std::vector<std::string>& references, SimilarOptions options = {},
                             const files::Hooks& hooks = {}) {
  const std::vector<std::string_view> wanted(queries.begin(), queries.end()),
      known(references.begin(), references.end());
  return find_similar(wanted, known, options, hooks);
}

class Similar : public testing::TestWithParam<bool> {
 protected:
  SimilarOptions options() const { return {.similar = {}, .set_size = 100, .prefiltered = GetParam()}; }
};

TEST_P(Similar, EqualOnesAndRelativesAreFound) {
  Maker maker(1);
  const std::string a = maker.sequence(200), b = maker.sequence(180);
  const std::vector<std::string> references{maker.sequence(100), b, maker.sequence(300), a, a};
  EXPECT_THAT(similar({maker.changed(a, 0.6), maker.sequence(150), b, maker.changed(b, 0.6), b}, references,
                      options()),
              ElementsAre(1, 0, 1, 1, 1));
}

TEST_P(Similar, ARelativeOfARelativeIsNone) {
  Maker maker(2);
  std::vector<std::string> line{maker.sequence(200)};
  for (int i = 0; i < 5; ++i) line.push_back(maker.changed(line.back(), 0.5));
  ASSERT_EQ(clusters_of(line), std::vector<uint32_t>(6, 0)) << "as clusters they are one";
  EXPECT_THAT(similar({line[5], line[1]}, {line[0]}, options()), ElementsAre(0, 1));
}

TEST_P(Similar, ManyQueriesOfManyLengthsOnAnyNumberOfThreads) {
  Maker maker(3);
  std::vector<std::string> queries, references;
  std::vector<uint8_t> expected;
  for (int i = 0; i < 50; ++i) references.push_back(maker.sequence(60 + maker.below(200)));
  for (size_t i = 0; i < 50; ++i) {
    expected.push_back(i % 3 == 0 ? 1 : 0);
    queries.push_back(i % 3 == 0 ? maker.changed(references[i], 0.7) : maker.sequence(60 + maker.below(200)));
  }
  for (const unsigned threads : {1u, 3u})
    EXPECT_EQ(similar(queries, references, options(), {.threads = threads}), expected);
}

TEST_P(Similar, SignificanceGoesByTheSetThatBothArePartsOf) {
  Maker maker(4);
  const std::string a = maker.sequence(30),
                    b = maker.changed(a, 0.62);  // short, so hardly better than chance
  SimilarOptions few = options(), many = options();
  many.set_size = 100'000'000;
  EXPECT_THAT(similar({a}, {a}, many), ElementsAre(1)) << "equal ones are, whatever their length";
  EXPECT_THAT(similar({b}, {a}, many), ElementsAre(0));
  few.set_size = 1;
  few.prefiltered = false;
  EXPECT_THAT(similar({b}, {a}, few), ElementsAre(1));
}

TEST_P(Similar, NothingIsLikeNothing) {
  EXPECT_THAT(similar({}, {"AAA"}, options()), ElementsAre());
  EXPECT_THAT(similar({"AAA"}, {}, options()), ElementsAre(0));
}

TEST_P(Similar, CanBeCancelled) {
  Maker maker(5);
  const std::string a = maker.sequence(200);
  EXPECT_THROW(similar({maker.changed(a, 0.9)}, {a}, options(), {.cancelled = [] { return true; }}),
               files::Cancelled);
}

TEST_P(Similar, RelativesWithoutSeedsInCommonAreFoundOnlyWhereEveryPairIsAligned) {
  Maker maker(6);
  const std::string a = maker.sequence(120);
  std::string half = a;  // a seed has two neighbouring residues
  for (size_t i = 0; i < half.size(); i += 2) half[i] = half[i] == 'A' ? 'G' : 'A';
  EXPECT_THAT(similar({half}, {a}, options()), ElementsAre(GetParam() ? 0 : 1));
}

INSTANTIATE_TEST_SUITE_P(ExactAndPrefiltered, Similar, testing::Bool());

}  // namespace
}  // namespace pipeline::clusters
