#include "backends/common/call.hpp"

#include <numeric>

#include <pipeline/tensor.hpp>

namespace pipeline::backends {
namespace {

void check_same_dtype(const char* what, const pl_buffer& a, const pl_buffer& b) {
  if (!same(a.dtype, b.dtype)) fail(what, ": its two buffers have different dtypes");
}

const char* first_byte(const pl_buffer& buffer) { return static_cast<const char*>(buffer.data); }

void check_apart(const char* what, const pl_buffer& a, const pl_buffer& b) {
  const uint64_t a_size = byte_size(a.dtype, a.count), b_size = byte_size(b.dtype, b.count);
  if (a_size > 0 && b_size > 0 && first_byte(a) < first_byte(b) + b_size &&
      first_byte(b) < first_byte(a) + a_size)
    fail(what, ": its two buffers overlap, although the shard is not this rank's part of the full buffer");
}

void check_reducible(const char* what, const pl_buffer& buffer) {
  if (!can_reduce(buffer.dtype)) {
    fail_with(PL_ERROR_UNSUPPORTED, what, ": dtype code ", static_cast<unsigned>(buffer.dtype.code), " with ",
              static_cast<unsigned>(buffer.dtype.bits), " bits cannot be reduced");
  }
}

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

const char* operation_name(Operation operation) {
  static constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "all_gather",
                                           "broadcast",  "all_to_all",     "barrier"};
  const auto index = static_cast<size_t>(operation);
  return index < std::size(kNames) ? kNames[index] : "an unknown operation";
}

uint64_t Call::common_count() const {
  switch (operation) {
    case Operation::kAllGather:
      return out.count;
    case Operation::kAllToAll:
    case Operation::kBarrier:
      return 0;
    default:
      return in.count;
  }
}

void check_open_args(const pl_backend_open_args& args, const char* instead) {
  if (args.device.type != PL_DEVICE_CPU) {
    fail_with(PL_ERROR_UNSUPPORTED, "open: it works in host memory only, ", name_of(args.device),
              " was asked for: ", instead);
  }
  if (args.world_size < 1 || args.rank < 0 || args.rank >= args.world_size)
    fail("open: rank ", args.rank, " of ", args.world_size);
  if (!(args.timeout_seconds > 0))
    fail("open: timeout_seconds is ", args.timeout_seconds, ", must be above 0");
}

Call Calls::all_reduce(const pl_buffer& in_out, uint32_t reduce) const {
  check_reducible("all_reduce", checked("all_reduce", in_out));
  return {Operation::kAllReduce, reduce, 0, in_out, in_out, {}, {}};
}

Call Calls::reduce_scatter(const pl_buffer& in, const pl_buffer& shard, const Counts& counts,
                           uint32_t reduce) const {
  check_reducible("reduce_scatter", checked("reduce_scatter", in));
  std::vector<uint64_t> send = shares("reduce_scatter", counts, in.count);
  check_shard("reduce_scatter", shard, in, send);
  return {Operation::kReduceScatter, reduce, 0, in, shard, std::move(send), {}};
}

Call Calls::all_gather(const pl_buffer& shard, const pl_buffer& full, const Counts& counts) const {
  checked("all_gather", full);
  std::vector<uint64_t> send = shares("all_gather", counts, full.count);
  check_shard("all_gather", shard, full, send);
  return {Operation::kAllGather, 0, 0, shard, full, std::move(send), {}};
}

Call Calls::broadcast(const pl_buffer& in_out, int32_t root) const {
  checked("broadcast", in_out);
  if (root < 0 || root >= world_size_) fail("broadcast: root is ", root, " of ", world_size_, " ranks");
  return {Operation::kBroadcast, 0, root, in_out, in_out, {}, {}};
}

Call Calls::all_to_all(const pl_buffer& in, const pl_buffer& out, const Counts& send,
                       const Counts& receive) const {
  checked("all_to_all", in);
  checked("all_to_all", out);
  check_same_dtype("all_to_all", in, out);
  check_apart("all_to_all", in, out);
  return {Operation::kAllToAll,
          0,
          0,
          in,
          out,
          shares("all_to_all (send)", send, in.count),
          shares("all_to_all (receive)", receive, out.count)};
}

const pl_buffer& Calls::checked(const char* what, const pl_buffer& buffer) const {
  const bool host_works = device_ == PL_DEVICE_CPU && buffer.device.type == PL_DEVICE_CUDA_HOST;
  if (buffer.device.type != device_ && !host_works) {
    fail_with(PL_ERROR_UNSUPPORTED, what, ": the buffer is not in ",
              device_ == PL_DEVICE_CPU ? "host" : "CUDA device", " memory (device type ", buffer.device.type,
              ")");
  }
  require_known_flags(what, buffer.flags, 0);
  if (buffer.count > 0 && buffer.data == nullptr)
    fail(what, ": the buffer has ", buffer.count, " elements and is NULL");
  if (buffer.dtype.bits == 0 || buffer.dtype.bits % 8 != 0 || buffer.dtype.lanes != 1) {
    fail_with(PL_ERROR_UNSUPPORTED, what, ": elements of ", static_cast<unsigned>(buffer.dtype.bits),
              " bits cannot be sent");
  }
  return buffer;
}

// Elements of each rank: those given, or even shares of `total`.
std::vector<uint64_t> Calls::shares(const char* what, const Counts& given, uint64_t total) const {
  const auto ranks = static_cast<uint64_t>(world_size_);
  if (!given) {
    if (total % ranks != 0) fail(what, ": ", total, " elements cannot be shared evenly by ", ranks, " ranks");
    return std::vector<uint64_t>(ranks, total / ranks);
  }
  uint64_t sum = 0;
  for (const uint64_t count : *given) sum += count;
  if (sum != total) fail(what, ": the counts add up to ", sum, ", the buffer has ", total, " elements");
  return {given->begin(), given->end()};
}

void Calls::check_shard(const char* what, const pl_buffer& shard, const pl_buffer& full,
                        const std::vector<uint64_t>& counts) const {
  checked(what, shard);
  check_same_dtype(what, shard, full);
  const auto mine = counts.begin() + rank_;
  if (shard.count != *mine)
    fail(what, ": the shard of rank ", rank_, " has ", shard.count, " elements, must have ", *mine);
  const uint64_t place = std::accumulate(counts.begin(), mine, uint64_t{0});
  if (shard.data != first_byte(full) + place * (full.dtype.bits / 8)) check_apart(what, shard, full);
}

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
