#include "core/launch/log_tail.hpp"

#include <fmt/format.h>

#include <deque>
#include <fstream>

namespace pipeline::launch {
namespace {

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
