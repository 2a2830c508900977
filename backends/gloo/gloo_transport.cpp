#include "backends/gloo/gloo_transport.hpp"

#include <pipeline/torch/errors.hpp>

#include <torch/version.h>

#include <algorithm>

#include "backends/gloo/collectives.hpp"

namespace pipeline::backends::gloo {
namespace {

// Between the end of a connection of Gloo's and the watch's news of why.
constexpr std::chrono::milliseconds kAfterglow{1000};

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
  meet(context, args, interface);
  connect(args);
  mechanism_ =
      concat("TCP over ", local_.name.empty() ? "an unnamed interface" : local_.name, " (", local_.ip, ")");
}

void GlooTransport::meet(const Context& context, const pl_backend_open_args& args,
                         const std::string& interface) {
  if (!interface.empty()) local_ = address_of_interface(interface);
  rendezvous_ = std::make_unique<Rendezvous>(
      context,
      Meeting{std::string(view(args.address)), args.port, std::string(view(args.group)), rank_, world_size_,
              args.timeout_seconds},
      host_name());
  const LocalAddress found = rendezvous_->local_address();
  if (interface.empty()) local_ = found;
  const std::vector<std::string> ips = rendezvous_->exchange("ip", local_.ip);
  for (size_t r = 0; r < peers_.size(); ++r) peers_[r] = {rendezvous_->facts()[r], ips[r]};
}

void GlooTransport::connect(const pl_backend_open_args& args) {
  try {
    mesh_ = std::make_unique<Mesh>(rendezvous_->store(), rank_, world_size_, local_.ip,
                                   std::max(rendezvous_->seconds_left(), 0.001));
    watch_others();
    expect_signatures();
    run(Call{}, 1);  // nobody goes on, and perhaps away, while others still connect
  } catch (const std::exception& e) {
    std::string where;
    for (int32_t r = 0; r < world_size_; ++r) where += concat(r == 0 ? "" : ", ", name_of_peer(r));
    fail_with(PL_ERROR_TIMEOUT, "open: Gloo cannot connect this rank, at ", local_.ip, " on interface ",
              local_.name, ", with the others within ", args.timeout_seconds, " seconds: ", words_of(e),
              ". The ranks are ", where,
              ". If that is the wrong network, choose one with backend.interface or GLOO_SOCKET_IFNAME; "
              "a firewall must let all TCP ports through between the hosts");
  }
}

void GlooTransport::watch_others() {
  watch_ = std::make_unique<Watch>(local_.ip);
  const std::vector<std::string> ports = rendezvous_->exchange("watch", std::to_string(watch_->port()));
  std::vector<Watch::Peer> others;
  for (size_t r = 0; r < peers_.size(); ++r)
    others.push_back({peers_[r].ip, static_cast<uint32_t>(std::stoul(ports[r]))});
  watch_->start(others, rank_,
                [this](int32_t rank, Watch::End end, const std::string& why) { hear(rank, end, why); });
}

void GlooTransport::run(const Call& call, uint64_t sequence) {
  try {
    compare(call, sequence);
    carry_out(call);
    expect_signatures();
  } catch (const Error&) {
    throw_if_told();
    throw;
  } catch (const std::exception& e) {
    lost(e);
  }
}

// Receives what the others will say about their next call before they say it: then it need not wait here. A
// rank may have left after its last call: that is an error of the next one, if it comes, not of this one.
void GlooTransport::expect_signatures() {
  theirs_.assign(theirs_.size(), Signature());
  std::vector<Piece> receives;
  for (int32_t r = 0; r < world_size_; ++r) {
    if (r != rank_) receives.push_back({r, &theirs_[static_cast<size_t>(r)], sizeof(Signature)});
  }
  signature_tag_ = mesh_->next_tag();
  try {
    coming_ = mesh_->start(signature_tag_, receives, {});
  } catch (const std::exception&) {
    unreachable_ = std::current_exception();
  }
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
  if (unreachable_) std::rethrow_exception(unreachable_);
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
  watch_->leave(why);
  coming_ = {};
  mesh_->disconnect();
}

std::string GlooTransport::name_of_peer(int32_t rank) const {
  const Peer& peer = peers_[static_cast<size_t>(rank)];
  return concat("rank ", rank, " on ", peer.host, " (", peer.ip, ")");
}

// Another rank is gone. Where it had to do with a call that is under way Gloo does not always notice: a
// message of which only a part has come stays open for ever.
void GlooTransport::hear(int32_t rank, Watch::End end, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (end == Watch::End::kLeft)
      left_ = name_of_peer(rank);
    else if (told_.empty())
      told_ = end == Watch::End::kFailed
                  ? why
                  : name_of_peer(rank) + " has ended without a word: killed, crashed, or out of memory?";
  }
  heard_.notify_all();
  if (end != Watch::End::kLeft) mesh_->interrupt();
}

void GlooTransport::throw_if_told() {
  const std::lock_guard lock(mutex_);
  if (!told_.empty()) fail_with(PL_ERROR_PEER, told_);
}

// A connection failed; why is on its way.
void GlooTransport::lost(const std::exception& seen) {
  std::unique_lock lock(mutex_);
  heard_.wait_for(lock, kAfterglow, [&] { return !told_.empty() || !left_.empty(); });
  if (!told_.empty()) fail_with(PL_ERROR_PEER, told_);
  if (!left_.empty()) fail_with(PL_ERROR_PEER, left_, " has left the group");
  fail_with(PL_ERROR_PEER, library_, " over ", mechanism_, ": ", words_of(seen),
            ". All ranks are still there: is the network in order, and does a firewall cut connections?");
}

}  // namespace pipeline::backends::gloo
