#include "tests/launch/supervised.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace pipeline::launch {
namespace {

constexpr const char* kPrinted = "printed.txt";

char state_of(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(in, line);
  const size_t at = line.rfind(')');
  return at == std::string::npos ? 'X' : line.at(at + 2);
}

bool within_10_seconds(const auto& condition) {
  for (int i = 0; i < 1000; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(10)))
    if (condition()) return true;
  return false;
}

}  // namespace

Supervised::Supervised(const Options& options, const std::string& script) {
  std::filesystem::create_directory(folder_.path() / "logs");
  const std::string out = folder_.path(), printed = folder_.path() / kPrinted;
  const std::string processes = std::to_string(options.processes),
                    restarts = std::to_string(options.max_restarts);
  const std::string grace = std::to_string(options.grace.count());
  pid_ = ::fork();
  if (pid_ != 0) return;
  const int file = ::open(printed.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  ::setenv("OUT", out.c_str(), 1);
  ::unsetenv("MASTER_PORT");
  ::execl(SUPERVISE_TOOL, SUPERVISE_TOOL, processes.c_str(), restarts.c_str(), out.c_str(), grace.c_str(),
          script.c_str(), nullptr);
  ::_exit(127);
}

Supervised::~Supervised() {
  if (ended_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Supervised::send(int signal) const { ::kill(pid_, signal); }

int Supervised::wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  ended_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

std::string Supervised::printed() const { return file(kPrinted); }

std::string Supervised::file(const std::string& name) const {
  std::ostringstream content;
  content << std::ifstream(folder_.path() / name).rdbuf();
  return content.str();
}

void Supervised::wait_for(const std::string& name) const {
  if (!within_10_seconds([&] { return std::filesystem::exists(folder_.path() / name); }))
    throw std::runtime_error(name + " did not appear; printed: " + printed());
}

bool stopped(pid_t pid) {
  return within_10_seconds([&] { return state_of(pid) == 'T'; });
}

bool gone(pid_t pid) {
  return within_10_seconds([&] { return state_of(pid) == 'X' || state_of(pid) == 'Z'; });
}

}  // namespace pipeline::launch
