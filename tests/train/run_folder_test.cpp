#include "core/train/session/run_folder.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <unistd.h>

#include "core/base/csv.hpp"
#include "core/base/error.hpp"
#include "core/base/socket.hpp"
#include "core/train/results/prediction.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::train {
namespace {

using testing::HasSubstr;

std::string problem_of(const std::filesystem::path& path, bool fresh = false) {
  return tests::message_of<Error>([&] { RunFolder folder(path, fresh); });
}

TEST(RunFolder, IsMadeLockedAndUsedAgain) {
  const tests::TemporaryFolder temporary;
  const auto path = temporary.path() / "a/b";
  {
    const RunFolder folder(path, false);
    EXPECT_EQ(problem_of(path), "run.dir = " + path.string() + ": is in use by process " +
                                    std::to_string(::getpid()) + " on " + host_name() +
                                    ": wait for it, stop it, or choose another run.dir");
    folder.mark_finished("5");
  }
  EXPECT_EQ(RunFolder(path, false).finished(), "5");
}

TEST(RunFolder, FreshMovesTheOlderRunAside) {
  const tests::TemporaryFolder temporary;
  const auto path = temporary.path() / "run";
  for (int i = 0; i < 3; ++i) RunFolder(path, true).write_file("note", std::to_string(i));
  EXPECT_EQ(RunFolder(path, false).read_file("note"), "2");
  EXPECT_EQ(RunFolder(path.string() + ".1", false).read_file("note"), "0");
  EXPECT_EQ(RunFolder(path.string() + ".2", false).read_file("note"), "1");
}

TEST(RunFolder, RefusesOtherPeoplesFiles) {
  const tests::TemporaryFolder temporary;
  std::ofstream(temporary.path() / "thesis.tex") << "x";
  EXPECT_THAT(problem_of(temporary.path()),
              HasSubstr("holds files that are not of a run: choose another run.dir"));
  EXPECT_THAT(problem_of(temporary.path(), true), HasSubstr("holds files that are not of a run"));
  EXPECT_THAT(problem_of(temporary.path() / "thesis.tex"), HasSubstr("is a file, must be a folder"));
}

TEST(Prediction, CsvFieldsAreQuotedWhereTheyMustBe) {
  EXPECT_EQ(csv_field("plain text"), "plain text");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_field("say \"hi\"\n"), "\"say \"\"hi\"\"\n\"");
}

}  // namespace
}  // namespace pipeline::train
