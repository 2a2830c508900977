// What an evaluation of labels keeps.
#include "plugins/tasks/protein/label_report.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace pipeline::tasks::protein {
namespace {

TEST(LabelRecord, IsThereAndBack) {
  const LabelRecord record{
      .cluster = 0xfedcba9876543210, .right = {5000000.07, 0.1}, .values = {1, -2.5f, NAN}};
  const LabelRecord back = LabelRecord::unpack(record.pack());
  EXPECT_EQ(back.cluster, record.cluster);
  EXPECT_EQ(back.right, record.right);
  ASSERT_EQ(back.values.size(), 3u);
  EXPECT_EQ(back.values[1], -2.5f);
  EXPECT_TRUE(std::isnan(back.values[2]));
}

}  // namespace
}  // namespace pipeline::tasks::protein
