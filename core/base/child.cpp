#include "core/base/child.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <span>

#include "core/base/fail.hpp"
#include "core/base/socket.hpp"

namespace pipeline {
namespace {

using Clock = std::chrono::steady_clock;

// Runs in the child. The first byte of what it reports says whether the rest is a value or a problem.
[[noreturn]] void run_and_exit(const Pipe& report, const Pipe& output,
                               const std::function<std::string()>& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpgid(0, 0);
  ::dup2(output.in.fd(), STDOUT_FILENO);
  ::dup2(output.in.fd(), STDERR_FILENO);
  std::string answer;
  try {
    answer = "+" + work();
  } catch (const std::exception& e) {
    answer = std::string("-") + e.what();
  } catch (...) {
    answer = "-an exception that is not a std::exception";
  }
  std::fflush(nullptr);
  std::span<const std::byte> left = std::as_bytes(std::span(answer));
  write_all(report.in.fd(), left);
  ::_exit(0);
}

// Reads what is there; false at the end of the stream.
bool drain(int fd, std::string& into) {
  std::array<char, 4096> buffer{};
  const ssize_t n = ::read(fd, buffer.data(), buffer.size());
  if (n > 0) into.append(buffer.data(), static_cast<size_t>(n));
  return n > 0 || (n < 0 && errno == EINTR);
}

// Collects both streams until both end; false when the time is up first.
bool collect(const Pipe& report, const Pipe& output, Clock::time_point deadline, std::string& answer,
             std::string& printed) {
  std::array<pollfd, 2> ends{{{report.out.fd(), POLLIN, 0}, {output.out.fd(), POLLIN, 0}}};
  while (ends[0].fd >= 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    if (::poll(ends.data(), ends.size(), static_cast<int>(left)) < 0 && errno != EINTR) return false;
    if (ends[0].revents && !drain(ends[0].fd, answer)) ends[0].fd = -1;
    if (ends[1].fd >= 0 && ends[1].revents && !drain(ends[1].fd, printed)) ends[1].fd = -1;
  }
  // The child is done; a process that it left behind may keep `output` open, so only what is there now
  // counts.
  while (ends[1].fd >= 0 && ::poll(&ends[1], 1, 0) > 0)
    if (!drain(ends[1].fd, printed)) break;
  return true;
}

}  // namespace

ChildResult run_in_child(std::chrono::milliseconds limit, const std::function<std::string()>& work) {
  Pipe report, output;
  std::fflush(nullptr);  // or the child would print it again
  const pid_t child = ::fork();
  if (child < 0) fail("cannot start a process: {}", std::strerror(errno));
  if (child == 0) run_and_exit(report, output, work);
  report.in.close();
  output.in.close();

  std::string answer;
  ChildResult result;
  const bool in_time = collect(report, output, Clock::now() + limit, answer, result.output);
  ::kill(-child, SIGKILL);  // whatever it started, too
  ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }

  if (!in_time) {
    result.problem =
        fmt::format("did not finish within {:.3g} seconds", std::chrono::duration<double>(limit).count());
  } else if (answer.empty()) {
    result.problem =
        WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL
            ? fmt::format("ended by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)))
            : fmt::format("ended the process{}", WIFEXITED(status)
                                                     ? fmt::format(" with exit code {}", WEXITSTATUS(status))
                                                     : std::string());
  } else {
    result.ok = answer.front() == '+';
    (result.ok ? result.value : result.problem) = answer.substr(1);
  }
  return result;
}

}  // namespace pipeline
