#include "core/observe/tracker.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <span>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/fail.hpp"
#include "core/base/socket.hpp"

namespace pipeline::observe {

// Built in: tracker_client.py, and what each tracker needs before it.
extern const std::string_view kTrackerClient, kWandbTracker, kMlflowTracker;

const Tracker::Service Tracker::kWandb{.name = "Weights & Biases",
                                       .key = "wandb",
                                       .script = kWandbTracker,
                                       .advice = "WANDB_MODE=offline needs no server"};
const Tracker::Service Tracker::kMlflow{.name = "MLflow",
                                        .key = "mlflow",
                                        .script = kMlflowTracker,
                                        .advice = "a database such as sqlite:///mlflow.db needs no server"};

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kStartLimit = 180s;  // W&B's own for its server is 90 s
constexpr auto kLook = 100ms;

// Starts the client in a process group of its own: a Ctrl-C is for the run, which then tells it.
pid_t spawn(const Tracker::Service& service, int input, int output, int log) {
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, log, STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::string words[] = {"python3", "-c", std::string(service.script).append(kTrackerClient)};
  char* const command[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t client = -1;
  const int error = ::posix_spawnp(&client, command[0], &files, &attributes, command, environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  if (error != 0)
    fail(
        "python3 cannot be started ({}), and {} needs its package {}: install them, with python3 on the PATH",
        std::strerror(error), service.name, service.key);
  return client;
}

void write_word(const Descriptor& to, const std::string& text) {
  std::span<const std::byte> left = std::as_bytes(std::span(text));
  write_all(to.fd(), left);  // a client that is gone shows in its answer, or in its end
}

}  // namespace

Tracker::Tracker(const Options& options)
    : service_(*options.service), log_(options.folder / "logs" / fmt::format("{}.log", service_.key)) {
  std::filesystem::create_directories(log_.parent_path());
  Pipe input, report;
  const Descriptor log(::open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log) fail("{} cannot be opened: {}", log_.string(), std::strerror(errno));
  client_ = spawn(service_, input.out.fd(), report.in.fd(), log.fd());
  input.out.close();
  report.in.close();
  input_ = std::move(input.in);
  report_ = std::move(report.out);
  const nlohmann::ordered_json asked{{"folder", std::filesystem::absolute(options.folder).string()},
                                     {"uri", options.uri},
                                     {"project", options.project},
                                     {"name", options.name},
                                     {"continued", options.continued},
                                     {"config", options.config}};
  write_word(input_, asked.dump() + "\n");
  const std::string problem = answer(options.cancelled);
  if (problem.empty()) return;
  ::kill(-client_, SIGKILL);
  ::waitpid(client_, nullptr, 0);
  throw Error(problem);
}

// The client's answer; "": the run was accepted.
std::string Tracker::answer(const std::function<bool()>& cancelled) {
  std::string line;
  for (const auto deadline = Clock::now() + kStartLimit; Clock::now() < deadline;) {
    if (cancelled && cancelled()) return "";
    pollfd end{report_.fd(), POLLIN, 0};
    if (::poll(&end, 1, static_cast<int>(std::chrono::milliseconds(kLook).count())) <= 0) continue;
    char byte = 0;
    if (::read(report_.fd(), &byte, 1) != 1)
      return fmt::format("its Python client ended before the run was accepted: see {}", log_.string());
    if (byte == '\n') return line;
    line += byte;
  }
  return fmt::format("{} did not answer within {} seconds: see {}; {}", service_.name, kStartLimit.count(),
                     log_.string(), service_.advice);
}

Tracker::~Tracker() = default;  // the client sees its input end

bool Tracker::died() { return ::waitpid(client_, nullptr, WNOHANG) != 0; }

void Tracker::say_end(bool finished) {
  write_word(input_, finished ? "finished\n" : "stopped\n");
  input_.close();
}

Tracker::End Tracker::wait(std::chrono::seconds limit) {
  for (const auto deadline = Clock::now() + limit; Clock::now() < deadline;
       std::this_thread::sleep_for(kLook)) {
    int status = 0;
    if (::waitpid(client_, &status, WNOHANG) == 0) continue;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? End::uploaded : End::failed;
  }
  return End::still_uploading;
}

}  // namespace pipeline::observe
