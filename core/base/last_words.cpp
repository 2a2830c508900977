#include "core/base/last_words.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

namespace pipeline {
namespace {

constexpr size_t kReserve = size_t{1} << 20;

std::mutex phase_mutex;
char phase_text[160];  // of fixed size: read where there is no memory

std::atomic<void*> reserve{nullptr};
char prefix_text[64];
int python_signal = 0, python_file = -1;

// Frees the memory that is kept for this case; then there is none.
void on_no_memory() {
  void* const kept = reserve.exchange(nullptr);
  if (kept == nullptr) throw std::bad_alloc();
  std::free(kept);
}

[[noreturn]] void on_terminate() {
  static std::atomic_flag is_ending;
  if (is_ending.test_and_set()) ::pause();  // another thread is at it
  std::free(reserve.exchange(nullptr));
  char thread[16] = "?", what[512] = "no exception is under way";
  ::pthread_getname_np(::pthread_self(), thread, sizeof thread);
  bool has_no_memory = false;
  try {
    if (const auto exception = std::current_exception()) std::rethrow_exception(exception);
  } catch (const std::bad_alloc&) {
    has_no_memory = true;
  } catch (const std::exception& error) {
    std::snprintf(what, sizeof what, "%s", error.what());
  } catch (...) {
    std::snprintf(what, sizeof what, "not a std::exception");
  }
  static char text[1024];
  const bool knows_phase = phase_mutex.try_lock() && phase_text[0] != '\0';
  const int size =
      has_no_memory
          ? std::snprintf(text, sizeof text,
                          "error: %sout of memory on the host, in the thread %s%s%s: use a smaller "
                          "train.micro_batch or fewer loader.workers, end other programs, or raise the "
                          "memory limit of this one (ulimit -v, or the batch system's)\n",
                          prefix_text, thread, knows_phase ? " while " : "", knows_phase ? phase_text : "")
          : std::snprintf(text, sizeof text,
                          "error: %san exception that nothing catches, in the thread %s%s%s: %s; this is a "
                          "mistake of the program or of a plugin: please report it\n",
                          prefix_text, thread, knows_phase ? " while " : "", knows_phase ? phase_text : "",
                          what);
  [[maybe_unused]] const auto written =
      ::write(STDERR_FILENO, text, std::min(static_cast<size_t>(std::max(size, 0)), sizeof text - 1));
  if (has_no_memory) ::_exit(1);
  ::signal(SIGABRT, SIG_DFL);
  std::abort();
}

// "main runs, pl-load sleeps (2)".
std::string threads_now() {
  std::map<std::string, int> counts;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::string name, stat;
    std::getline(std::ifstream(entry.path() / "comm"), name);
    std::getline(std::ifstream(entry.path() / "stat"), stat);
    const size_t end = stat.rfind(") ");
    if (end == std::string::npos) continue;
    if (entry.path().filename() == std::to_string(::getpid())) name = "main";
    const char state = stat[end + 2];
    ++counts[name + (state == 'R' ? " runs" : state == 'D' ? " waits for a disk" : " waits")];
  }
  std::string text;
  for (const auto& [thread, count] : counts)
    text += (text.empty() ? "" : ", ") + thread + (count > 1 ? fmt::format(" ({})", count) : "");
  return text;
}

std::string python_stacks() {
  if (python_signal == 0) return "";
  if (::ftruncate(python_file, 0) != 0 || ::lseek(python_file, 0, SEEK_SET) < 0) return "";
  ::kill(::getpid(), python_signal);
  off_t size = 0;
  for (int tries = 0; tries < 20; ++tries) {  // until it does not grow any more
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    struct stat now {};
    if (::fstat(python_file, &now) != 0 || (now.st_size > 0 && now.st_size == size)) break;
    size = now.st_size;
  }
  std::string text(static_cast<size_t>(size), '\0');
  const ssize_t got = ::pread(python_file, text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

}  // namespace

void note_phase(std::string_view phase, uint64_t step) {
  const std::lock_guard lock(phase_mutex);
  const int length = static_cast<int>(std::min<size_t>(phase.size(), 100));
  if (step > 0)
    std::snprintf(phase_text, sizeof phase_text, "%.*s, step %llu", length, phase.data(),
                  static_cast<unsigned long long>(step));
  else
    std::snprintf(phase_text, sizeof phase_text, "%.*s", length, phase.data());
}

std::string phase_now() {
  const std::lock_guard lock(phase_mutex);
  return phase_text;
}

LastWords::LastWords(std::string_view prefix)
    : before_(std::set_new_handler(on_no_memory)), terminate_before_(std::set_terminate(on_terminate)) {
  std::snprintf(prefix_text, sizeof prefix_text, "%.*s", static_cast<int>(prefix.size()), prefix.data());
  note_phase("", 0);
  std::free(reserve.exchange(std::malloc(kReserve)));
}

LastWords::~LastWords() {
  std::set_new_handler(before_);
  std::set_terminate(terminate_before_);
  std::free(reserve.exchange(nullptr));
}

void set_python_stacks(int signal, int file) { python_signal = signal, python_file = file; }

std::string stacks_now() {
  std::string text = "  threads: " + threads_now() + "\n";
  std::string python = python_stacks();
  for (size_t begin = 0, end = 0; begin < python.size(); begin = end + 1) {
    end = std::min(python.find('\n', begin), python.size());
    text += "  " + python.substr(begin, end - begin) + "\n";
  }
  return text;
}

}  // namespace pipeline
