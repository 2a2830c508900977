// Who takes part in the benchmark of backends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/peers/peers.hpp"

namespace bench {

enum class Operation { all_reduce, reduce_scatter, all_gather };

class Competitor {
 public:
  virtual ~Competitor() = default;
  virtual std::string name() const = 0;
  // Runs one collective over `full`, of which `shard` is this rank's part (or becomes it), to its end.
  virtual void run(Operation operation, std::vector<float>& full, std::vector<float>& shard) = 0;
  virtual void barrier() = 0;
};

struct Place {
  int rank;
  int ranks;
  std::uint16_t port;  // of c10d's rendezvous
  pipeline::peers::Peers* peers;
};

// A backend plugin of ours, and c10d's own collectives over Gloo.
std::unique_ptr<Competitor> our_backend(const std::string& name, const Place& place);
std::unique_ptr<Competitor> c10d_gloo(const Place& place);

}  // namespace bench
