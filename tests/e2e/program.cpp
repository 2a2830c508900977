#include "tests/e2e/program.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <test_paths.hpp>

namespace pipeline::tests {
namespace {

std::filesystem::path temporary_file() {
  std::string name = (std::filesystem::temp_directory_path() / "pipeline-out-XXXXXX").string();
  const int descriptor = ::mkstemp(name.data());
  if (descriptor < 0) throw std::runtime_error("mkstemp failed");
  ::close(descriptor);
  return name;
}

}  // namespace

Process::Process(Words arguments, const std::filesystem::path& working_dir)
    : out_(temporary_file()), err_(temporary_file()) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ != 0) return;
  const int out = ::open(out_.c_str(), O_WRONLY | O_TRUNC), err = ::open(err_.c_str(), O_WRONLY | O_TRUNC),
            in = ::open("/dev/null", O_RDONLY);
  ::dup2(in, 0);
  ::dup2(out, 1);
  ::dup2(err, 2);
  if (::chdir(working_dir.c_str()) == 0) ::execv(argv[0], argv.data());
  ::_exit(127);
}

Process::~Process() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  std::filesystem::remove(out_);
  std::filesystem::remove(err_);
}

void Process::signal(int number) const { ::kill(pid_, number); }

bool Process::is_running() const {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

std::vector<pid_t> Process::children() const {
  const std::string pid = std::to_string(pid_);
  std::istringstream in(read_text("/proc/" + pid + "/task/" + pid + "/children"));
  std::vector<pid_t> children;
  for (pid_t child = 0; in >> child;) children.push_back(child);
  return children;
}

std::string Process::output() const { return read_text(out_); }

Result Process::wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = read_text(out_),
          .err = read_text(err_)};
}

Words pipeline_command(const Words& arguments) {
  ::setenv("PIPELINE_PLUGIN_PATH", PIPELINE_BUILD_DIR "/tests/plugins", 1);
  Words command{PIPELINE_EXECUTABLE};
  for (const std::string& argument : arguments) {
    const bool is_set = argument.find('=') != std::string::npos && !argument.starts_with("--");
    if (is_set && command.back() != "--set" && command.back() != "--change") command.push_back("--set");
    command.push_back(argument);
  }
  return command;
}

Result pipeline(const Words& arguments, const std::filesystem::path& working_dir) {
  return Process(pipeline_command(arguments), working_dir).wait();
}

const Result& Result::ended(int expected, const char* file, int line) const {
  if (code == expected) return *this;
  throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": ended with " +
                           std::to_string(code) + ":\n" + out + err);
}

std::string read_text(const std::filesystem::path& file) {
  std::stringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<std::string> read_lines(const std::filesystem::path& file) {
  std::istringstream in(read_text(file));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void write_text(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

}  // namespace pipeline::tests
