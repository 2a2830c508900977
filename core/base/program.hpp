#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline {

// This program as it was started: bin/pipeline, or a process of someone else's, such as Python, that has
// loaded libpipeline.so.
struct Program {
  std::filesystem::path prefix;      // where it is installed: the folder of bin/ and lib/
  std::vector<std::string> command;  // what starts it, before the verb; never empty
  std::vector<std::string> arguments;
  std::filesystem::path folder;  // in which it was started; empty: the process's own
  bool is_shared = false;  // with work of the user's, such as a notebook's: it must not end for a run's sake
};

// Until set_program() is called: the executable of this process, without arguments. [any-thread]
const Program& program();
// To be called before other threads run.
void set_program(Program program);

// The user's relative paths belong to the folder in which the program was started. The process's own may be
// another one by now: a task, or a library that it uses, may change it at any time, in any thread.
std::filesystem::path start_folder();
// The path as it can be opened from anywhere; "" stays "".
std::filesystem::path from_start(const std::filesystem::path& path);
// `path` as seen from `folder`, where it is below; whole elsewhere.
std::string seen_from(const std::filesystem::path& folder, const std::filesystem::path& path);
// A path for people, and for records that are to be moved with the folder in which the program was started.
std::string as_shown(const std::filesystem::path& path);
// A text for people: paths below the program's start folder become relative ones, as the user wrote them.
std::string with_shown_paths(std::string_view text);

// While it lives, the descriptors 0 to 2 are those of the process's start. Code of a task's may close them,
// as daemons do: the next file that anybody opens would get the number, and what is printed would be written
// into it. One at a time.
class StandardStreams {
 public:
  // Descriptors that are closed become /dev/null.
  StandardStreams();
  ~StandardStreams();
  StandardStreams(const StandardStreams&) = delete;
  StandardStreams& operator=(const StandardStreams&) = delete;

  // Opens again what was closed since. [any-thread]
  static void restore();
};

// Where the program writes to, whatever has become of stdout and stderr.
std::FILE* standard_output();
std::FILE* standard_error();

// For a file that is written: the same file under a number that nobody takes for standard output. `fd` is
// closed where the number is another one; -1 stays -1, with its errno.
int above_standard(int fd);

}  // namespace pipeline
