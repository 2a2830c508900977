#include "core/peers/rendezvous.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/abi/pipeline.h"

namespace pipeline::peers {

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

}  // namespace pipeline::peers
