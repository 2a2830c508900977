#include <cmath>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/observe/console.hpp"
#include "core/observe/format.hpp"
#include "core/observe/json_lines.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pipeline::observe {
namespace {

TEST(Format, NumbersAsPeopleReadThem) {
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1'940'000'000), "1.9 GB");
  EXPECT_EQ(human_bytes(999'600), "1.0 MB");
  EXPECT_EQ(human_count(950), "950");
  EXPECT_EQ(human_count(12'345), "12.3k");
  EXPECT_EQ(human_count(124'439'808), "124M");
  EXPECT_EQ(human_duration(7), "0:07");
  EXPECT_EQ(human_duration(754), "12:34");
  EXPECT_EQ(human_duration(7384), "2:03:04");
  EXPECT_EQ(human_duration(86400 * 3 + 4 * 3600 + 5 * 60), "3d 04:05");
  EXPECT_EQ(human_duration(INFINITY), "?");
  EXPECT_EQ(grouped(7), "7");
  EXPECT_EQ(grouped(124'439'808), "124,439,808");
}

TEST(Console, BarHasTheGivenLength) {
  EXPECT_EQ(progress_bar(0, 4), "────");
  EXPECT_EQ(progress_bar(0.5, 4), "━━──");
  EXPECT_EQ(progress_bar(0.625, 4), "━━╸─");
  EXPECT_EQ(progress_bar(1, 4), "━━━━");
  EXPECT_EQ(progress_bar(7, 4), "━━━━");
}

TEST(Console, PlainLinesInAFile) {
  const tests::TemporaryFolder folder;
  const auto path = folder.path() / "out";
  {
    std::FILE* file = std::fopen(path.c_str(), "w");
    {
      Console console(Console::Mode::automatic, file);
      EXPECT_FALSE(console.interactive());
      console.status("not shown");
      console.line("shown");
    }
    std::fclose(file);
  }
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  EXPECT_EQ(content.str(), "shown\n");
}

std::vector<std::string> lines(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::vector<std::string> result;
  for (std::string line; std::getline(in, line);) result.push_back(line);
  return result;
}

TEST(JsonLines, AppendsWholeLinesAndCutsBack) {
  const tests::TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  {
    JsonLines out(file);
    for (int step = 1; step <= 5; ++step) EXPECT_TRUE(out.append({{"step", step}, {"loss", 1.5}}));
  }
  std::ofstream(file, std::ios::app) << R"({"step":6,"lo)";  // what a kill leaves
  JsonLines::cut_back(file, "step", 4);
  EXPECT_THAT(lines(file), testing::ElementsAre(R"({"step":1,"loss":1.5})", R"({"step":2,"loss":1.5})",
                                                R"({"step":3,"loss":1.5})"));
}

TEST(JsonLines, SurvivesInvalidText) {
  const tests::TemporaryFolder folder;
  const auto file = folder.path() / "x.jsonl";
  EXPECT_TRUE(JsonLines(file).append({{"text", "a\xff"}}));
  EXPECT_THAT(lines(file), testing::ElementsAre("{\"text\":\"a\xEF\xBF\xBD\"}"));
}

// Every write to this device fails as on a full disk.
TEST(JsonLines, KeepsWhatAFullDiskRefuses) {
  JsonLines out("/dev/full");
  EXPECT_FALSE(out.append({{"step", 1}}));
  EXPECT_FALSE(out.append({{"step", 2}}));
  EXPECT_EQ(out.pending(), 2u);
  EXPECT_EQ(out.last_error(), ENOSPC);
}

}  // namespace
}  // namespace pipeline::observe
