#include "core/base/program.hpp"

#include <cctype>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace pipeline {
namespace {

constexpr const char* kSelf = "/proc/self/exe";

Program own_executable() {
  std::error_code failure;
  const fs::path path = fs::read_symlink(kSelf, failure);
  // This very program, even if its file has been replaced meanwhile; by its path where that will do, because
  // ps and the kernel's log show the last part of it.
  const bool is_there = !failure && fs::equivalent(path, kSelf, failure) && !failure;
  return {.prefix = path.parent_path().parent_path(), .command = {is_there ? path.string() : kSelf}};
}

Program& instance() {
  static Program program = own_executable();
  return program;
}

bool is_of_path(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("/._-~+@%").find(c) != std::string_view::npos;
}

constexpr int kStreams = 3;
int kept[kStreams] = {-1, -1, -1};
std::FILE* written[kStreams] = {};  // to stdout and stderr

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

// A child that outlives the run, such as a daemon, must not hold what somebody reads to its end.
void close_in_child() {
  for (int fd = 0; fd < kStreams; ++fd) {
    if (kept[fd] >= 0) ::close(kept[fd]);
    kept[fd] = -1;
    written[fd] = nullptr;
  }
}

}  // namespace

const Program& program() { return instance(); }
void set_program(Program program) { instance() = std::move(program); }

fs::path start_folder() { return program().folder.empty() ? fs::current_path() : program().folder; }

fs::path from_start(const fs::path& path) { return path.empty() ? path : start_folder() / path; }

std::string seen_from(const fs::path& folder, const fs::path& path) {
  const fs::path relative = path.lexically_relative(folder);
  return (relative.empty() || *relative.begin() == ".." ? path : relative).string();
}

std::string as_shown(const fs::path& path) { return seen_from(start_folder(), path); }

std::string with_shown_paths(std::string_view text) {
  const std::string& folder = program().folder.native();
  if (folder.size() < 2) return std::string(text);  // the root folder: all paths are below it
  const std::string begin = folder + '/';
  std::string shown;
  size_t done = 0;
  for (size_t at = 0; (at = text.find(begin, at)) != text.npos; at += begin.size()) {
    if (at > 0 && is_of_path(text[at - 1])) continue;  // of a longer path
    shown += text.substr(done, at - done);
    done = at + begin.size();
  }
  return shown.append(text.substr(done));
}

StandardStreams::StandardStreams() {
  [[maybe_unused]] static const int registered = ::pthread_atfork(nullptr, nullptr, close_in_child);
  for (int fd = 0; fd < kStreams; ++fd) {
    if (!is_open(fd)) ::open("/dev/null", O_RDWR);  // open() takes the lowest number that is free
    kept[fd] = ::fcntl(fd, F_DUPFD_CLOEXEC, kStreams);
    if (fd > 0 && kept[fd] >= 0) written[fd] = ::fdopen(kept[fd], "w");
    // What is said before _exit() would stay in a buffer.
    if (fd == STDERR_FILENO && written[fd] != nullptr) std::setvbuf(written[fd], nullptr, _IONBF, 0);
  }
}

StandardStreams::~StandardStreams() {
  for (int fd = 0; fd < kStreams; ++fd) {
    if (written[fd] != nullptr)
      std::fclose(written[fd]);
    else if (kept[fd] >= 0)
      ::close(kept[fd]);
    kept[fd] = -1;
    written[fd] = nullptr;
  }
}

void StandardStreams::restore() {
  for (int fd = 0; fd < kStreams; ++fd)
    if (kept[fd] >= 0 && !is_open(fd)) ::dup2(kept[fd], fd);
}

std::FILE* standard_output() { return written[STDOUT_FILENO] != nullptr ? written[STDOUT_FILENO] : stdout; }
std::FILE* standard_error() { return written[STDERR_FILENO] != nullptr ? written[STDERR_FILENO] : stderr; }

int above_standard(int fd) {
  if (fd < 0 || fd >= kStreams) return fd;
  const int above = ::fcntl(fd, F_DUPFD_CLOEXEC, kStreams), problem = errno;
  ::close(fd);
  errno = problem;
  return above;
}

}  // namespace pipeline
