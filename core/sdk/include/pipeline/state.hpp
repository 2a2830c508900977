// The training state, as written to and read from checkpoints.
#pragma once

#include <pipeline/host.hpp>
#include <pipeline/namespace.hpp>
#include <pipeline/tensor.hpp>

#include <functional>
#include <span>
#include <string_view>

PIPELINE_SDK_BEGIN

// A contiguous run of elements of one flattened tensor of the state. Borrows everything.
struct Piece {
  std::string_view parameter;      // name; empty for state of the optimizer as a whole
  std::string_view kind;           // "value" (the master), "exp_avg", "exp_avg_sq", "momentum", "step", ...
  std::span<const int64_t> shape;  // of the whole tensor
  uint64_t offset = 0;             // first element
  uint64_t count = 0;
  pl_dtype dtype = kFloat32;
  const void* data = nullptr;  // host memory; NULL in requests

  pl_piece raw() const {
    auto out = sized<pl_piece>();
    out.ndim = static_cast<uint32_t>(shape.size());
    out.parameter = str(parameter);
    out.kind = str(kind);
    out.shape = shape.data();
    out.offset = offset;
    out.count = count;
    out.dtype = dtype;
    out.data = data;
    return out;
  }
};

// Supplies a strategy's state when a run starts or continues.
class StateReader {
 public:
  explicit StateReader(const pl_state_reader* sent) : raw_(receive(sent)) {}

  // True for a fresh start: only "value" can be read, all else begins at zero.
  bool values_only() const { return raw_.values_only != 0; }

  // Fills `destination` (host) with piece.count elements of piece.dtype. Throws if the piece is missing.
  void read(const Piece& piece, void* destination) const {
    const pl_piece request = piece.raw();
    check(raw_.read(raw_.user, &request, destination));
  }

 private:
  pl_state_reader raw_;
};

// The pieces of the state that this rank owns, as they were at one step. May be visited and freed on any
// thread.
class Snapshot {
 public:
  using Visitor = std::function<void(const Piece&)>;
  Snapshot() = default;
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;
  virtual ~Snapshot() = default;
  // Visits in a fixed order; what a piece points to stays valid until the snapshot is destroyed.
  virtual void visit(const Visitor& visitor) const = 0;
};

using MemoryVisitor = std::function<void(std::string_view what, uint64_t bytes)>;

PIPELINE_SDK_END
