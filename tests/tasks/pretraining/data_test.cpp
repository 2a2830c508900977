// Documents as blocks of tokens.
#include "plugins/tasks/pretraining/data.hpp"

#include <deque>
#include <random>

#include <gmock/gmock.h>

#include <pipeline/error.hpp>

namespace pipeline::tasks::pretraining {
namespace {

using testing::ElementsAre;

constexpr int32_t kEnd = 999;

// Blocks of documents, each of which ends in kEnd.
std::deque<std::string> blocks_of(const std::vector<std::vector<int32_t>>& documents, int64_t size) {
  std::deque<std::string> blocks;
  const stores::TokenSink keep = [&](std::string&& block) { blocks.push_back(std::move(block)); };
  BlockWriter writer(size, 1000, keep);
  for (size_t i = 0; i < documents.size(); ++i) writer.add("d" + std::to_string(i), documents[i]);
  writer.finish();
  return blocks;
}
TokenSample sample_of(const std::string& block) { return stores::unpack_tokens(block).value(); }

TEST(Blocks, AreCutAtTheirSizeAndKeepDocumentsApart) {
  const auto blocks = blocks_of({{1, 2, 3, kEnd}, {4, kEnd}, {5, 6, 7, 8, kEnd}, {9, kEnd}}, 5);
  ASSERT_EQ(blocks.size(), 2u);
  const std::vector<Sequence> first = pieces_of(sample_of(blocks[0])), last = pieces_of(sample_of(blocks[1]));
  ASSERT_EQ(first.size(), 3u);
  EXPECT_THAT(first[0].tokens, ElementsAre(1, 2, 3));
  EXPECT_THAT(first[0].targets, ElementsAre(2, 3, kEnd));
  EXPECT_THAT(first[1].tokens, ElementsAre(4));
  EXPECT_THAT(first[2].tokens, ElementsAre(5));
  EXPECT_THAT(first[2].targets, ElementsAre(6));  // of the next block's first token
  ASSERT_EQ(last.size(), 2u);
  EXPECT_THAT(last[0].tokens, ElementsAre(6, 7, 8));
  EXPECT_THAT(last[1].targets, ElementsAre(kEnd));
  EXPECT_EQ(name_of(sample_of(blocks[0])), "d0@0");
  EXPECT_EQ(name_of(sample_of(blocks[1])), "d2@1");
}

TEST(Blocks, HaveEveryTokenOnceAsTarget) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<int32_t>> documents(random() % 12);
    std::vector<int64_t> read, wanted;
    for (std::vector<int32_t>& document : documents) {
      for (size_t i = random() % 40; i > 0; --i) document.push_back(static_cast<int32_t>(random() % 999));
      document.push_back(kEnd);
      read.insert(read.end(), document.begin(), document.end() - 1);
      wanted.insert(wanted.end(), document.begin() + 1, document.end());
    }
    const auto size = static_cast<int64_t>(1 + random() % 50);
    // One of kEnd alone has nothing to be read or learnt.
    std::erase(read, kEnd);
    std::vector<int64_t> tokens, targets;
    const auto blocks = blocks_of(documents, size);
    for (size_t b = 0; b < blocks.size(); ++b) {
      int64_t filled = 0;
      for (const Sequence& piece : pieces_of(sample_of(blocks[b]))) {
        ASSERT_EQ(piece.tokens.size(), piece.targets.size());
        filled += static_cast<int64_t>(piece.tokens.size());
        tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
        targets.insert(targets.end(), piece.targets.begin(), piece.targets.end());
      }
      ASSERT_TRUE(filled == size || (filled < size && b + 1 == blocks.size())) << filled << " of " << size;
      ASSERT_TRUE(sample_of(blocks[b]).has_target());
    }
    ASSERT_EQ(tokens, read);
    ASSERT_EQ(targets, wanted);
  }
}

TEST(Blocks, OfNoTextAreNone) {
  EXPECT_TRUE(blocks_of({}, 8).empty());
  EXPECT_TRUE(blocks_of({{kEnd}, {kEnd}}, 8).empty());
}

TEST(Blocks, OfADamagedCacheAreRefused) {
  for (const char* beside : {"d\n9 ", "d\n1 2 ", "d\nx ", "d\n99999999999999999999 "}) {
    const std::string block = stores::pack_tokens({{}, {1, 2, 3}}, beside, 10);
    EXPECT_THROW(pieces_of(sample_of(block)), Error) << beside;
  }
}

}  // namespace
}  // namespace pipeline::tasks::pretraining
