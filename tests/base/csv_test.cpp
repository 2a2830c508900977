#include "core/base/csv.hpp"

#include <gmock/gmock.h>

namespace pipeline {
namespace {

using testing::ElementsAre;

TEST(CsvRows, HaveTheirCellsAndTheLineInWhichTheyBegin) {
  const std::vector<CsvRow> rows = csv_rows(
      "\xef\xbb\xbf"
      "a,b\r\n\r\n\"1\n,\"\"x\"\"\",2\r\n,\nlast");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_THAT(rows[0].cells, ElementsAre("a", "b"));
  EXPECT_THAT(rows[1].cells, ElementsAre("1\n,\"x\"", "2"));
  EXPECT_EQ(rows[1].line, 3u);
  EXPECT_THAT(rows[2].cells, ElementsAre("", ""));
  EXPECT_EQ(rows[2].line, 5u);
  EXPECT_THAT(rows[3].cells, ElementsAre("last"));
}

}  // namespace
}  // namespace pipeline
