// Console output: finished lines and, on a terminal, one status line below them that is redrawn in place.
// Nothing else in the process writes to stdout. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

namespace pipeline::observe {

class Console {
 public:
  enum class Mode { automatic, plain, off };

  // automatic: a status line if `out` is a terminal and NO_COLOR is not set; otherwise plain lines. off:
  // writes nothing.
  explicit Console(Mode mode, std::FILE* out = stdout);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  bool interactive() const { return interactive_; }
  int width() const;  // in columns

  void line(std::string_view text);
  // Replaces the status line, cut to the terminal's width; empty removes it. Only where interactive().
  void status(std::string_view text);

  // Shows the progress of a long operation; total = 0: unknown. On a terminal sets the status line;
  // elsewhere prints a plain line if there was none for 10 seconds, so that no log is silent for long.
  void progress(std::string_view what, uint64_t done, uint64_t total);

 private:
  void erase();
  void draw();

  std::FILE* const out_;
  const bool enabled_;
  const bool interactive_;
  std::mutex mutex_;
  std::string status_;
  std::chrono::steady_clock::time_point written_at_;  // when the last line was written
};

// "━━━━━╸────": `done` from 0 to 1 in `columns` characters.
std::string progress_bar(double done, int columns);
}  // namespace pipeline::observe
