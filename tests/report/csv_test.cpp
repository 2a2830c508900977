#include "core/report/table.hpp"

#include <gtest/gtest.h>

#include "core/base/error.hpp"
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

TEST(Csv, SaysWhatIsNotFiniteAndNamesWhatCannotBeRead) {
  const tests::FilesFolder folder;
  EXPECT_EQ(
      csv_of(folder.write("a.jsonl", "{\"step\":1,\"loss\":\"NaN\"}\n{\"step\":2,\"loss\":-Infinity}\n")),
      "step,loss\n1,NaN\n2,-Infinity\n");
  const std::string file = folder.write("b.jsonl", "{\"step\":1}\nx\n{\"step\":2}\n");
  EXPECT_EQ(tests::message_of<Error>([&] { csv_of(file); }), file + ":2: not valid JSON at byte 1");
}

TEST(Csv, OfNothingIsNothing) {
  const tests::FilesFolder folder;
  EXPECT_EQ(csv_of(folder.write("eval.jsonl", "")), "");
}

}  // namespace
}  // namespace pipeline::report
