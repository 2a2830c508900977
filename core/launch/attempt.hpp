// The processes of one host, from their start to the end of the last one.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/socket.hpp"
#include "core/launch/launch.hpp"
#include "core/launch/process.hpp"

namespace pipeline::launch {

// What a rank without a console writes to stdout and stderr: kept in a file of the run, its last lines also
// in memory. The rank's own log is separate.
class RankOutput {
 public:
  // Writes to `run_dir`/logs/rank-N.out, created once something is printed and the run's folder exists.
  RankOutput(const std::filesystem::path& run_dir, int rank);

  int read_end() const { return pipe_.out.fd(); }  // -1: at end of file
  int write_end() const { return pipe_.in.fd(); }
  void close_write() { pipe_.in.close(); }  // once the child has it

  void drain();  // reads what is available, without blocking
  std::vector<std::string> tail(size_t lines) const;
  std::vector<std::string> take_waiting() {
    return std::exchange(waiting_, {});
  }  // kWaitingLine, since last asked

 private:
  void keep(const std::string& text);

  std::filesystem::path file_;
  Pipe pipe_;
  std::string unwritten_;  // until there is a folder
  std::string last_;       // the last bytes of all output
  std::string line_;       // the beginning of a line that has not ended
  std::vector<std::string> waiting_;
};

// The last lines of a rank's own log.
struct LogTail {
  std::filesystem::path file;  // empty: none was written
  std::vector<std::string> lines;
};

// Reads the newest logs/rank-N.log in the folder of the run or of a stage, if written after `since`.
LogTail log_tail(const std::filesystem::path& run_dir, int rank, std::filesystem::file_time_type since,
                 size_t lines);

class Attempt {
 public:
  using Say = std::function<void(const std::string&)>;  // prints lines for the user

  // Starts all processes. The arguments must outlive this object. If it throws Error, no process is left.
  Attempt(const HostPlan& plan, const std::vector<std::string>& command, uint32_t number, SignalPipe& signals,
          Say say);
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  // Returns the overall exit code when no process is left. By then, failures have been printed. Once one
  // process fails, the others get a while to notice by themselves, then SIGTERM, then SIGKILL.
  int run();

  // True if the user's signals were passed on to the processes: then they are not restarted.
  bool was_signalled() const { return user_signal_ != 0; }

 private:
  using Clock = std::chrono::steady_clock;
  // After the first abnormal end, one after the other: explain the failure if nobody has, SIGTERM, SIGKILL.
  enum class TerminationStep { explain, ask, kill, none_left };
  struct Child {
    World world;
    std::unique_ptr<RankOutput> output;  // nullptr: rank 0, which has the console
    pid_t pid = 0;
    int status = 0;                  // from waitpid
    std::optional<Verdict> verdict;  // once it has ended
    bool running() const { return pid > 0 && !verdict; }
  };

  void start(const std::vector<std::string>& command, uint32_t number);
  void tell_what_is_waited_for();
  void wait_for_events();
  void on_signal(int signal);
  void reap();
  void on_end(const Child& child);
  Verdict judge_end(int status) const;
  bool ended_by_user(int status) const;
  void begin_ending(std::chrono::milliseconds patience = {});
  Clock::time_point next_step_time() const;
  void take_step();
  void end_stragglers(int signal);
  void stop_and_continue();
  void send(int signal);
  bool any_running() const;

  void blame(const Child& child);
  void explain_end();
  void append_last_words(std::string& text, const Child& child) const;
  int exit_code() const;

  const HostPlan& plan_;
  SignalPipe& signals_;
  const Say say_;
  // File times come from a clock that ticks at least every 10 ms: a file that a rank writes at once may be
  // stamped earlier than now.
  const std::filesystem::file_time_type started_ =
      std::filesystem::file_time_type::clock::now() - std::chrono::milliseconds(10);
  const uint64_t oom_kills_;
  std::vector<Child> children_;
  std::optional<Clock::time_point> first_end_;     // of a rank that did not finish
  std::optional<Clock::time_point> ending_since_;  // start of the steps' times
  TerminationStep next_step_ = TerminationStep::explain;
  int user_signal_ = 0;                                     // the last one passed on
  bool blamed_ = false, explained_ = false, left_ = false;  // left_: on the user's signal, without saving
};

}  // namespace pipeline::launch
