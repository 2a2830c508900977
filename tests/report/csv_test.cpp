#include "core/report/csv.hpp"

#include <gtest/gtest.h>

#include "tests/support/test_files.hpp"

namespace pipeline::report {
namespace {

TEST(Csv, HasAColumnForEveryFigureAlsoForALateOne) {
  const tests::FilesFolder folder;
  const std::string lines = folder.write("metrics.jsonl",
                                         "{\"step\":1,\"loss\":0.1,\"mfu\":null}\n"
                                         "{\"step\":2,\"loss\":1e-09,\"skipped\":true,\"a,\\\"b\\\"\":3}\n"
                                         "{\"step\":3,\"lo");  // what a kill leaves
  EXPECT_EQ(csv_of(lines),
            "step,loss,mfu,skipped,\"a,\"\"b\"\"\"\n"
            "1,0.1,,,\n"
            "2,1e-09,,true,3\n");
}

TEST(Csv, OfNothingIsNothing) {
  const tests::FilesFolder folder;
  EXPECT_EQ(csv_of(folder.write("eval.jsonl", "")), "");
}

}  // namespace
}  // namespace pipeline::report
