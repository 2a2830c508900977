#include "backends/gloo/gloo_transport.hpp"

#include <pipeline/torch/errors.hpp>

#include <torch/version.h>

#include <algorithm>
#include <thread>

#include "backends/gloo/collectives.hpp"

namespace pipeline::backends::gloo {
namespace {

// How long a process that has just ended may still be seen to listen.
constexpr std::chrono::milliseconds kAfterglow{300};

// Gloo's own words, without the place in its sources: "Connection closed by peer [10.0.0.2]:1234".
std::string words_of(const std::exception& e) {
  const auto* torch = dynamic_cast<const c10::Error*>(&e);
  std::string text = torch == nullptr ? e.what() : torch->what_without_backtrace();
  text = text.substr(0, text.find('\n'));
  const size_t place = text.find("] ");
  return text.rfind('[', 0) == 0 && place != std::string::npos ? text.substr(place + 2) : text;
}

}  // namespace

GlooTransport::GlooTransport(const Context& context, const pl_backend_open_args& args,
                             const std::string& interface)
    : rank_(args.rank),
      world_size_(args.world_size),
      peers_(static_cast<size_t>(args.world_size)),
      mine_(peers_.size()),
      theirs_(peers_.size()),
      library_("Gloo of LibTorch " TORCH_VERSION) {
  const bool chosen = !interface.empty();
  if (chosen) local_ = address_of_interface(interface);
  meet(context, args, chosen);
  connect(args);
  mechanism_ =
      concat("TCP over ", local_.name.empty() ? "an unnamed interface" : local_.name, " (", local_.ip, ")");
}

GlooTransport::~GlooTransport() {
  if (!left_) rendezvous_->say_goodbye();
}

void GlooTransport::meet(const Context& context, const pl_backend_open_args& args, bool chosen) {
  const std::string address(view(args.address));
  rendezvous_ = std::make_unique<Rendezvous>(
      context,
      Meeting{address, args.port, std::string(view(args.group)), rank_, world_size_, args.timeout_seconds},
      host_name());
  if (!chosen) local_ = address_towards(address, args.port);  // it may have been unknown before
  const auto& store = rendezvous_->store();
  store->setTimeout(std::chrono::milliseconds(
      std::max<int64_t>(1, static_cast<int64_t>(rendezvous_->seconds_left() * 1000))));
  const auto exchange = [&](const char* what, const std::string& mine) {
    std::vector<std::string> all;
    store->set(concat(what, rank_), mine);
    for (int32_t r = 0; r < world_size_; ++r) all.push_back(store->get_to_str(concat(what, r)));
    return all;
  };
  // On rank 0's host the address may lead to the loopback interface (Debian gives the host's own name
  // 127.0.1.1), where no other host can come.
  for (const std::string& ip : exchange("first-ip/", local_.loopback && !chosen ? "" : local_.ip)) {
    if (local_.loopback && !chosen && !ip.empty()) local_ = address_towards(ip, args.port);
  }
  const std::vector<std::string> ips = exchange("ip/", local_.ip);
  const std::vector<std::string> beacons = exchange("beacon/", std::to_string(beacon_port()));
  for (size_t r = 0; r < peers_.size(); ++r)
    peers_[r] = {rendezvous_->facts()[r], ips[r], static_cast<uint32_t>(std::stoul(beacons[r]))};
}

void GlooTransport::connect(const pl_backend_open_args& args) {
  try {
    mesh_ = std::make_unique<Mesh>(rendezvous_->store(), rank_, world_size_, local_.ip,
                                   std::max(rendezvous_->seconds_left(), 0.001));
    expect_signatures();
    run(Call{}, 1);  // nobody goes on, and perhaps away, while others still connect
  } catch (const std::exception& e) {
    std::string where;
    for (int32_t r = 0; r < world_size_; ++r) where += concat(r == 0 ? "" : ", ", name_of_peer(r));
    fail_with(
        PL_ERROR_TIMEOUT, "open: Gloo cannot connect this rank, at ", local_.ip, " on interface ",
        local_.name, ", with the others within ", args.timeout_seconds, " seconds: ", words_of(e),
        ". The ranks are ", where,
        ". If that is the wrong network, choose one with backend.interface (elsewhere GLOO_SOCKET_IFNAME); "
        "a firewall must let all TCP ports through between the hosts");
  }
}

void GlooTransport::run(const Call& call, uint64_t sequence) {
  try {
    compare(call, sequence);
    carry_out(call);
    expect_signatures();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    lost(e);
  }
}

// Receives what the others will say about their next call before they say it: then it need not wait here.
void GlooTransport::expect_signatures() {
  theirs_.assign(theirs_.size(), Signature());
  std::vector<Piece> receives;
  for (int32_t r = 0; r < world_size_; ++r) {
    if (r != rank_) receives.push_back({r, &theirs_[static_cast<size_t>(r)], sizeof(Signature)});
  }
  signature_tag_ = mesh_->next_tag();
  coming_ = mesh_->start(signature_tag_, receives, {});
}

// All ranks must make the same call: of equal sizes in another order Gloo would add up the wrong memory, and
// end the process where sizes differ. The price is one small message more; it is the whole of a barrier.
void GlooTransport::compare(const Call& call, uint64_t sequence) {
  std::vector<Piece> sends;
  for (int32_t r = 0; r < world_size_; ++r) {
    const auto i = static_cast<size_t>(r);
    mine_[i] = signature_of(call, sequence, r);
    if (r != rank_) sends.push_back({r, &mine_[i], sizeof(Signature)});
  }
  Mesh::Exchange saying = mesh_->start(signature_tag_, {}, sends);
  coming_.wait();
  saying.wait();
  for (int32_t r = 0; r < world_size_; ++r) {
    const auto i = static_cast<size_t>(r);
    if (r == rank_) continue;
    if (const auto differs = difference(mine_[i], rank_, theirs_[i], r)) fail(*differs);
  }
}

void GlooTransport::carry_out(const Call& call) {
  Collective collective(*mesh_, call, rank_, world_size_, scratch_);
  switch (call.operation) {
    case Operation::kAllReduce:
      return collective.all_reduce();
    case Operation::kReduceScatter:
      return collective.reduce_scatter();
    case Operation::kAllGather:
      return collective.all_gather();
    case Operation::kBroadcast:
      return collective.broadcast();
    case Operation::kAllToAll:
      return collective.all_to_all();
    case Operation::kBarrier:
      return;
  }
}

std::vector<int32_t> GlooTransport::absent() const {
  std::vector<int32_t> ranks;
  for (int32_t r = 0; r < world_size_; ++r) {
    if (r != rank_ && theirs_[static_cast<size_t>(r)].sequence == 0) ranks.push_back(r);
  }
  return ranks;
}

void GlooTransport::leave(const std::string& why) noexcept {
  left_ = true;
  rendezvous_->say_why(why);
  coming_ = {};
  mesh_->disconnect();
}

std::string GlooTransport::name_of_peer(int32_t rank) const {
  const Peer& peer = peers_[static_cast<size_t>(rank)];
  return concat("rank ", rank, " on ", peer.host, " (", peer.ip, ")");
}

// Throws if rank `rank` is why a connection failed.
void GlooTransport::check_peer(int32_t rank, const std::string& words) {
  const Peer& peer = peers_[static_cast<size_t>(rank)];
  if (rank == rank_) return;
  if (rendezvous_->has_left(rank)) fail_with(PL_ERROR_PEER, name_of_peer(rank), " has left the group");
  if (beacon_answers(peer.ip, peer.beacon)) return;
  fail_with(PL_ERROR_PEER, name_of_peer(rank),
            " has ended without a word: killed, crashed, or out of memory? (", words, ")");
}

// A connection failed. Finds out why: a rank that leaves with an error says so first, one that was killed
// leaves nobody to answer at its beacon.
void GlooTransport::lost(const std::exception& seen) {
  const std::string words = words_of(seen);
  const auto until = std::chrono::steady_clock::now() + kAfterglow;
  do {
    if (const auto why = rendezvous_->why()) fail_with(PL_ERROR_PEER, *why);
    for (int32_t r = 0; r < world_size_; ++r) check_peer(r, words);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (std::chrono::steady_clock::now() < until);
  fail_with(
      PL_ERROR_PEER, library_, " over ", mechanism_, ": ", words,
      ". The processes of all ranks are still there: has one left the group, is the network in order, does a "
      "firewall cut idle connections?");
}

}  // namespace pipeline::backends::gloo
