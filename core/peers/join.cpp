#include "core/peers/join.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include "core/abi/pipeline.h"
#include "core/base/fail.hpp"
#include "core/base/hash.hpp"

namespace pipeline::peers {
namespace {

using std::chrono::milliseconds;

// A name may be about to be known (a cluster's DNS), an earlier attempt at the run about to end.
constexpr Seconds kGrace{20};
constexpr milliseconds kConnecting{5000};
constexpr milliseconds kAnswering{3000};  // where there is another port to try
constexpr milliseconds kSilence{1000};    // until it is told
constexpr milliseconds kLongestPause{1000};

std::string silence_at(const std::string& place) {
  return fmt::format("something accepts connections at {} but does not answer as rank 0", place);
}

milliseconds left_until(Clock::time_point time) {
  return std::max(std::chrono::ceil<milliseconds>(time - Clock::now()), milliseconds(0));
}

}  // namespace

std::string list_of(const std::vector<int32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) text += ", ";
    text += i == last ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string list_of(const std::vector<int32_t>& ranks, const std::vector<std::string>& hosts) {
  const auto host = [&](int32_t rank) -> const std::string& { return hosts[static_cast<std::size_t>(rank)]; };
  const std::string& first = host(ranks.front());
  const bool one_host =
      std::all_of(ranks.begin(), ranks.end(), [&](int32_t rank) { return host(rank) == first; });
  return one_host && !first.empty() ? fmt::format("{} (host {})", list_of(ranks), first) : list_of(ranks);
}

std::string secret_remedy() {
  return "make run.dir the same folder on all hosts, or set PIPELINE_RUN_SECRET to the same text for all "
         "ranks";
}

Rendezvous::Rendezvous(Hello rank_0, std::string here, std::string if_alone)
    : rank_0_(std::move(rank_0)),
      here_(std::move(here)),
      if_alone_(std::move(if_alone)),
      members_(static_cast<std::size_t>(rank_0_.size)) {}

// A run that is under way is not ended by who comes late; that may be the next attempt at it, while this one
// ends.
std::optional<Rendezvous::Objection> Rendezvous::object_to(const Hello& hello) const {
  std::optional<Refusal> refusal = refuse(hello);
  if (!refusal) return std::nullopt;
  const bool ours = hello.run_id == rank_0_.run_id;
  refusal->passing = !ours || complete();
  return Objection{std::move(*refusal), ours && !complete()};
}

std::optional<Refusal> Rendezvous::refuse(const Hello& hello) const {
  if (hello.run_id != rank_0_.run_id)
    return Refusal{fmt::format("another run listens at {}: its id is '{}', this rank's is '{}'", here_,
                               rank_0_.run_id, hello.run_id),
                   PL_ERROR_FAILED};
  if (hello.version != rank_0_.version)
    return Refusal{fmt::format("rank {} (host {}) runs version {} of the program, rank 0 (host {}) version "
                               "{}: install the same one on all hosts",
                               hello.rank, hello.host, hello.version, rank_0_.host, rank_0_.version),
                   PL_ERROR_CONFIG};
  if (hello.size != rank_0_.size || hello.rank < 0 || hello.rank >= hello.size)
    return Refusal{fmt::format("rank {} (host {}) was started as one of {} processes, rank 0 (host {}) as "
                               "one of {}: check --nodes and launch.processes, or WORLD_SIZE, on all hosts",
                               hello.rank, hello.host, hello.size, rank_0_.host, rank_0_.size),
                   PL_ERROR_CONFIG};
  if (const auto& twin = members_[static_cast<std::size_t>(hello.rank)])
    return Refusal{
        fmt::format("two processes say that they are rank {}: process {} on host {} and process {} on host "
                    "{}: give each host its own --node-rank, or each process its own RANK",
                    hello.rank, twin->process, twin->host, hello.process, hello.host),
        PL_ERROR_CONFIG};
  return std::nullopt;
}

void Rendezvous::admit(const Hello& hello) { members_[static_cast<std::size_t>(hello.rank)] = hello; }

void Rendezvous::turned_away(const std::string& address, const std::string& why) {
  ++strangers_;
  stranger_ = fmt::format("{}: {}", address, why);
}

std::vector<int32_t> Rendezvous::missing() const {
  std::vector<int32_t> ranks;
  for (int32_t rank = 0; rank < rank_0_.size; ++rank)
    if (!members_[static_cast<std::size_t>(rank)]) ranks.push_back(rank);
  return ranks;
}

std::vector<std::string> Rendezvous::hosts() const {
  std::vector<std::string> hosts;
  for (int32_t rank = 0; rank < rank_0_.size; ++rank) hosts.push_back(host_of(rank));
  return hosts;
}

std::string Rendezvous::host_of(int32_t rank) const {
  const auto& member = members_[static_cast<std::size_t>(rank)];
  return member ? member->host : std::string();
}

std::string Rendezvous::waiting_text() const { return text("; rank 0 listens at " + here_); }

std::string Rendezvous::text(const std::string& place) const {
  std::vector<std::pair<std::string, std::vector<int32_t>>> there;  // by host
  for (int32_t rank = 0; rank < rank_0_.size; ++rank) {
    const std::string host = host_of(rank);
    if (host.empty()) continue;
    if (there.empty() || there.back().first != host) there.push_back({host, {}});
    there.back().second.push_back(rank);
  }
  std::string text;
  for (const auto& [host, ranks] : there)
    text += fmt::format("{}{} (host {})", text.empty() ? "" : ", ", list_of(ranks), host);
  const std::vector<int32_t> ranks = missing();
  text = fmt::format("{} of {} {} missing (there: {}){}", list_of(ranks), rank_0_.size,
                     ranks.size() == 1 ? "is" : "are", text, place);
  const bool alone = ranks.size() + 1 == members_.size() && strangers_ == 0;
  if (alone && !if_alone_.empty()) text += "; " + if_alone_;
  if (strangers_ > 0)
    text += fmt::format("{}turned away: {} connection{}, the last one from {}", place.empty() ? "\n" : "; ",
                        strangers_, strangers_ == 1 ? "" : "s", stranger_);
  return text;
}

std::string Rendezvous::timeout_text(Seconds waited) const {
  std::string text = fmt::format("rank 0 (host {}) waited {} at {} for all ranks: {}\n", rank_0_.host,
                                 seconds_text(waited), here_, missing_text());
  return text +
         "look at the logs of the missing ranks: did they start, with this address and port (MASTER_ADDR and "
         "MASTER_PORT, or --master-address and --master-port), and does a firewall let the port through? "
         "launch.rendezvous_seconds allows more time";
}

Join::Join(const World& world, Seconds timeout, std::function<bool()> cancelled, Waiting* waiting)
    : world_(world),
      cancelled_(std::move(cancelled)),
      deadline_(begun_ + std::chrono::duration_cast<Clock::duration>(timeout)),
      waiting_(waiting) {}

Socket Join::connect_and_join() {
  milliseconds pause{20};
  for (;;) {
    for (uint32_t i = 0; i < std::max<uint32_t>(world_.port_tries, 1) && world_.port + i <= 65535; ++i)
      if (auto socket = try_port(static_cast<uint16_t>(world_.port + i))) return std::move(*socket);
    tried_ = true;
    tell(problem_);
    const auto next = Clock::now() + std::min(pause, left_until(deadline_));
    while (Clock::now() < next) {
      check_cancelled();
      std::this_thread::sleep_for(std::min(kLook, left_until(next)));
    }
    if (Clock::now() >= deadline_) time_out();
    pause = std::min(pause * 2, kLongestPause);
  }
}

void Join::join(const Socket& socket) {
  place_ = to_text(world_.address, world_.port);
  if (!try_to_join(socket, deadline_)) time_out();
}

std::optional<Socket> Join::try_port(uint16_t port) {
  if (!tried_) tell("its name is looked up");
  const Resolved resolved = resolve(world_.address, port);
  if (resolved.addresses.empty()) {
    problem_ = fmt::format("its name cannot be resolved here: {}", resolved.problem);
    if (!unknown_) unknown_ = Clock::now();
    if (resolved.for_good && Clock::now() - *unknown_ > kGrace) time_out();
    return std::nullopt;
  }
  unknown_.reset();
  std::string unreached;
  for (const Address& address : resolved.addresses) {
    place_ = to_text(address);
    if (!tried_) tell(place_ + " has not answered yet");
    Socket socket = connect_to(address, std::min(kConnecting, left_until(deadline_)));
    if (!socket) {
      unreached += fmt::format("{}{}: {}", unreached.empty() ? "" : "; ", place_, std::strerror(errno));
      problem_ = unreached;
      refused_.reset();
      continue;
    }
    const bool only_place = world_.port_tries <= 1 && resolved.addresses.size() == 1;
    if (try_to_join(socket, only_place ? deadline_ : std::min(deadline_, Clock::now() + kAnswering)))
      return socket;
  }
  return std::nullopt;
}

bool Join::try_to_join(const Socket& socket, Clock::time_point until) {
  const std::string greeting = json_text(hello_of(world_));
  if (!send_all(socket.fd(), encode(FrameType::hello, greeting))) return false;
  FrameReader reader(kMaxStrangersBody);
  bool proven = false;
  try {
    std::optional<Frame> answer = next_frame(socket.fd(), reader, until);
    if (answer && answer->type == FrameType::challenge) {
      const Challenge challenge = parse<Challenge>(answer->body);
      if (!same_in_constant_time(challenge.proof,
                                 proof_by(Prover::rank_0, world_.secret, challenge.nonce, greeting))) {
        turned_away(
            {fmt::format("rank {} (host {}) and the process at {} have different run secrets: {}",
                         world_.rank, host_name(), to_text(world_.address, world_.port), secret_remedy()),
             PL_ERROR_CONFIG, true});
        return false;
      }
      const std::string proof = proof_by(Prover::other, world_.secret, challenge.nonce, greeting);
      if (!send_all(socket.fd(), encode(FrameType::answer, proof))) return false;
      proven = true;
      answer = next_frame(socket.fd(), reader, until);
    }
    if (!answer) return no_answer();
    if (answer->type == FrameType::admit && !proven)
      throw Error(PL_ERROR_CORRUPT, "it was admitted without a challenge");
    if (answer->type == FrameType::admit) return send_all(socket.fd(), encode(FrameType::admitted));
    if (answer->type == FrameType::refused) turned_away(parse<Refusal>(answer->body));
  } catch (const Error& e) {
    if (e.code() != PL_ERROR_CORRUPT) throw;
    problem_ = fmt::format("the process at {} is not a pipeline run", place_);
  }
  return false;
}

bool Join::no_answer() {
  if (!refused_) problem_ = silence_at(place_);
  return false;
}

void Join::tell(const std::string& problem) const {
  if (waiting_ == nullptr) return;
  waiting_->is_for(fmt::format("waiting for rank 0 at {}: {}; tries go on until {} have passed",
                               to_text(world_.address, world_.port), problem,
                               seconds_text(deadline_ - begun_)));
}

// With several ports to try, the right one may just not be open yet.
void Join::turned_away(const Refusal& refusal) {
  problem_ = refusal.why;
  if (!refused_) refused_ = Clock::now();
  const bool hope = refusal.passing && (world_.port_tries > 1 || Clock::now() - *refused_ < kGrace);
  if (!hope) throw Error(refusal.code, refusal.why);
}

// The next frame; nothing when the connection ends or the time is up.
std::optional<Frame> Join::next_frame(int fd, FrameReader& reader, Clock::time_point until) const {
  const Clock::time_point begun = Clock::now();
  for (;;) {
    if (auto frame = reader.next()) return frame;
    check_cancelled();
    pollfd wait{fd, POLLIN, 0};
    const int n = ::poll(&wait, 1, static_cast<int>(std::min(kLook, left_until(until)).count()));
    if (n == 0 && Clock::now() >= until) return std::nullopt;
    if (n == 0 && Clock::now() - begun >= kSilence) tell(silence_at(place_));
    if (n > 0 && reader.receive(fd, MSG_DONTWAIT) == FrameReader::Input::end) return std::nullopt;
  }
}

void Join::check_cancelled() const {
  if (!cancelled_ || !cancelled_()) return;
  fail(PL_ERROR_CANCELLED, "rank {} (host {}) was told to stop while it waited for rank 0 at {}", world_.rank,
       host_name(), to_text(world_.address, world_.port));
}

void Join::time_out() const {
  const Seconds waited = Clock::now() - begun_;
  fail(PL_ERROR_TIMEOUT,
       "rank {} (host {}) waited {} for rank 0 at {}: {}\n"
       "look at rank 0's log: did it start on the host with this address and port (MASTER_ADDR "
       "and MASTER_PORT, or --master-address and --master-port, the same on all hosts), and does a firewall "
       "let the port through? launch.rendezvous_seconds allows more time",
       world_.rank, host_name(), seconds_text(waited), to_text(world_.address, world_.port), problem_);
}

}  // namespace pipeline::peers
