// The descriptors 0 to 2, which code of a task's may close, as daemons do: the next file that anybody opens
// would get the number, and what is printed would be written into it.
#pragma once

#include <array>
#include <cstdio>

namespace pipeline {

// While it lives, the streams of the process's start are kept. One at a time.
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
