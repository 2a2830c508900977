#include "core/observe/console.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/thread.hpp"
#include "core/base/utf8.hpp"
#include "core/observe/format.hpp"

namespace pipeline::observe {
namespace {

using Clock = std::chrono::steady_clock;

bool can_redraw(std::FILE* out) {
  const char* no_color = std::getenv("NO_COLOR");  // https://no-color.org: present and not empty
  const char* terminal = std::getenv("TERM");
  return isatty(fileno(out)) == 1 && (no_color == nullptr || *no_color == '\0') &&
         (terminal == nullptr || std::string_view(terminal) != "dumb");
}

// The bytes of `text` that fill at most `columns` columns, counting one column a code point.
std::string_view cut(std::string_view text, int columns) {
  size_t end = 0;
  for (int used = 0; end < text.size(); ++end) {
    const bool starts_character = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (starts_character && used++ == columns) break;
  }
  return text.substr(0, end);
}

std::string for_people(std::string_view text, std::string_view kept = "\n\t") {
  return printable(with_shown_paths(text), kept);
}

}  // namespace

Console::Console(Mode mode, std::FILE* out) : Console(mode, out, Patience()) {}

Console::Console(Mode mode, std::FILE* out, Patience patience)
    : out_(out),
      enabled_(mode != Mode::off),
      interactive_(mode == Mode::automatic && can_redraw(out)),
      patience_(patience),
      written_at_(Clock::now()) {}

Console::~Console() { status({}); }

int Console::width() const {
  winsize size{};
  return ioctl(fileno(out_), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void Console::line(std::string_view text) {
  if (!enabled_) return;
  const std::lock_guard lock(mutex_);
  written_at_ = Clock::now();
  erase();
  std::fputs((for_people(text) + '\n').c_str(), out_);
  draw();
  std::fflush(out_);
}

void Console::status(std::string_view text) {
  if (!interactive_) return;
  const std::lock_guard lock(mutex_);
  erase();
  status_ = cut(for_people(text, ""), width() - 1);
  status_is_elapsed_ = false;
  draw();
  std::fflush(out_);
}

void Console::progress(std::string_view what, uint64_t done, uint64_t total) {
  const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
  if (interactive_) {
    status(total == 0
               ? fmt::format("{}: {}", what, grouped(done))
               : fmt::format("{} {} {}/{}", what, progress_bar(share, 30), grouped(done), grouped(total)));
    return;
  }
  if (!silent()) return;
  line(total == 0 ? fmt::format("{}: {}", what, grouped(done))
                  : fmt::format("{}: {} of {}", what, grouped(done), grouped(total)));
}

bool Console::silent() {
  const std::lock_guard lock(mutex_);
  return Clock::now() - written_at_ >= patience_.log;
}

void Console::tick(const Elapsed& elapsed) {
  const auto time = Clock::now() - elapsed.began_;
  const std::string text =
      fmt::format("{}: {} s", elapsed.what_, std::chrono::duration_cast<std::chrono::seconds>(time).count());
  {
    const std::lock_guard lock(mutex_);
    if (newest_ != &elapsed || time < patience_.terminal) return;
    if (interactive_) {
      if (!status_.empty() && !status_is_elapsed_) return;
      erase();
      status_ = cut(for_people(text, ""), width() - 1);
      status_is_elapsed_ = true;
      draw();
      std::fflush(out_);
      return;
    }
  }
  if (silent()) line(text);
}

void Console::erase() {
  if (!status_.empty()) std::fputs("\r\x1b[2K", out_);
}

void Console::draw() {
  if (!status_.empty()) std::fwrite(status_.data(), 1, status_.size(), out_);
}

Elapsed::Elapsed(Console& console, std::string what)
    : console_(console), what_(std::move(what)), began_(Clock::now()) {
  if (!console.enabled_) return;
  {
    const std::lock_guard lock(console.mutex_);
    outer_ = std::exchange(console.newest_, this);
  }
  ticker_.emplace("pl-elapsed", console.patience_.terminal / 2,
                  [this] { return console_.tick(*this), true; });
}

Elapsed::~Elapsed() {
  if (!ticker_) return;
  ticker_.reset();
  const std::lock_guard lock(console_.mutex_);
  console_.newest_ = outer_;
  if (!console_.status_is_elapsed_) return;
  console_.erase();
  console_.status_.clear();
  console_.status_is_elapsed_ = false;
  std::fflush(console_.out_);
}

std::string progress_bar(double done, int columns) {
  const int halves = static_cast<int>(std::lround(std::clamp(done, 0.0, 1.0) * columns * 2));
  std::string bar;
  for (int i = 0; i < columns; ++i) bar += 2 * i + 1 < halves ? "━" : 2 * i + 1 == halves ? "╸" : "─";
  return bar;
}

}  // namespace pipeline::observe
