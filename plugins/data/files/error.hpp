#pragma once

#include <cerrno>
#include <cstdint>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>

namespace pipeline::files {

// Data that cannot be used, or files that cannot be read or written: what, where, the value seen, what to do.
class DataError : public std::runtime_error {
 public:
  explicit DataError(const std::string& message, int code = 0) : std::runtime_error(message), code_(code) {}

  int code() const { return code_; }  // errno, or 0 where the system had no part in it

 private:
  int code_;
};

// The caller's `cancelled` said so; nothing is wrong.
class Cancelled : public std::runtime_error {
 public:
  Cancelled() : std::runtime_error("cancelled") {}
};

// How long-running work is watched and ended. All members are optional, and called from the calling thread.
struct Hooks {
  unsigned threads = 1;                                         // that work, the calling one among them
  std::function<void(uint64_t done, uint64_t total)> progress;  // in units of the work's own
  std::function<void(const std::string&)> note;                 // a line for the log
  std::function<bool()> cancelled;  // asked several times a second: true ends the work with Cancelled

  void report(uint64_t done, uint64_t total) const {
    if (progress) progress(done, total);
  }
  void tell(const std::string& line) const {
    if (note && !line.empty()) note(line);
  }
  void throw_if_cancelled() const {
    if (cancelled && cancelled()) throw Cancelled();
  }
};

inline void for_each_line(const std::string& text, const std::function<void(const std::string&)>& say) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) say(line);
}

// "<what>: <text of errno>: <remedy>". Call it before anything else can change errno.
inline DataError system_error(const std::string& what, const std::string& remedy) {
  const int code = errno;
  return DataError(what + ": " + std::generic_category().message(code) + ": " + remedy, code);
}

}  // namespace pipeline::files
