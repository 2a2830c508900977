#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>

#include "core/base/descriptor.hpp"
#include "core/base/error.hpp"
#include "core/observe/console.hpp"
#include "core/observe/format.hpp"
#include "core/observe/json_lines.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test_files.hpp"

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

TEST(Console, ControlCharactersOfNamesDoNotReachTheTerminal) {
  std::FILE* const file = std::tmpfile();
  Console(Console::Mode::plain, file).line("a\x1b[2Jb\tc\nd");
  std::rewind(file);
  char text[64] = {};
  EXPECT_GT(std::fread(text, 1, sizeof text - 1, file), 0u);
  std::fclose(file);
  EXPECT_STREQ(text, "a\\x1b[2Jb\tc\nd\n");
}

// What a console without patience writes into a pipe or on a terminal.
std::string written(bool terminal, const std::function<void(Console&)>& work) {
  int ends[2] = {-1, -1};
  if (terminal) {
    ::setenv("TERM", "xterm", 1);
    ends[0] = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (::grantpt(ends[0]) == 0 && ::unlockpt(ends[0]) == 0)
      ends[1] = ::open(::ptsname(ends[0]), O_RDWR | O_NOCTTY);
  } else {
    EXPECT_EQ(::pipe(ends), 0);
  }
  const Descriptor reader(ends[0]);
  std::FILE* const out = ::fdopen(ends[1], "w");
  {
    constexpr std::chrono::milliseconds kNone(10);
    Console console(Console::Mode::automatic, out, {.terminal = kNone, .log = kNone});
    work(console);
  }
  std::string text;
  char block[4096];
  for (pollfd ready{reader.fd(), POLLIN, 0}; ::poll(&ready, 1, 100) > 0;) {
    const ssize_t size = ::read(reader.fd(), block, sizeof block);
    if (size <= 0) break;
    text.append(block, static_cast<size_t>(size));
  }
  std::fclose(out);
  return text;
}

TEST(Console, WorkThatSaysNothingShowsHowLongItHasBeenGoingOn) {
  for (const bool terminal : {false, true}) {
    const std::string text = written(terminal, [](Console& console) {
      const Elapsed outer(console, "exporting");
      const Elapsed inner(console, "loading weights");
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    });
    EXPECT_THAT(text, testing::HasSubstr("loading weights: 0 s"));
    EXPECT_LT(text.find("loading weights"), text.find("exporting")) << "the newest shows";
    EXPECT_EQ(text.ends_with("\r\x1b[2K"), terminal) << "and takes its line away";
  }
}

TEST(Console, ProgressAndLinesGoBeforeTheTime) {
  const std::string text = written(true, [](Console& console) {
    console.progress("tokenizing", 1, 2);
    const Elapsed elapsed(console, "preparing data");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });
  EXPECT_THAT(text, testing::HasSubstr("tokenizing"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("preparing data")));
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

std::vector<std::string> read_lines(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> read;
  if (const size_t cut = JsonLines::read(in, "x.jsonl", [&](size_t line, const auto& object) {
        read.push_back(std::to_string(line) + " " + object.dump());
      }))
    read.push_back("cut short: " + std::to_string(cut));
  return read;
}

std::string problem_with(const std::string& text) {
  return tests::message_of<Error>([&] { read_lines(text); });
}

// The lines stay JSON, and the figures what they were.
TEST(JsonLines, WritesWhatIsNotFiniteInWords) {
  const tests::TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  EXPECT_TRUE(JsonLines(file).append({{"step", 1}, {"a", NAN}, {"b", INFINITY}, {"c", -INFINITY}, {"d", 1}}));
  EXPECT_THAT(lines(file),
              testing::ElementsAre(R"({"step":1,"a":"NaN","b":"Infinity","c":"-Infinity","d":1})"));
  JsonLines::read(file, [](size_t, const auto& object) {
    EXPECT_TRUE(std::isnan(*figure_of(object.at("a"))));
    EXPECT_EQ(figure_of(object.at("b")), INFINITY);
    EXPECT_EQ(figure_of(object.at("c")), -INFINITY);
    EXPECT_EQ(figure_of(object.at("d")), 1);
  });
  EXPECT_EQ(figure_of("NaNs"), std::nullopt);
  EXPECT_TRUE(std::isnan(*figure_of(nullptr)));
}

TEST(JsonLines, ReadsWhatOtherProgramsWrite) {
  EXPECT_THAT(
      read_lines("\xef\xbb\xbf{\"a\": NaN, \"b\": [-Infinity, Infinity]}\r\n\r\n{\"NaN \\\" NaN\": 1}"),
      testing::ElementsAre(R"(1 {"a":"NaN","b":["-Infinity","Infinity"]})", R"(3 {"NaN \" NaN":1})"));
  EXPECT_THAT(read_lines("{\"a\": 1}\n{\"a\": 2"), testing::ElementsAre(R"(1 {"a":1})", "cut short: 2"));
}

TEST(JsonLines, NamesTheLineThatCannotBeRead) {
  EXPECT_EQ(problem_with("{}\n{\"a\": nan}\n{}\n"), "x.jsonl:2: not valid JSON at byte 8");
  EXPECT_EQ(problem_with("{\"a\": 1\n"), "x.jsonl:1: not valid JSON at byte 8") << "it has an end";
  EXPECT_EQ(problem_with("[1]\n"), "x.jsonl:1: is no JSON object");
  EXPECT_EQ(problem_with("{\"a\": 1e999}\n"), "x.jsonl:1: has a number that is out of range");
  EXPECT_EQ(problem_with("{\"a\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}\n"),
            "x.jsonl:1: nested deeper than 32 levels");
}

TEST(JsonLines, KeepsALineThatPythonWrote) {
  const tests::TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  std::ofstream(file) << "{\"step\": 1, \"loss\": NaN}\n{\"step\": 2}\n";
  EXPECT_TRUE(JsonLines::contains(file, "step", 1));
  EXPECT_EQ(JsonLines::cut_back(file, "step", 2), 0u);
  EXPECT_THAT(lines(file), testing::ElementsAre("{\"step\": 1, \"loss\": NaN}"));
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
