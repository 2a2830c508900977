#include "core/launch/attempt.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <deque>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/launch/rank_env.hpp"

// What remains of a rank that died: what it wrote to stdout and stderr, and its own log.

namespace pipeline::launch {
namespace {

using std::chrono::milliseconds;

constexpr size_t kOutputLines = 20, kLogLines = 5;

void append_lines(std::string& text, const std::string& title, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  text += fmt::format("\n  {}:", title);
  for (const std::string& line : lines) text += "\n  | " + line;
}

uint16_t port_of(const Socket& socket) {
  Address address;
  address.length = sizeof address.storage;
  return ::getsockname(socket.fd(), address.get(), &address.length) == 0 ? address.port() : 0;
}

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

Attempt::Attempt(const HostPlan& plan, const std::vector<std::string>& command, uint32_t number,
                 SignalPipe& signals, Say say)
    : plan_(plan), signals_(signals), say_(std::move(say)), oom_kills_(oom_kills()) {
  try {
    start(command, number);
  } catch (...) {
    send(SIGKILL);
    throw;
  }
}

Attempt::~Attempt() {
  send(SIGKILL);
  for (Child& child : children_)
    if (child.running())
      while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
      }
}

void Attempt::start(const std::vector<std::string>& command, uint32_t number) {
  World world{.size = plan_.nodes * plan_.processes,
              .local_size = plan_.processes,
              .launcher = plan_.launcher,
              .address = plan_.address,
              .port = plan_.port,
              .port_tries = plan_.port_tries,
              .run_id = plan_.run_id,
              .secret = plan_.secret,
              .attempt = number};
  // Opened here already, so that nobody else can take the port before rank 0 serves it.
  Socket listening;
  if (plan_.node_rank == 0) {
    listening = listen_for(world);
    world.port = port_of(listening);
    world.port_tries = 1;
  }
  const Variables inherited = own_variables();
  for (int32_t local = 0; local < plan_.processes; ++local) {
    Child& child = children_.emplace_back();
    child.world = world;
    child.world.local_rank = local;
    child.world.rank = plan_.node_rank * plan_.processes + local;
    if (child.world.rank == 0)
      child.world.listen_socket = listening.fd();
    else
      child.output = std::make_unique<RankOutput>(plan_.run_dir, child.world.rank);
    Variables environment = supervised_variables(child.world);
    environment.insert(inherited.begin(), inherited.end());
    child.pid = start_process({.command = command,
                               .environment = environment,
                               .output = child.output ? child.output->write_end() : -1,
                               .kept_open = child.world.listen_socket,
                               .signals = signals_});
    if (child.output) child.output->close_write();
  }
}

int Attempt::run() {
  while (any_running()) {
    wait_for_events();
    for (const int signal : signals_.take()) on_signal(signal);
    for (Child& child : children_)
      if (child.output) child.output->drain();
    tell_what_is_waited_for();
    if (ending_since_ && Clock::now() >= next_step_time()) take_step();
  }
  explain_end();
  return exit_code();
}

// Shows what this host's ranks wait for; a rank 0 that is a child says so itself.
void Attempt::tell_what_is_waited_for() {
  if (plan_.node_rank == 0) return;
  for (const std::string& line : children_.front().output->take_waiting()) say_(line);
}

void Attempt::wait_for_events() {
  std::vector<pollfd> descriptors = {{signals_.descriptor(), POLLIN, 0}};
  for (const Child& child : children_)
    if (child.output && child.output->read_end() >= 0)
      descriptors.push_back({child.output->read_end(), POLLIN, 0});
  int wait = -1;
  if (ending_since_ && next_step_ != TerminationStep::none_left)
    wait = static_cast<int>(std::clamp<int64_t>(
        std::chrono::ceil<milliseconds>(next_step_time() - Clock::now()).count(), 0, 1 << 30));
  ::poll(descriptors.data(), descriptors.size(), wait);
}

void Attempt::on_signal(int signal) {
  if (signal == SIGCHLD) return reap();
  if (signal == SIGTSTP) return stop_and_continue();
  user_signal_ = signal;
  send(signal);
}

void Attempt::reap() {
  for (Child& child : children_) {
    int status = 0;
    if (!child.running() || ::waitpid(child.pid, &status, WNOHANG) != child.pid) continue;
    child.status = status;
    child.verdict = judge_end(status);
    if (child.output) child.output->drain();
    on_end(child);
  }
}

// What comes after our own signals is a consequence, whatever it looks like.
Verdict Attempt::judge_end(int status) const {
  const Verdict verdict = judge(status);
  return verdict == Verdict::failed && next_step_ > TerminationStep::ask ? Verdict::peer_failed : verdict;
}

void Attempt::on_end(const Child& child) {
  if (child.verdict == Verdict::finished) return;
  // All were told to stop and leave at about the same time, some with a lot of memory to give back.
  if (child.verdict == Verdict::saved) return begin_ending(5 * plan_.grace);
  if (ended_by_user(child.status))
    left_ = true;
  else if (child.verdict == Verdict::failed)
    blame(child);
  begin_ending();
}

// Whether a child ended by the user's signal: before it could handle it, or as the core leaves after two.
bool Attempt::ended_by_user(int status) const {
  if (user_signal_ == 0) return false;
  return WIFSIGNALED(status) ? WTERMSIG(status) == user_signal_ : WEXITSTATUS(status) == 128 + user_signal_;
}

void Attempt::begin_ending(milliseconds patience) {
  const Clock::time_point now = Clock::now();
  if (!first_end_) first_end_ = now;
  ending_since_ = std::min(ending_since_.value_or(Clock::time_point::max()), now + patience);
}

Attempt::Clock::time_point Attempt::next_step_time() const {
  if (next_step_ == TerminationStep::none_left) return Clock::time_point::max();
  return *ending_since_ + (next_step_ == TerminationStep::explain ? plan_.grace / 5
                           : next_step_ == TerminationStep::ask   ? plan_.grace
                                                                  : plan_.kill_after);
}

void Attempt::take_step() {
  if (next_step_ == TerminationStep::explain)
    explain_end();
  else
    end_stragglers(next_step_ == TerminationStep::ask ? SIGTERM : SIGKILL);
  next_step_ = static_cast<TerminationStep>(static_cast<int>(next_step_) + 1);
}

void Attempt::end_stragglers(int signal) {
  std::vector<int32_t> ranks;
  for (const Child& child : children_)
    if (child.running()) ranks.push_back(child.world.rank);
  if (ranks.empty()) return;
  const std::chrono::duration<double> passed = Clock::now() - *first_end_;
  say_(fmt::format("rank{} {} did not leave within {:.1f} s: sending {}", ranks.size() == 1 ? "" : "s",
                   fmt::join(ranks, ", "), passed.count(), signal_name(signal)));
  send(signal);
}

// Ctrl-Z on the terminal reaches this process only.
void Attempt::stop_and_continue() {
  send(SIGSTOP);
  ::raise(SIGSTOP);
  send(SIGCONT);
}

// SIGKILL reaches what a rank has started, too.
void Attempt::send(int signal) {
  for (const Child& child : children_)
    if (child.running()) ::kill(signal == SIGKILL ? -child.pid : child.pid, signal);
}

bool Attempt::any_running() const {
  return std::any_of(children_.begin(), children_.end(), [](const Child& child) { return child.running(); });
}

void Attempt::blame(const Child& child) {
  blamed_ = true;
  std::string text = fmt::format("error: rank {} on host {} (pid {}) {}", child.world.rank, host_name(),
                                 child.pid, describe_end(child.status, oom_kills_));
  append_last_words(text, child);
  say_(text);
}

void Attempt::append_last_words(std::string& text, const Child& child) const {
  if (child.output)
    append_lines(text, fmt::format("the last that rank {} wrote to stderr", child.world.rank),
                 child.output->tail(kOutputLines));
  const LogTail log = log_tail(plan_.run_dir, child.world.rank, started_, kLogLines);
  append_lines(text, "the end of " + log.file.string(), log.lines);
}

// Tells what nobody has told so far. Where ranks ended with an error of the configuration, rank 0 has printed
// its own. Where no process of this host is to blame, one of them has told what it knows
// (ProcessGroup::tell): rank 0 to the console, another one here.
void Attempt::explain_end() {
  if (blamed_ || left_ || explained_) return;
  const auto first_with = [&](Verdict verdict) {
    return std::find_if(children_.begin(), children_.end(),
                        [&](const Child& child) { return child.verdict == verdict; });
  };
  if (const auto child = first_with(Verdict::config); child != children_.end()) {
    if (!any_running() && child->world.rank != 0) blame(*child);
    return;
  }
  for (const Child& child : children_) {
    const bool of_peer = child.verdict == Verdict::peer_failed || child.verdict == Verdict::peer_refused;
    if (!of_peer || !child.output) continue;
    for (const std::string& line : child.output->tail(kOutputLines)) say_(line);
    explained_ = true;
  }
}

int Attempt::exit_code() const {
  if (left_) return 128 + user_signal_;
  Verdict worst = Verdict::finished;
  for (const Child& child : children_) worst = std::max(worst, *child.verdict);
  if (worst == Verdict::peer_refused) worst = Verdict::config;
  return worst == Verdict::peer_failed ? kExitFailed : code_of(worst);
}

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
