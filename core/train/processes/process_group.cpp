#include "core/train/processes/process_group.hpp"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/last_words.hpp"
#include "core/base/program.hpp"
#include "core/base/socket.hpp"
#include "core/base/thread.hpp"
#include "core/base/utf8.hpp"
#include "core/config/error.hpp"
#include "core/launch/launch.hpp"
#include "core/launch/process.hpp"
#include "core/train/processes/signals.hpp"

namespace pipeline::train {
namespace {

constexpr int kQuestions = 10;
constexpr std::chrono::duration<double> kPatience{10};

// Called by one rank at a time, so that nobody's question waits behind another's.
std::optional<ClockOffset> ask(peers::Peers& peers, const std::string& key) {
  std::optional<ClockOffset> best;
  for (int i = 0; i < kQuestions; ++i) {
    const int64_t asked = clock_nanoseconds();
    peers.put(fmt::format("{} {} asked", key, i), "");
    const auto answer = peers.get(fmt::format("{} {} answered", key, i), kPatience);
    if (!answer) return std::nullopt;
    const int64_t heard = clock_nanoseconds(), middle = asked + (heard - asked) / 2;
    const ClockOffset offset{std::stoll(*answer) - middle, (heard - asked) / 2 + 1};
    if (!best || offset.error < best->error) best = offset;
  }
  return best;
}

void answer(peers::Peers& peers, const std::string& key) {
  for (int i = 0; i < kQuestions; ++i) {
    if (!peers.get(fmt::format("{} {} asked", key, i), kPatience)) return;
    peers.put(fmt::format("{} {} answered", key, i), std::to_string(clock_nanoseconds()));
  }
}

// A rank that is not in a collective when another one fails (but in a long load, say) hears of it late or
// never: after so long it is made to leave.
constexpr auto kLastResort = std::chrono::seconds(8);
// A broken connection to a peer shows in the backend before its reason has gone round.
constexpr auto kNews = std::chrono::seconds(3);

}  // namespace

int64_t clock_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string this_machine() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

std::optional<ClockOffset> compare_clocks(ProcessGroup& processes, const std::string& machine) {
  const std::vector<nlohmann::json> machines = processes.exchange("machines", machine);
  const std::string name = fmt::format("clock {}", processes.next_group());  // keys are never removed
  const auto mine = static_cast<size_t>(processes.world().rank);
  std::optional<ClockOffset> offset = ClockOffset();
  for (size_t rank = 1; rank < machines.size(); ++rank) {
    if (machines[rank] == machines[0]) continue;
    const std::string key = fmt::format("{} {}", name, rank);
    if (mine == 0) answer(processes.peers(), key);
    if (mine == rank) offset = ask(processes.peers(), key);
    processes.exchange("clock", nullptr);
  }
  return offset;
}

ProcessGroup::ProcessGroup(const World& world, observe::Log& log, const Options& options)
    : world_(world), options_(options), log_(log), variables_(launch::variables_in_force()) {
  peers::PeersOptions peer_options;
  peer_options.timeout = options.rendezvous;
  peer_options.stall = options.stall;
  peer_options.cancelled = [] { return Signals::received() != 0; };
  peer_options.on_waiting = [this](const std::string& what) {
    log_.info(what);
    // Its console shows no info. One rank of a host speaks, where there is a supervisor through that.
    if (world_.rank != 0 && world_.local_rank == 0) fmt::print(standard_error(), "{}\n", printable(what));
  };
  peer_options.on_failure = [this](const peers::Failure& failure) { on_failure(failure); };
  peer_options.collective = [this] { return pending_collective(); };
  peers_ = std::make_unique<peers::Peers>(world_, peer_options);
}

// A launcher may have given each process cores of its own, or all of a host's processes the same ones.
unsigned ProcessGroup::sharing_cores() {
  if (sharing_cores_) return *sharing_cores_;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  ::sched_getaffinity(0, sizeof cores, &cores);
  std::string mine;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> mine;  // tells machines apart
  for (int core = 0; core < CPU_SETSIZE; ++core) mine += CPU_ISSET(core, &cores) ? '1' : '0';
  return sharing_cores_.emplace(
      static_cast<unsigned>(std::ranges::count(peers_->all_gather("cores", mine), mine)));
}

bool ProcessGroup::stopped(const std::function<void()>& part) {
  bool here = false;
  try {
    part();
  } catch (const Error& error) {
    if (error.code() != PL_ERROR_CANCELLED || Signals::received() == 0) throw;
    here = true;
  }
  const std::vector<std::string> all = peers_->all_gather("stopped", here ? "1" : "0");
  return std::ranges::find(all, "1") != all.end();
}

void ProcessGroup::leave_together() {
  Signals::ignore(world().size > 1);
  peers_->barrier("leaving");
}

ProcessGroup::~ProcessGroup() {
  peers_->leave();
  peers_.reset();
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  left_.notify_all();
  if (last_resort_.joinable()) last_resort_.join();
}

std::string ProcessGroup::on_first(std::string_view what, const std::function<std::string()>& part) {
  std::string result;
  if (is_first()) {
    const Busy busy(*this);
    result = part();  // what it throws is told to the others where it is caught: guard_work, with_workspace
  }
  return world_.size == 1 ? result : peers_->broadcast(fmt::format("first: {}", what), result);
}

std::vector<nlohmann::json> ProcessGroup::exchange(std::string_view channel, const nlohmann::json& mine) {
  std::string bytes;
  nlohmann::json::to_cbor(mine, bytes);
  std::vector<nlohmann::json> all;
  for (const std::string& text : peers_->all_gather(channel, bytes))
    all.push_back(nlohmann::json::from_cbor(text));
  return all;
}

std::vector<std::string> ProcessGroup::gather(std::string_view channel, const std::string& mine, To to) {
  if (world_.size == 1) return {mine};
  uint64_t longest = 0;
  for (const std::string& size :
       peers_->all_gather(fmt::format("size of {}", channel), std::to_string(mine.size())))
    longest = std::max<uint64_t>(longest, std::stoull(size));
  const size_t piece = std::max<size_t>(1, options_.largest_exchange / static_cast<size_t>(world_.size));
  std::vector<std::string> all(is_first() || to == To::all ? static_cast<size_t>(world_.size) : 0);
  for (size_t begin = 0; begin < longest; begin += piece) {
    const std::string_view part = std::string_view(mine).substr(std::min(begin, mine.size()), piece);
    const std::vector<std::string> parts =
        to == To::all ? peers_->all_gather(channel, part) : peers_->gather(channel, part);
    for (size_t rank = 0; rank < parts.size(); ++rank) all[rank] += parts[rank];
  }
  return all;
}

void ProcessGroup::watch(std::vector<plugins::Communicator*> groups) {
  const std::lock_guard lock(group_mutex_);
  watched_ = std::move(groups);
}

void ProcessGroup::at(std::string_view phase, uint64_t step) {
  note_phase(phase, step);
  peers_->at(phase, step);
}

std::string ProcessGroup::pending_collective() {
  const std::lock_guard lock(group_mutex_);
  for (const plugins::Communicator* group : watched_) {
    for (const plugins::Flight& flight : group->record().recent()) {
      if (flight.done || !flight.waited)
        continue;  // what is under way while this rank computes holds nobody up
      const std::chrono::duration<double> since = std::chrono::steady_clock::now() - *flight.waited;
      return fmt::format("{} for {:.0f} s", plugins::describe(flight), since.count());
    }
  }
  return {};
}

void ProcessGroup::on_failure(const peers::Failure& failure) {
  start_last_resort(failure);
  if (failure.stalled && failure.rank == world_.rank) tell_where(failure);
  const std::lock_guard lock(group_mutex_);
  for (plugins::Communicator* group : watched_) group->abort(fmt::format("rank {} failed", failure.rank));
}

// Tells of a stall of this rank, and what its threads are doing.
void ProcessGroup::tell_where(const peers::Failure& failure) {
  tell(failure);
  const std::string phase = phase_now();
  std::string text = fmt::format("rank {} (host {}) hangs here, in {}:\n", world_.rank, host_name(),
                                 phase.empty() ? "its start" : phase);
  text += stacks_now();  // to ask for them may wake up what hangs
  fmt::print(standard_error(), "{}", printable(text));
  log_.file_only(text);
}

// To be called before anything that may block.
void ProcessGroup::start_last_resort(const peers::Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (last_resort_.joinable() || leaving_) return;
  last_resort_ = start_thread("pl-last-resort", [this, failure] {
    std::unique_lock held(mutex_);
    // A process that is alone has nobody to hear of it from.
    if (left_.wait_for(held, world_.size == 1 ? kNews : kLastResort, [this] { return leaving_; })) return;
    held.unlock();
    if (world_.size == 1 && program().is_shared) return;  // its user can interrupt it
    ::alarm(2);                                           // the log's disk may hang, too
    tell(failure);
    log_.file_only("error: leaving without a clean end: " + peers::describe(failure));
    log_.flush();
    ::_exit(world_.size == 1 ? 1 : exit_code(failure));
  });
}

int ProcessGroup::exit_code(const peers::Failure& failure) const {
  if (!failure.lasting) return launch::kPeerFailed;
  return world_.supervised ? launch::kPeerRefused : launch::kExitConfig;
}

void ProcessGroup::tell(const peers::Failure& failure) {
  const int32_t first = world_.rank - world_.local_rank;  // of this host; launchers number ranks host by host
  const bool here = failure.rank >= first && failure.rank < first + world_.local_size;
  const int32_t reporter = failure.rank == first && failure.by_peer_loss && world_.local_size > 1 ? 1 : 0;
  const bool known = here && (!failure.by_peer_loss || (world_.supervised && !failure.stalled));
  if (known || world_.local_rank != reporter) return;
  const std::lock_guard lock(mutex_);
  if (!std::exchange(told_, true))
    fmt::print(standard_error(), "error: {}\n", printable(with_shown_paths(peers::describe(failure))));
}

std::optional<peers::Failure> ProcessGroup::cause_of(const std::exception& error) {
  if (world_.size == 1) return std::nullopt;
  if (cause_) return *cause_;
  const auto* known = dynamic_cast<const Error*>(&error);
  const bool follows =
      known != nullptr && (known->code() == PL_ERROR_PEER || known->code() == PL_ERROR_TIMEOUT);
  // What is wrong with the options is wrong on all ranks; one of them tells.
  const bool common = dynamic_cast<const config::ConfigError*>(&error) != nullptr ||
                      (known != nullptr && known->code() == PL_ERROR_CONFIG);
  const std::chrono::duration<double> wait =
      follows || (common && !is_first()) ? kNews : std::chrono::seconds(0);
  cause_.emplace(peers_->failure(wait));
  if (*cause_ && (*cause_)->rank == world_.rank && !(*cause_)->by_peer_loss) cause_->reset();
  if (!*cause_) peers_->fail(error.what(), common ? PL_ERROR_CONFIG : PL_ERROR_FAILED);
  return *cause_;
}

}  // namespace pipeline::train
