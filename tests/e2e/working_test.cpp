// What the verbs that read runs show while they have nothing to print yet.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>

#include <gmock/gmock.h>

#include "core/base/descriptor.hpp"
#include "tests/e2e/job.hpp"

namespace pipeline::tests {
namespace {

using testing::HasSubstr;

constexpr const char* kLines = "{\"step\":1,\"loss\":0.5}\n{\"step\":2,\"loss\":0.25}\n";

// `pipeline ARGUMENTS` with its standard error on a terminal.
class OnTerminal {
 public:
  OnTerminal(Words arguments, const std::filesystem::path& folder)
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
  Words command(Words arguments) const {
    EXPECT_EQ(::grantpt(terminal_.fd()) | ::unlockpt(terminal_.fd()), 0);
    Words command = pipeline_command(std::move(arguments));
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

// While it lives, whoever opens the file waits: by a lease, which the kernel asks this process to give up.
class HeldFile {
 public:
  explicit HeldFile(const std::filesystem::path& path) : file_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    ::signal(SIGIO, SIG_IGN);  // the kernel asks by this signal
    EXPECT_EQ(::fcntl(file_.fd(), F_SETLEASE, F_WRLCK), 0) << path << ": " << std::strerror(errno);
  }

 private:
  const Descriptor file_;
};

TEST(Working, ARunThatTakesLongToReadShowsForHowLong) {
  ::setenv("TERM", "xterm", 1);
  ::unsetenv("NO_COLOR");
  struct Verb {
    std::string name, shown, output;
  };
  const std::vector<Verb> verbs{{"report", "reading run: ", "written to run/report.html\n"},
                                {"csv", "reading run/metrics.jsonl: ", "written to run/metrics.csv\n"},
                                {"status", "reading the runs in run: ", "run  state    step  loss"},
                                {"ls", "reading the runs in run: ", "run  state    step  loss"}};
  struct Reading {
    Job job;
    std::optional<HeldFile> held;
    std::optional<OnTerminal> process;
  };
  std::map<std::string, Reading> readings;
  for (const Verb& verb : verbs) {
    Reading& reading = readings[verb.name];
    write_text(reading.job.path("run/config.toml"), "");
    write_text(reading.job.path("run/metrics.jsonl"), kLines);
    reading.held.emplace(reading.job.path("run/metrics.jsonl"));
    reading.process.emplace(Words{verb.name, "run"}, reading.job.folder());
  }
  for (const Verb& verb : verbs) {
    auto& [job, held, process] = readings[verb.name];
    EXPECT_TRUE(process->shows(verb.shown)) << verb.name;
    held.reset();
    const Result result = process->wait();
    EXPECT_EQ(result.code, 0) << verb.name << result.err;
    EXPECT_TRUE(result.out.starts_with(verb.output)) << verb.name << ": " << result.out;
    EXPECT_TRUE(result.err.ends_with("\r\x1b[2K")) << verb.name << " leaves its line: " << result.err;
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
