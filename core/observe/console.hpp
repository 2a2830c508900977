// Console output: finished lines and, on a terminal, one status line below them that is redrawn in place.
// Nothing else in the process writes to stdout. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/program.hpp"
#include "core/base/thread.hpp"

namespace pipeline::observe {

class Elapsed;

class Console {
 public:
  enum class Mode { automatic, plain, off };
  struct Patience {
    std::chrono::milliseconds terminal{2000};  // after which a terminal shows that something is going on
    std::chrono::milliseconds log{10000};      // for which a plain log may be silent
  };

  // automatic: a status line if `out` is a terminal and NO_COLOR is not set; otherwise plain lines. off:
  // writes nothing.
  explicit Console(Mode mode, std::FILE* out = standard_output());
  Console(Mode mode, std::FILE* out, Patience patience);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  bool interactive() const { return interactive_; }
  int width() const;  // in columns

  void line(std::string_view text);
  // Replaces the status line, cut to the terminal's width; empty removes it. Only where interactive().
  void status(std::string_view text);

  // Shows the progress of a long operation; total = 0: unknown. On a terminal sets the status line;
  // elsewhere prints a plain line if there was none for a while, so that no log is silent for long.
  void progress(std::string_view what, uint64_t done, uint64_t total);

 private:
  friend class Elapsed;

  void erase();
  void draw();
  bool silent();  // has had no line for a while
  void tick(const Elapsed& elapsed);

  std::FILE* const out_;
  const bool enabled_;
  const bool interactive_;
  const Patience patience_;
  std::mutex mutex_;
  std::string status_;
  bool status_is_elapsed_ = false;
  const Elapsed* newest_ = nullptr;                   // that lives
  std::chrono::steady_clock::time_point written_at_;  // when the last line was written
};

// While it lives, and while nothing says more, the console shows for how long `what` has been going on: on a
// terminal where there is no status line, elsewhere as progress() does. For work that cannot say how far it
// is. Has a thread. Of several on one console the newest shows; they end in reverse order.
class Elapsed {
 public:
  Elapsed(Console& console, std::string what);
  ~Elapsed();
  Elapsed(const Elapsed&) = delete;
  Elapsed& operator=(const Elapsed&) = delete;

 private:
  friend class Console;

  Console& console_;
  const std::string what_;
  const std::chrono::steady_clock::time_point began_;
  const Elapsed* outer_ = nullptr;
  std::optional<Ticker> ticker_;
};

// "━━━━━╸────": `done` from 0 to 1 in `columns` characters.
std::string progress_bar(double done, int columns);
}  // namespace pipeline::observe
