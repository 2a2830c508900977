#include "backends/gloo/gloo_transport.hpp"

#include <pipeline/torch/errors.hpp>

#include <torch/version.h>

#include <algorithm>

#include "backends/common/host_store.hpp"
#include "backends/gloo/collectives.hpp"

namespace pipeline::backends::gloo {
namespace {

// How long after the end of one of Gloo's connections the host's abort, which knows why, may come.
constexpr std::chrono::milliseconds kNews{1000};

}  // namespace

GlooTransport::GlooTransport(const Context& context, const pl_backend_open_args& args,
                             const std::string& interface)
    : rank_(args.rank),
      world_size_(args.world_size),
      mine_(static_cast<size_t>(args.world_size)),
      theirs_(mine_.size()),
      library_("Gloo of LibTorch " TORCH_VERSION) {
  find_others(context, args, interface);
  connect(context, args);
  mechanism_ =
      concat("TCP over ", local_.name.empty() ? "an unnamed interface" : local_.name, " (", local_.ip, ")");
}

// On rank 0's host its address may lead to the loopback interface (Debian gives the host's own name
// 127.0.1.1), which no other host can reach.
void GlooTransport::find_others(const Context& context, const pl_backend_open_args& args,
                                const std::string& interface) {
  const std::string group(view(args.group));
  local_ =
      interface.empty() ? address_towards(std::string(view(args.address))) : address_of_interface(interface);
  for (const std::string& ip : context.exchange(group + "/first ip", local_.loopback ? "" : local_.ip))
    if (interface.empty() && local_.loopback && !ip.empty()) local_ = address_towards(ip);
  peers_ = context.exchange(group + "/place", concat(host_name(), " (", local_.ip, ")"));
}

void GlooTransport::connect(const Context& context, const pl_backend_open_args& args) {
  silence_c10d();
  try {
    const auto store =
        c10::make_intrusive<HostStore>(context, std::string(view(args.group)), args.timeout_seconds);
    mesh_ = std::make_unique<Mesh>(store, rank_, world_size_, local_.ip, args.timeout_seconds);
    expect_signatures();
    run(Call{}, 1);  // nobody goes on, and perhaps away, while others still connect
  } catch (const Error&) {
    throw;
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

void GlooTransport::run(const Call& call, uint64_t sequence) {
  try {
    compare(call, sequence);
    carry_out(call);
    expect_signatures();
  } catch (const PeerError& e) {
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
  } catch (const PeerError& e) {
    unreachable_ = e;
  }
}

// All ranks must make the same call: with equal sizes in another order Gloo would add up the wrong memory,
// and where sizes differ it ends the process. The price is one more small message, all that a barrier is.
void GlooTransport::compare(const Call& call, uint64_t sequence) {
  std::vector<Piece> sends;
  for (int32_t r = 0; r < world_size_; ++r) {
    const auto i = static_cast<size_t>(r);
    mine_[i] = signature_of(call, sequence, r);
    if (r != rank_) sends.push_back({r, &mine_[i], sizeof(Signature)});
  }
  if (unreachable_) throw *unreachable_;
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

// The others' calls end with their connections to this rank.
void GlooTransport::leave(const std::string& /*why*/) noexcept {
  coming_ = {};
  mesh_->disconnect();
}

std::string GlooTransport::name_of_peer(int32_t rank) const {
  return concat("rank ", rank, " on ", peers_[static_cast<size_t>(rank)]);
}

void GlooTransport::interrupt() noexcept {
  {
    const std::lock_guard lock(mutex_);
    interrupted_ = true;
  }
  changed_.notify_all();
  mesh_->interrupt();
}

void GlooTransport::lost(const PeerError& seen) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, kNews, [&] { return interrupted_; })) fail_with(PL_ERROR_PEER, "interrupted");
  fail_with(PL_ERROR_PEER, "the connection to ", name_of_peer(seen.rank()), " broke (", seen.what(),
            "): it has left the group, or the network between the two is out of order");
}

}  // namespace pipeline::backends::gloo
