// Runs the real executable, as a user would.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace pipeline::tests {

using Words = std::vector<std::string>;

inline Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

struct Result {
  int code = -1;  // exit code, or 128 + signal
  std::string out;
  std::string err;

  // This result. Throws, with what was printed, if the code is another one.
  const Result& ended(int expected, const char* file = __builtin_FILE(), int line = __builtin_LINE()) const;
};

// A started process; killed if it is still there when this object goes.
class Process {
 public:
  explicit Process(Words arguments, const std::filesystem::path& working_dir = ".");
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number) const;
  bool is_running() const;
  // Its own children, in the order in which they were started.
  std::vector<pid_t> children() const;
  std::string output() const;  // so far
  Result wait();

 private:
  pid_t pid_ = -1;
  std::filesystem::path out_, err_;
};

// `pipeline ARGUMENTS...` with the test plugins on its path. An argument KEY=VALUE stands for --set
// KEY=VALUE.
Result pipeline(const Words& arguments, const std::filesystem::path& working_dir = ".");
Words pipeline_command(const Words& arguments);

std::string read_text(const std::filesystem::path& file);
std::vector<std::string> read_lines(const std::filesystem::path& file);
void write_text(const std::filesystem::path& file, const std::string& text);

// Waits until `condition` holds, at most a minute.
template <class Condition>
bool eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace pipeline::tests
