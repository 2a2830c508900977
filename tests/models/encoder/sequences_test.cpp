#include "plugins/models/encoder/sequences.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tiny_model.hpp"

namespace pipeline::encoder::testing {
namespace {

using Numbers = std::vector<int64_t>;

Numbers numbers(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<int64_t>(), tensor.const_data_ptr<int64_t>() + tensor.numel()};
}

TEST(SequencesTest, EachChainStandsBetweenItsOwnEnds) {
  const Sequences sequences(batch_of({{"LA#", "X"}, {"K-Qw"}}), true);
  EXPECT_EQ(sequences.rows.starts, (Numbers{0, 5, 8, 13}));
  EXPECT_EQ(numbers(sequences.tokens), (Numbers{0, 4, 5, 32, 2, 0, 24, 2, 0, 15, 16, 22, 2}));
  EXPECT_EQ(numbers(sequences.positions), (Numbers{0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 3, 4, 5}));
  EXPECT_EQ(sequences.targets, (Numbers{3, 11}));
}

TEST(SequencesTest, AChainOfAnotherSampleIsAnotherOne) {
  EXPECT_EQ(Sequences(batch_of({{"AA"}, {"CC"}, {}, {"D"}}), true).rows.starts, (Numbers{0, 4, 8, 11}));
}

TEST(SequencesTest, EmbeddingsMakeUpForTheShareOfMasks) {
  const Sequences sequences(batch_of({{"LA#", "XX"}}), true);
  const float one_in_five = 0.88f / 0.8f, none = 0.88f;
  EXPECT_TRUE(sequences.scale.allclose(
      at::tensor({one_in_five, one_in_five, one_in_five, 0.0f, one_in_five, none, none, none, none})));
  EXPECT_FALSE(Sequences(batch_of({{"LA#"}}), false).scale.defined());
}

TEST(SequencesTest, ABatchCanBeEmpty) {
  const Sequences sequences(batch_of({}), true);
  EXPECT_EQ(sequences.rows.sequences(), 0);
  EXPECT_EQ(sequences.tokens.numel(), 0);
}

}  // namespace
}  // namespace pipeline::encoder::testing
