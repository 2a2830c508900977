// One collective at a time over a Mesh, whose ranks have agreed on the call.
#pragma once

#include <vector>

#include "backends/common/call.hpp"
#include "backends/gloo/mesh.hpp"

namespace pipeline::backends::gloo {

// `scratch` grows to a bound that does not depend on the call, and is kept from call to call.
class Collective {
 public:
  Collective(Mesh& mesh, const Call& call, int32_t rank, int32_t world_size, std::vector<char>& scratch);

  void all_reduce();
  void reduce_scatter();
  void all_gather();
  void broadcast();
  void all_to_all();

 private:
  // A chunk of each rank's shard, in elements of the whole.
  struct Chunk {
    std::vector<uint64_t> begin, size;
  };

  void shards(const std::vector<uint64_t>& counts);
  void even_shards(uint64_t total);
  Chunk chunk(uint64_t index) const;
  std::vector<int32_t> others() const;
  char* at(const pl_buffer& buffer, uint64_t element) const;
  char* received(uint64_t chunk, int32_t from) const;

  Mesh::Exchange start_reduce(uint64_t index);
  void reduce(uint64_t index, char* out);
  Mesh::Exchange receive_sums(uint32_t tag, uint64_t index);
  Mesh::Exchange send_sum(uint32_t tag, uint64_t index);
  void all_reduce_small();
  void star();

  Mesh& mesh_;
  const Call& call_;
  const int32_t rank_;
  const int32_t world_size_;
  std::vector<char>& scratch_;
  const size_t width_;  // bytes of an element
  uint64_t step_;       // elements of a chunk at most
  uint64_t chunk_count_ = 0;
  std::vector<uint64_t> begin_, size_;  // of the ranks' shards
};

}  // namespace pipeline::backends::gloo
