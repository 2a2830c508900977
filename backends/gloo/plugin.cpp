#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <pipeline/backend.hpp>
#include <pipeline/tensor.hpp>
#include <pipeline/torch/errors.hpp>
#include <pipeline/torch/runtime.hpp>

#include <torch/version.h>

#include "backends/common/call.hpp"
#include "backends/common/host_store.hpp"
#include "backends/common/queue.hpp"
#include "backends/gloo/mesh.hpp"

namespace pipeline::backends::gloo {
namespace {

// How long after the end of one of Gloo's connections the host's abort, which knows why, may come.
constexpr std::chrono::milliseconds kNews{1000};

// The collectives over a Mesh. Sums are always made in the order of the ranks, on the rank that they are
// for, so every rank gets the same bits, and the same ones in every run.
class GlooTransport : public Transport {
 public:
  // Blocks until all ranks are connected. `interface`: the one to use; empty: the one that reaches rank 0.
  GlooTransport(const Context& context, const pl_backend_open_args& args, const std::string& interface)
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

  void run(const Call& call, uint64_t sequence) override {
    try {
      compare(call, sequence);
      run_collective(*mesh_, call, rank_, world_size_, scratch_);
      expect_signatures();
    } catch (const PeerError& e) {
      lost(e);
    }
  }

  void interrupt() noexcept override {
    {
      const std::lock_guard lock(mutex_);
      interrupted_ = true;
    }
    changed_.notify_all();
    mesh_->interrupt();
  }

  std::vector<int32_t> absent() const override {
    std::vector<int32_t> ranks;
    for (int32_t r = 0; r < world_size_; ++r) {
      if (r != rank_ && theirs_[static_cast<size_t>(r)].sequence == 0) ranks.push_back(r);
    }
    return ranks;
  }

  // The others' calls end with their connections to this rank.
  void leave(const std::string& /*why*/) noexcept override {
    coming_ = {};
    mesh_->disconnect();
  }

  const std::string& library() const override { return library_; }
  const std::string& mechanism() const override { return mechanism_; }

 private:
  // On rank 0's host its address may lead to the loopback interface (Debian gives the host's own name
  // 127.0.1.1), which no other host can reach.
  void find_others(const Context& context, const pl_backend_open_args& args, const std::string& interface) {
    const std::string group(view(args.group));
    local_ = interface.empty() ? address_towards(std::string(view(args.address)))
                               : address_of_interface(interface);
    for (const std::string& ip : context.exchange(group + "/first ip", local_.loopback ? "" : local_.ip))
      if (interface.empty() && local_.loopback && !ip.empty()) local_ = address_towards(ip);
    peers_ = context.exchange(group + "/place", concat(host_name(), " (", local_.ip, ")"));
  }

  void connect(const Context& context, const pl_backend_open_args& args) {
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

  // Receives what the others will say about their next call before they say it: then it need not wait here. A
  // rank may have left after its last call: that is an error of the next one, if it comes, not of this one.
  void expect_signatures() {
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
  void compare(const Call& call, uint64_t sequence) {
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

  std::string name_of_peer(int32_t rank) const {
    return concat("rank ", rank, " on ", peers_[static_cast<size_t>(rank)]);
  }

  [[noreturn]] void lost(const PeerError& seen) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kNews, [&] { return interrupted_; })) fail_with(PL_ERROR_PEER, "interrupted");
    fail_with(PL_ERROR_PEER, "the connection to ", name_of_peer(seen.rank()), " broke (", seen.what(),
              "): it has left the group, or the network between the two is out of order");
  }

  const int32_t rank_;
  const int32_t world_size_;
  LocalAddress local_;
  std::unique_ptr<Mesh> mesh_;
  std::vector<std::string> peers_;        // where each rank is: "node7 (10.0.0.2)"
  std::vector<Signature> mine_, theirs_;  // of the call under way, for and from each rank
  Mesh::Exchange coming_;                 // theirs_, of the next call
  std::optional<PeerError> unreachable_;  // why nothing is coming
  uint32_t signature_tag_ = 0;
  std::vector<char> scratch_;
  std::string library_;
  std::string mechanism_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool interrupted_ = false;
};

struct Config {
  std::string interface;
  void describe(Options& o) {
    o("interface", interface,
      "network interface to use, e.g. eth0; empty: GLOO_SOCKET_IFNAME, or the one that reaches rank 0")
        .may_change();
  }
};

// The option's interface, or the first of those that PyTorch's users have set for Gloo.
std::string interface_of(const Context& context, const Config& config) {
  const char* const set = std::getenv("GLOO_SOCKET_IFNAME");
  const std::string_view names = set == nullptr ? "" : set;
  const size_t begin = names.find_first_not_of(',');
  if (!config.interface.empty() || begin == names.npos) return config.interface;
  std::string first(names.substr(begin, names.find(',', begin) - begin));
  context.info("backend.interface = \"", first, "\", from GLOO_SOCKET_IFNAME");
  return first;
}

class Gloo : public QueuedBackend<Config> {
 public:
  explicit Gloo(const Setup& setup) : QueuedBackend(setup, connect(setup)) {}
  static constexpr bool kHasGroups = true;

 private:
  static std::unique_ptr<Transport> connect(const Setup& setup) {
    check_open_args(setup.args, "use nccl, or train on the CPU");
    return std::make_unique<GlooTransport>(setup.context, setup.args,
                                           interface_of(setup.context, setup.config));
  }
};

}  // namespace
}  // namespace pipeline::backends::gloo

PIPELINE_BACKEND(pipeline::backends::gloo::Gloo, "gloo", "1.0.0",
                 "Host memory over TCP, within and between hosts, with c10d's Gloo")
