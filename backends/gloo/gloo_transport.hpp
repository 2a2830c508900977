// The collectives over a Mesh. Sums are always made in the order of the ranks, on the rank that they are
// for, so every rank gets the same bits, and the same ones in every run.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/common/signature.hpp"
#include "backends/common/transport.hpp"
#include "backends/gloo/mesh.hpp"
#include "backends/gloo/network.hpp"

namespace pipeline::backends::gloo {

class GlooTransport : public Transport {
 public:
  // Blocks until all ranks are connected. `interface`: the one to use; empty: the one that reaches rank 0.
  GlooTransport(const Context& context, const pl_backend_open_args& args, const std::string& interface);

  void run(const Call& call, uint64_t sequence) override;
  void interrupt() noexcept override;
  std::vector<int32_t> absent() const override;
  void leave(const std::string& why) noexcept override;
  const std::string& library() const override { return library_; }
  const std::string& mechanism() const override { return mechanism_; }

 private:
  void find_others(const Context& context, const pl_backend_open_args& args, const std::string& interface);
  void connect(const Context& context, const pl_backend_open_args& args);
  void expect_signatures();
  void compare(const Call& call, uint64_t sequence);
  void carry_out(const Call& call);
  std::string name_of_peer(int32_t rank) const;
  [[noreturn]] void lost(const PeerError& seen);

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

}  // namespace pipeline::backends::gloo
