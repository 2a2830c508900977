#include "core/launch/launch.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/descriptor.hpp"
#include "core/base/fail.hpp"
#include "core/base/hash.hpp"
#include "core/base/program.hpp"
#include "core/base/utf8.hpp"
#include "core/launch/attempt.hpp"
#include "core/launch/process.hpp"

namespace pipeline::launch {
namespace {

constexpr uint16_t kDefaultPort = 29500;  // on several hosts; torchrun's, too

std::string given_flags(const LaunchFlags& flags) {
  std::string line;
  const auto add = [&](const char* name, const auto& value) {
    if (value) line += fmt::format("{}{} {}", line.empty() ? "" : " ", name, *value);
  };
  add("--nodes", flags.nodes);
  add("--node-rank", flags.node_rank);
  add("--master-address", flags.master_address);
  add("--master-port", flags.master_port);
  return line;
}

void require_no_flags(const LaunchFlags& flags, const RankEnv& env) {
  const std::string given = given_flags(flags);
  if (!given.empty())
    fail(PL_ERROR_CONFIG,
         "{} on the command line, but {} started this process as {}={} of {}={}: leave out the flags", given,
         env.world.launcher, env.rank_name, env.world.rank, env.size_name, env.world.size);
  if (flags.local_rank && *flags.local_rank != env.world.local_rank)
    fail(PL_ERROR_CONFIG,
         "--local-rank {} on the command line, but {} says local rank {}: leave out the flag",
         *flags.local_rank, env.world.launcher, env.world.local_rank);
}

// How many ranks each process stands for, where a launcher starts one process for each host.
int32_t ranks_per_host(const RankEnv& env, const LaunchRequest& request) {
  if (env.processes_per_host > 0 && request.processes && *request.processes != env.processes_per_host)
    fail(PL_ERROR_CONFIG, "launch.processes = {}, but {} says {} for each host: leave out one of them",
         *request.processes, env.world.launcher, env.processes_per_host);
  if (env.processes_per_host > 0) return env.processes_per_host;
  if (request.processes) return *request.processes;
  return env.counts_devices ? std::max(1, request.cuda_devices) : 1;
}

// An option that the launcher has decided otherwise.
std::string note_on(const RankEnv& env, const LaunchRequest& request) {
  const World& world = env.world;
  std::string note;
  if (request.processes && *request.processes != world.local_size)
    note = fmt::format("launch.processes = {} is not used: {} has started {} on this host",
                       *request.processes, world.launcher, world.local_size);
  if (request.max_restarts > 0)
    note +=
        fmt::format("{}launch.max_restarts = {} is not used: {} ends and restarts processes by its own rules",
                    note.empty() ? "" : "; ", request.max_restarts, world.launcher);
  return note;
}

std::variant<World, HostPlan> place_in(const RankEnv& env, const LaunchRequest& request) {
  if (env.world.supervised) return env.world;
  require_no_flags(request.flags, env);
  const bool alone_on_host = env.one_per_host && env.world.local_size == 1;
  const int32_t processes = alone_on_host ? ranks_per_host(env, request) : 1;
  if (alone_on_host && (processes > 1 || (request.max_restarts > 0 && env.counts_devices)))
    return HostPlan{.processes = processes,
                    .nodes = env.world.size,
                    .node_rank = env.world.rank,
                    .launcher = env.world.launcher,
                    .address = env.world.size == 1 ? "127.0.0.1" : env.world.address,
                    .port = env.world.size == 1 ? uint16_t{0} : env.world.port,
                    .port_tries = env.world.size == 1 ? uint16_t{1} : env.world.port_tries,
                    .run_id = env.world.run_id,
                    .secret = env.world.secret,
                    .max_restarts = request.max_restarts,
                    .run_dir = request.run_dir};
  World world = env.world;
  world.note = note_on(env, request);
  return world;
}

std::string random_id() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}", source(), source());
}

// Several hosts by hand: the same command on each, with another --node-rank.
void plan_hosts(HostPlan& plan, const LaunchFlags& flags, const Variables& variables) {
  if (!flags.node_rank)
    fail(PL_ERROR_CONFIG, "--nodes {} needs --node-rank, from 0 to {}, another one on each host", plan.nodes,
         plan.nodes - 1);
  const std::optional<std::string> address =
      flags.master_address ? flags.master_address : text(variables, "MASTER_ADDR");
  if (!address)
    fail(PL_ERROR_CONFIG,
         "--nodes {} needs --master-address (or MASTER_ADDR in the environment): the address of "
         "the host with --node-rank 0",
         plan.nodes);
  plan.node_rank = *flags.node_rank;
  plan.address = *address;
  if (plan.port == 0) plan.port = kDefaultPort;
  plan.run_id = fmt::format("{}:{}", plan.address, plan.port);
}

std::variant<World, HostPlan> place_by_hand(const LaunchRequest& request, const Variables& variables) {
  const LaunchFlags& flags = request.flags;
  if (flags.local_rank)
    fail(PL_ERROR_CONFIG,
         "--local-rank {} is what python -m torch.distributed.launch adds, but its variables "
         "(RANK, WORLD_SIZE) are not set: leave out the flag",
         *flags.local_rank);
  if (!flags.nodes && (flags.node_rank || flags.master_address))
    fail(PL_ERROR_CONFIG,
         "{} is for a run on several hosts, and --nodes is not given: add --nodes, or leave it out",
         flags.node_rank ? fmt::format("--node-rank {}", *flags.node_rank)
                         : "--master-address " + *flags.master_address);
  HostPlan plan{.processes = request.processes.value_or(std::max(1, request.cuda_devices)),
                .nodes = flags.nodes.value_or(1),
                .secret = text(variables, kRunSecret).value_or(""),
                .max_restarts = request.max_restarts,
                .run_dir = request.run_dir};
  if (plan.nodes < 1) fail(PL_ERROR_CONFIG, "--nodes {}: must be at least 1", plan.nodes);
  if (flags.node_rank && (*flags.node_rank < 0 || *flags.node_rank >= plan.nodes))
    fail(PL_ERROR_CONFIG, "--node-rank {}: must be from 0 to {}, since --nodes is {}", *flags.node_rank,
         plan.nodes - 1, plan.nodes);
  if (const auto port = flags.master_port ? flags.master_port : port_number(variables, "MASTER_PORT"))
    plan.port = *port;
  if (plan.nodes > 1)
    plan_hosts(plan, flags, variables);
  else
    plan.run_id = random_id();
  if (plan.nodes == 1 && plan.processes == 1 && plan.max_restarts == 0) return World{};
  return plan;
}

// Writes to the console, over a status line that rank 0 may be drawing, and to logs/launch.log once the run
// has its folder.
void say(const HostPlan& plan, const std::string& text) {
  fmt::print(standard_error(), "{}{}\n", ::isatty(STDERR_FILENO) ? "\r\033[K" : "",
             printable(with_shown_paths(text)));
  if (!plan.run_dir.empty())
    std::ofstream(plan.run_dir / "logs" / "launch.log", std::ios::app) << text << '\n';
}

namespace fs = std::filesystem;

constexpr size_t kDigits = 64;  // of random_secret()

// The file of a run's secret. Two runs may use one folder, a training and an evaluation, say.
fs::path file_of(const World& world, const fs::path& run_dir) {
  const fs::path folder = (fs::absolute(run_dir) / ".").lexically_normal().parent_path();
  return folder.parent_path() /
         fmt::format(".{}.{:016x}.secret", folder.filename().string(), fnv1a(world.run_id));
}

// Files of earlier meetings in which rank 0 was killed. No meeting lasts a day; `file` itself may be in use.
void remove_left_behind(const fs::path& file) {
  constexpr size_t kHash = 16;
  constexpr std::string_view kEnding = ".secret";
  const std::string own = file.filename().string();
  const std::string run = own.substr(0, own.size() - kHash - kEnding.size());
  const auto yesterday = fs::file_time_type::clock::now() - std::chrono::hours(24);
  std::error_code error, ignored;
  for (fs::directory_iterator entry(file.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name == own || name.size() < own.size() || !name.starts_with(run) ||
        name.compare(run.size() + kHash, kEnding.size(), kEnding) != 0)
      continue;
    const auto made = entry->last_write_time(ignored);
    if (!ignored && made < yesterday) fs::remove(entry->path(), ignored);
  }
}

// Makes the file whole or not at all, and not over one that is there. False: errno says why.
bool make(const fs::path& file) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  const std::string part = fmt::format("{}.{}", file.string(), random_secret().substr(0, 16));
  const Descriptor descriptor(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!descriptor) return false;
  const std::string secret = random_secret();
  const bool written =
      ::write(descriptor.fd(), secret.data(), secret.size()) == static_cast<ssize_t>(kDigits) &&
      ::fsync(descriptor.fd()) == 0;
  const bool there = written && (::link(part.c_str(), file.c_str()) == 0 || errno == EEXIST);
  const int problem = errno;
  ::unlink(part.c_str());
  errno = problem;
  return there;
}

// The secret in the file. Empty: errno says why.
std::string read(const fs::path& file) {
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat facts {};
  if (!descriptor || ::fstat(descriptor.fd(), &facts) != 0) return {};
  if (facts.st_uid != ::geteuid() || (facts.st_mode & 077) != 0)
    fail(PL_ERROR_CONFIG,
         "{}, the file with the run's secret, belongs to user {} with mode {:o}, must be this "
         "user's ({}) with mode 600: remove it, or set {} to a secret text on all hosts",
         file.string(), facts.st_uid, facts.st_mode & 07777, ::geteuid(), kRunSecret);
  std::array<char, kDigits> text;
  const bool whole = ::read(descriptor.fd(), text.data(), text.size()) == static_cast<ssize_t>(kDigits);
  return whole ? std::string(text.data(), text.size()) : std::string();
}

}  // namespace

std::variant<World, HostPlan> find_place(const LaunchRequest& request, const Variables& variables) {
  std::optional<RankEnv> env = find_rank_env(variables);
  if (env) {
    env->world.secret = text(variables, kRunSecret).value_or("");
    env->world.if_alone = hint_if_alone(variables, env->world);
  }
  return env ? place_in(*env, request) : place_by_hand(request, variables);
}

int32_t rank_in_environment() noexcept {
  try {
    const std::optional<RankEnv> env = find_rank_env(own_variables());
    return env ? env->world.rank : 0;
  } catch (const std::exception&) {
    return 0;
  }
}

int supervise(const HostPlan& given, std::vector<std::string> command) {
  HostPlan plan = given;
  if (plan.nodes == 1 && plan.secret.empty()) plan.secret = random_secret();
  if (command.empty()) command = own_command();
  SignalPipe signals;
  const auto tell = [&](const std::string& text) { say(plan, text); };
  for (uint32_t attempt = 0;; ++attempt) {
    Attempt processes(plan, command, attempt, signals, tell);
    const int code = processes.run();
    // Rank 0 says on its own host what was saved; the other hosts' consoles would end without a word.
    if (code == kExitSaved && plan.node_rank > 0) tell("stopped by a signal: run the same command again");
    if (code != kExitFailed || processes.was_signalled() || plan.max_restarts == 0) return code;
    if (attempt == plan.max_restarts) {
      tell(fmt::format("giving up after {} restart{} (launch.max_restarts)", attempt,
                       attempt == 1 ? "" : "s"));
      return code;
    }
    tell(fmt::format("restart {} of {}: starting the processes again, from the last checkpoint", attempt + 1,
                     plan.max_restarts));
  }
}

RunSecret::RunSecret(World& world, const fs::path& run_dir) {
  if (world.size == 1 || !world.secret.empty()) return;
  const fs::path file = file_of(world, run_dir);
  for (int i = 0; i < 3 && world.secret.empty(); ++i)  // rank 0 of an earlier attempt may be removing its own
    if (make(file)) world.secret = read(file);
  if (!world.secret.empty()) {
    if (world.rank == 0) {
      file_ = file;
      remove_left_behind(file);
    }
    return;
  }
  note_ = fmt::format(
      "the run has no secret, so anyone who reaches port {} can disturb it: {} cannot be created: {}; set {} "
      "to a secret text on all hosts",
      world.port, file.string(), std::strerror(errno), kRunSecret);
}

RunSecret::~RunSecret() {
  std::error_code ignored;
  if (!file_.empty()) fs::remove(file_, ignored);
}

}  // namespace pipeline::launch
