// What the verbs that read runs show while they have nothing to print yet.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/descriptor.hpp"
#include "tests/e2e/job.hpp"

namespace pipeline::tests {
namespace {

using testing::HasSubstr;

constexpr const char* kLines = "{\"step\":1,\"loss\":0.5}\n{\"step\":2,\"loss\":0.25}\n";

// `pipeline ARGUMENTS` with its standard error on a terminal.
class OnTerminal {
 public:
  OnTerminal(std::vector<std::string> arguments, const std::filesystem::path& folder)
      : terminal_(::posix_openpt(O_RDWR | O_NOCTTY)), process_(command(std::move(arguments)), folder) {}

  // Waits until the terminal shows `text`, at most a minute.
  bool shows(const std::string& text) {
    return eventually([&] {
      read();
      return shown_.find(text) != std::string::npos;
    });
  }
  Result wait() {
    Result result = process_.wait();
    read();
    result.err = shown_;
    return result;
  }

 private:
  std::vector<std::string> command(std::vector<std::string> arguments) const {
    EXPECT_EQ(::grantpt(terminal_.fd()) | ::unlockpt(terminal_.fd()), 0);
    std::vector<std::string> command = pipeline_command(std::move(arguments));
    command.insert(command.begin(), {"/bin/sh", "-c", "exec \"$@\" 2>\"$0\"", ::ptsname(terminal_.fd())});
    return command;
  }
  void read() {
    char block[4096];
    for (pollfd ready{terminal_.fd(), POLLIN, 0}; ::poll(&ready, 1, 0) > 0;) {
      const ssize_t size = ::read(terminal_.fd(), block, sizeof block);
      if (size <= 0) return;
      shown_.append(block, static_cast<size_t>(size));
    }
  }

  const Descriptor terminal_;
  Process process_;
  std::string shown_;
};

// Half a gigabyte of empty lines takes seconds to read.
TEST(Working, ARunThatTakesLongToReadShowsForHowLong) {
  ::setenv("TERM", "xterm", 1);
  ::unsetenv("NO_COLOR");
  const std::map<std::string, std::string> output{{"report", "written to run/report.html\n"},
                                                  {"csv", "written to run/metrics.csv\n"},
                                                  {"status", "run  state    step  loss"},
                                                  {"ls", "run  state    step  loss"}};
  const Job big;
  write_text(big.path("metrics.jsonl"), std::string(size_t{500} << 20, '\n') + kLines);
  std::map<std::string, Job> jobs;
  std::map<std::string, OnTerminal> verbs;
  for (const auto& [verb, unused] : output) {
    const Job& job = jobs[verb];
    write_text(job.path("run/config.toml"), "");
    std::filesystem::create_hard_link(big.path("metrics.jsonl"), job.path("run/metrics.jsonl"));
    verbs.try_emplace(verb, std::vector<std::string>{verb, "run"}, job.folder());
  }
  for (auto& [verb, process] : verbs) {
    EXPECT_TRUE(process.shows(verb == "csv"      ? "reading run/metrics.jsonl: "
                              : verb == "report" ? "reading run: "
                                                 : "reading the runs in run: "))
        << verb;
    const Result result = process.wait();
    EXPECT_EQ(result.code, 0) << verb << result.err;
    EXPECT_TRUE(result.out.starts_with(output.at(verb))) << verb << ": " << result.out;
    EXPECT_TRUE(result.err.ends_with("\r\x1b[2K")) << verb << " leaves its line: " << result.err;
  }
}

TEST(Working, ARunThatIsReadAtOnceShowsNothing) {
  const Job job;
  write_text(job.path("run/config.toml"), "");
  write_text(job.path("run/metrics.jsonl"), kLines);
  for (const char* verb : {"report", "csv", "status", "ls"}) {
    const Result result = OnTerminal({verb, "run"}, job.folder()).wait();
    EXPECT_EQ(result.code, 0) << verb;
    EXPECT_EQ(result.err, "") << verb;
  }
}

}  // namespace
}  // namespace pipeline::tests
