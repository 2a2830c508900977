#include "backends/common/signature.hpp"

#include <pipeline/tensor.hpp>

namespace pipeline::backends {
namespace {

// FNV-1a over the numbers.
uint64_t hash_of(const std::vector<uint64_t>& numbers) {
  uint64_t hash = 14695981039346656037u;
  for (const uint64_t number : numbers) hash = (hash ^ number) * 1099511628211u;
  return hash;
}

// "rank 0: broadcast of 4 x float32, root 1"
std::string describe(const Signature& s, int32_t rank) {
  std::string text = concat("rank ", rank, ": ", operation_name(static_cast<Operation>(s.operation)));
  if (s.sequence == 0) return text;
  if (s.dtype.bits != 0) text += concat(" of ", s.count, " x ", name_of(s.dtype));
  if (s.reduce != 0) {
    text += s.reduce == PL_REDUCE_SUM ? ", sum" : s.reduce == PL_REDUCE_MIN ? ", minimum" : ", maximum";
  }
  if (static_cast<Operation>(s.operation) == Operation::kBroadcast) text += concat(", root ", s.root);
  return text;
}

bool same_call(const Signature& a, const Signature& b) {
  return a.sequence == b.sequence && a.operation == b.operation && a.reduce == b.reduce && a.root == b.root &&
         same(a.dtype, b.dtype) && a.count == b.count;
}

}  // namespace

Signature signature_of(const Call& call, uint64_t sequence, int32_t reader) {
  const auto to = static_cast<size_t>(reader);
  const bool all_to_all = call.operation == Operation::kAllToAll;
  Signature s;
  s.sequence = sequence;
  s.operation = static_cast<uint32_t>(call.operation);
  s.reduce = call.reduce;
  s.root = call.root;
  s.dtype = call.in.dtype;
  s.count = call.common_count();
  s.counts_hash = all_to_all ? 0 : hash_of(call.send);
  s.sends = all_to_all ? call.send[to] : 0;
  s.expects = all_to_all ? call.receive[to] : 0;
  return s;
}

std::optional<std::string> difference(const Signature& mine, int32_t my_rank, const Signature& other,
                                      int32_t other_rank) {
  if (my_rank > other_rank) return difference(other, other_rank, mine, my_rank);
  const std::string where = concat("the ranks' calls differ at #", mine.sequence, ": ");
  if (!same_call(mine, other)) {
    return where + describe(mine, my_rank) + "; " + describe(other, other_rank);
  }
  if (mine.counts_hash != other.counts_hash) {
    return where + concat(operation_name(static_cast<Operation>(mine.operation)), ": ranks ", my_rank,
                          " and ", other_rank, " give different counts per rank");
  }
  if (mine.sends != other.expects || other.sends != mine.expects) {
    return where + concat("all_to_all: rank ", my_rank, " sends ", mine.sends, " elements to rank ",
                          other_rank, ", which expects ", other.expects, "; the other way ", other.sends,
                          ", expected ", mine.expects);
  }
  return std::nullopt;
}

}  // namespace pipeline::backends
