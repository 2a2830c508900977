#include "plugins/scores/rouge/scorer.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace pipeline::rouge {
namespace {

using Numbers = std::vector<uint32_t>;

// The textbook table, and the way back through it that ROUGE-Lsum defines.
struct PlainTable {
  PlainTable(const Numbers& a, const Numbers& b) : t(a.size() + 1, std::vector<size_t>(b.size() + 1)) {
    for (size_t i = 1; i <= a.size(); ++i) {
      for (size_t j = 1; j <= b.size(); ++j) {
        t[i][j] = a[i - 1] == b[j - 1] ? t[i - 1][j - 1] + 1 : std::max(t[i - 1][j], t[i][j - 1]);
      }
    }
    for (size_t i = a.size(), j = b.size(); i > 0 && j > 0;) {
      if (a[i - 1] == b[j - 1]) {
        positions.insert(positions.begin(), --i);
        --j;
      } else if (t[i][j - 1] > t[i - 1][j]) {
        --j;
      } else {
        --i;
      }
    }
  }
  std::vector<std::vector<size_t>> t;
  std::vector<size_t> positions;
};

TEST(LcsTable, EqualsThePlainTableInEveryCell) {
  std::mt19937 random(7);
  // Lengths around the 64 bits of a word matter most; few different tokens give many ties.
  const size_t sizes[] = {0, 1, 2, 17, 63, 64, 65, 127, 128, 129, 200};
  for (const size_t n : sizes) {
    for (const size_t m : sizes) {
      for (const uint32_t alphabet : {1u, 2u, 5u, 60u}) {
        Numbers a(n), b(m);
        for (auto& x : a) x = random() % alphabet;
        for (auto& x : b) x = random() % (alphabet + 1);
        const LcsTable table(a, b);
        const PlainTable plain(a, b);
        for (size_t i = 0; i <= n; i += 1 + n / 9) {
          for (size_t j = 0; j <= m; ++j) ASSERT_EQ(table.length(i, j), plain.t[i][j]) << n << " x " << m;
        }
        ASSERT_EQ(table.length(), plain.t[n][m]);
        ASSERT_EQ(table.positions(), plain.positions) << n << " x " << m << " of " << alphabet;
      }
    }
  }
}

TEST(LcsTable, TakesATextOfManyThousandTokens) {
  Numbers a(20000), b(20000);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<uint32_t>(i), b[i] = static_cast<uint32_t>(i ^ 1);
  EXPECT_EQ(LcsTable(a, b).length(), a.size() / 2);
}

}  // namespace
}  // namespace pipeline::rouge
