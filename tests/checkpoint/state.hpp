#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.hpp"
#include "core/checkpoint/manifest.hpp"

namespace pipeline::checkpoint {

constexpr pl_dtype kFloat32{PL_DTYPE_FLOAT, 32, 1};
constexpr pl_dtype kBfloat16{PL_DTYPE_BFLOAT, 16, 1};
constexpr pl_dtype kInt64{PL_DTYPE_INT, 64, 1};

inline pl_str str(const std::string& value) { return {value.data(), value.size()}; }

// One tensor of a made-up training state.
struct StateTensor {
  std::string kind;
  std::string parameter;
  std::vector<int64_t> shape;
  pl_dtype dtype;
  std::vector<std::byte> bytes;

  uint64_t count() const { return element_count(shape); }
};

inline pl_piece request_for(const StateTensor& tensor, uint64_t offset, uint64_t count) {
  return {sizeof(pl_piece),
          static_cast<uint32_t>(tensor.shape.size()),
          str(tensor.parameter),
          str(tensor.kind),
          tensor.shape.data(),
          offset,
          count,
          tensor.dtype,
          0,
          nullptr};
}

inline StateTensor make_tensor(std::string kind, std::string parameter, std::vector<int64_t> shape,
                               pl_dtype dtype, uint32_t seed) {
  StateTensor tensor{std::move(kind), std::move(parameter), std::move(shape), dtype, {}};
  tensor.bytes.resize(tensor.count() * dtype.bits / 8);
  for (std::byte& byte : tensor.bytes)
    byte = static_cast<std::byte>((seed = seed * 1664525 + 1013904223) >> 24);
  return tensor;
}

// Different bytes for every seed; dtypes of three widths, a scalar, and a tensor without elements.
inline std::vector<StateTensor> make_state(uint32_t seed) {
  return {make_tensor("value", "wte.weight", {50, 7}, kFloat32, seed),
          make_tensor("value", "ln.bias", {7}, kFloat32, seed + 1),
          make_tensor("value", "half", {3, 5}, kBfloat16, seed + 2),
          make_tensor("value", "none", {0, 4}, kFloat32, seed + 3),
          make_tensor("exp_avg", "wte.weight", {50, 7}, kFloat32, seed + 4),
          make_tensor("step", "", {}, kInt64, seed + 5)};
}

// The share of one rank: every tensor is cut at multiples of 16 elements, and the runs are dealt out in turn.
inline PieceSource source(const std::vector<StateTensor>& state, int rank = 0, int world_size = 1) {
  return [state, rank, world_size](const PieceVisitor& visit) {
    int turn = 0;
    for (const StateTensor& tensor : state) {
      const uint64_t run = world_size == 1 ? tensor.count() : 16;
      uint64_t offset = 0;
      do {
        const uint64_t count = std::min(run, tensor.count() - offset);
        if (turn++ % world_size == rank) {
          pl_piece piece = request_for(tensor, offset, count);
          piece.data = tensor.bytes.data() + offset * tensor.dtype.bits / 8;
          visit(piece);
        }
        offset += count;
      } while (offset < tensor.count());
    }
  };
}

inline std::vector<std::byte> read_back(const Checkpoint& checkpoint, const StateTensor& tensor,
                                        uint64_t offset, uint64_t count) {
  std::vector<std::byte> bytes(count * tensor.dtype.bits / 8);
  checkpoint.read(request_for(tensor, offset, count), bytes.data());
  return bytes;
}

inline bool holds(const Checkpoint& checkpoint, const std::vector<StateTensor>& state) {
  for (const StateTensor& tensor : state) {
    if (read_back(checkpoint, tensor, 0, tensor.count()) != tensor.bytes) return false;
  }
  return true;
}

// The contents of a checkpoint; `loss`, where given, is its metric.
inline Contents contents_of(uint64_t step, std::optional<double> loss = std::nullopt) {
  Contents contents{step, R"({"epoch":1,"position":4096})", "[run]\nname = \"x\"\n", R"({"micro_batch":8})",
                    std::nullopt};
  if (loss) contents.metric = Metric{"loss", *loss, false};
  return contents;
}

}  // namespace pipeline::checkpoint
