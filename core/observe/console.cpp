#include "core/observe/console.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/observe/format.hpp"

namespace pipeline::observe {
namespace {

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

}  // namespace

Console::Console(Mode mode, std::FILE* out)
    : out_(out),
      enabled_(mode != Mode::off),
      interactive_(mode == Mode::automatic && can_redraw(out)),
      written_at_(std::chrono::steady_clock::now()) {}

Console::~Console() { status({}); }

int Console::width() const {
  winsize size{};
  return ioctl(fileno(out_), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void Console::line(std::string_view text) {
  if (!enabled_) return;
  const std::lock_guard lock(mutex_);
  written_at_ = std::chrono::steady_clock::now();
  erase();
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fputc('\n', out_);
  draw();
  std::fflush(out_);
}

void Console::status(std::string_view text) {
  if (!interactive_) return;
  const std::lock_guard lock(mutex_);
  erase();
  status_ = cut(text, width() - 1);
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
  {
    const std::lock_guard lock(mutex_);
    if (std::chrono::steady_clock::now() - written_at_ < std::chrono::seconds(10)) return;
  }
  line(total == 0 ? fmt::format("{}: {}", what, grouped(done))
                  : fmt::format("{}: {} of {}", what, grouped(done), grouped(total)));
}

void Console::erase() {
  if (!status_.empty()) std::fputs("\r\x1b[2K", out_);
}

void Console::draw() {
  if (!status_.empty()) std::fwrite(status_.data(), 1, status_.size(), out_);
}

std::string progress_bar(double done, int columns) {
  const int halves = static_cast<int>(std::lround(std::clamp(done, 0.0, 1.0) * columns * 2));
  std::string bar;
  for (int i = 0; i < columns; ++i) bar += 2 * i + 1 < halves ? "━" : 2 * i + 1 == halves ? "╸" : "─";
  return bar;
}

}  // namespace pipeline::observe
