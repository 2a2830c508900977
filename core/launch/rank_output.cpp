// What remains of a rank that died: what it wrote to stdout and stderr, and its own log.
#include "core/launch/attempt.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <deque>
#include <fstream>
#include <sstream>
#include <utility>

namespace pipeline::launch {
namespace {

constexpr size_t kLast = 16384;  // bytes, enough for any error and what led to it
constexpr size_t kMostUnwritten = 1 << 20;
constexpr size_t kLongestLine = 2000;

namespace fs = std::filesystem;

constexpr std::streamoff kEnd = 16384;  // bytes read at most

std::vector<fs::path> folders(const fs::path& run_dir) {
  std::vector<fs::path> all = {run_dir};
  std::error_code error;
  for (fs::directory_iterator i(run_dir, error), end; !error && i != end; i.increment(error)) {
    std::error_code gone;
    if (i->is_directory(gone)) all.push_back(i->path());
  }
  return all;
}

std::vector<std::string> last_lines(const fs::path& file, size_t lines) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  const std::streamoff size = in.tellg();
  in.seekg(std::max<std::streamoff>(0, size - kEnd));
  std::deque<std::string> last;
  for (std::string line; std::getline(in, line);) {
    last.push_back(line);
    if (last.size() > lines) last.pop_front();
  }
  return {last.begin(), last.end()};
}

}  // namespace

RankOutput::RankOutput(const std::filesystem::path& run_dir, int rank)
    : file_(run_dir.empty() ? run_dir : run_dir / "logs" / fmt::format("rank-{}.out", rank)) {
  ::fcntl(read_end(), F_SETFL, O_NONBLOCK);
}

void RankOutput::drain() {
  std::array<char, 16384> buffer;
  while (read_end() >= 0) {
    const ssize_t size = ::read(read_end(), buffer.data(), buffer.size());
    if (size > 0) {
      keep(std::string(buffer.data(), static_cast<size_t>(size)));
    } else if (size == 0) {
      pipe_.out.close();
    } else if (errno != EINTR) {
      return;
    }
  }
}

// The file is opened each time: --fresh moves the folder aside while the run starts.
void RankOutput::keep(const std::string& text) {
  last_ += text;
  if (last_.size() > kLast) last_.erase(0, last_.size() - kLast);
  for (const char c : text) {
    if (c != '\n') {
      if (line_.size() < kLongestLine) line_ += c;
    } else if (const std::string line = std::exchange(line_, {}); line.starts_with(kWaitingLine)) {
      waiting_.push_back(line);
    }
  }
  unwritten_ += text;
  if (unwritten_.size() > kMostUnwritten) unwritten_.erase(0, unwritten_.size() - kMostUnwritten);
  if (file_.empty()) return;
  const Descriptor file(::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (!file) return;
  const ssize_t written = ::write(file.fd(), unwritten_.data(), unwritten_.size());
  if (written > 0) unwritten_.erase(0, static_cast<size_t>(written));
}

std::vector<std::string> RankOutput::tail(size_t lines) const {
  std::vector<std::string> all;
  std::istringstream in(last_);
  for (std::string line; std::getline(in, line);)
    if (!line.starts_with(kWaitingLine)) all.push_back(line);  // waiting lines have been shown
  if (all.size() > lines) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(lines));
  return all;
}

LogTail log_tail(const fs::path& run_dir, int rank, fs::file_time_type since, size_t lines) {
  LogTail tail;
  if (run_dir.empty()) return tail;
  for (const fs::path& folder : folders(run_dir)) {
    const fs::path file = folder / "logs" / fmt::format("rank-{}.log", rank);
    std::error_code missing;
    const fs::file_time_type written = fs::last_write_time(file, missing);
    if (missing || written < since) continue;
    since = written;
    tail.file = file;
  }
  if (!tail.file.empty()) tail.lines = last_lines(tail.file, lines);
  return tail;
}

}  // namespace pipeline::launch
