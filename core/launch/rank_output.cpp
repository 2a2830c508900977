#include "core/launch/rank_output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "core/base/error.hpp"

namespace pipeline::launch {
namespace {

constexpr size_t kLast = 16384;  // bytes, enough for any error and what led to it
constexpr size_t kMostUnwritten = 1 << 20;

void close(int& end) {
  if (end >= 0) ::close(end);
  end = -1;
}

}  // namespace

RankOutput::RankOutput(const std::filesystem::path& run_dir, int rank)
    : file_(run_dir.empty() ? run_dir : run_dir / "logs" / fmt::format("rank-{}.out", rank)) {
  if (::pipe2(ends_, O_CLOEXEC) != 0)
    throw Error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
}

RankOutput::~RankOutput() {
  for (int& end : ends_) close(end);
}

void RankOutput::close_write() { close(ends_[1]); }

void RankOutput::drain() {
  std::array<char, 16384> buffer;
  while (ends_[0] >= 0) {
    const ssize_t size = ::read(ends_[0], buffer.data(), buffer.size());
    if (size > 0) {
      keep(std::string(buffer.data(), static_cast<size_t>(size)));
    } else if (size == 0) {
      close(ends_[0]);
    } else if (errno != EINTR) {
      return;
    }
  }
}

// Opened each time: --fresh moves the folder aside while the run starts.
void RankOutput::keep(const std::string& text) {
  last_ += text;
  if (last_.size() > kLast) last_.erase(0, last_.size() - kLast);
  unwritten_ += text;
  if (unwritten_.size() > kMostUnwritten) unwritten_.erase(0, unwritten_.size() - kMostUnwritten);
  const int file =
      file_.empty() ? -1 : ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return;
  const ssize_t written = ::write(file, unwritten_.data(), unwritten_.size());
  if (written > 0) unwritten_.erase(0, static_cast<size_t>(written));
  ::close(file);
}

std::vector<std::string> RankOutput::tail(size_t lines) const {
  std::vector<std::string> all;
  std::istringstream in(last_);
  for (std::string line; std::getline(in, line);) all.push_back(line);
  if (all.size() > lines) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(lines));
  return all;
}

}  // namespace pipeline::launch
