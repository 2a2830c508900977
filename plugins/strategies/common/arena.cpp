#include "plugins/strategies/common/arena.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <pipeline/error.hpp>
#include <pipeline/torch/memory.hpp>
#include <pipeline/torch/tensor.hpp>

namespace pipeline::strategies {
namespace {

constexpr char kStep[] = "step";
constexpr std::string_view kValue = "value";

// What a checkpoint's reader fills host memory with, for these values.
at::ScalarType type_on_host(const at::Tensor& values) {
  return values.scalar_type() == at::kByte ? at::kByte : at::kFloat;
}

// Calls visit(piece, first element of it in part.values) for what `part` has of each parameter, in the
// parameters' order.
void for_each_piece(const Layout& layout, const std::vector<Parameter>& parameters, const ArenaPart& part,
                    const std::function<void(const Piece&, int64_t)>& visit) {
  const int64_t end = part.begin + part.values.numel();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Slot& slot = layout.slot_of(i);
    const int64_t first = std::max(part.begin, slot.offset);
    const int64_t last = std::min(end, slot.offset + slot.count);
    const bool is_here = slot.count == 0 ? slot.offset >= part.begin && slot.offset < end : first < last;
    if (!is_here) continue;
    Piece piece;
    piece.parameter = parameters[i].name;
    piece.kind = part.kind == kValue ? parameters[i].value_kind() : std::string_view(part.kind);
    piece.shape = slot.shape;
    piece.offset = static_cast<uint64_t>(first - slot.offset);
    piece.count = static_cast<uint64_t>(last - first);
    piece.dtype = to_pl(part.values.scalar_type());
    visit(piece, first - part.begin);
  }
}

// `counts`: by loss. One alone is a scalar.
Piece step_piece(const at::Tensor& counts) {
  Piece piece;
  piece.kind = kStep;
  if (counts.numel() > 1) piece.shape = {counts.sizes().data(), counts.sizes().size()};
  piece.count = static_cast<uint64_t>(counts.numel());
  piece.dtype = kInt64;
  piece.data = counts.const_data_ptr();
  return piece;
}

c10::Stream current_stream_of(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

// Copies to pinned host memory, where an optimizer's state may be, may still be under way.
void wait_for_device(const std::vector<ArenaPart>& parts) {
  for (const ArenaPart& part : parts)
    if (!part.values.is_cpu()) return current_stream_of(part.values.device()).synchronize();
}

bool is_frozen(const Layout& layout, const ArenaPart& part) {
  return part.begin >= layout.trainable_length();
}

// `values` of the part as a checkpoint has them: they themselves, where they are in host memory like that.
at::Tensor as_saved(const Layout& layout, const ArenaPart& part, const at::Tensor& values) {
  if (values.is_cpu()) return layout.stored(part.begin) == Stored::kWide ? values.to(at::kFloat) : values;
  // A thread that writes has device 0, where the copy's events would make a context.
  c10::impl::VirtualGuardImpl(values.device().type()).setDevice(values.device());
  return staged_copy(values, kStagedElements);
}

class ArenaSnapshot : public Snapshot {
 public:
  ArenaSnapshot(std::shared_ptr<const Layout> layout,
                std::shared_ptr<const std::vector<Parameter>> parameters, std::vector<ArenaPart> parts,
                at::Tensor step_counts)
      : layout_(std::move(layout)),
        parameters_(std::move(parameters)),
        parts_(std::move(parts)),
        step_counts_(std::move(step_counts)) {}

  void visit(const Visitor& visitor) const override {
    for (const ArenaPart& part : parts_) {
      for_each_piece(*layout_, *parameters_, part, [&](Piece piece, int64_t first) {
        at::Tensor values = part.values.narrow(0, first, static_cast<int64_t>(piece.count));
        if (is_frozen(*layout_, part)) values = as_saved(*layout_, part, values);
        piece.dtype = to_pl(values.scalar_type());
        piece.data = values.const_data_ptr();
        visitor(piece);
      });
    }
    if (step_counts_.defined()) visitor(step_piece(step_counts_));
  }

 private:
  std::shared_ptr<const Layout> layout_;
  std::shared_ptr<const std::vector<Parameter>> parameters_;
  std::vector<ArenaPart> parts_;
  at::Tensor step_counts_;
};

class NoPieces : public Snapshot {
  void visit(const Visitor& /*visitor*/) const override {}
};

}  // namespace

std::unique_ptr<Snapshot> no_pieces() { return std::make_unique<NoPieces>(); }

at::Tensor staged_copy(const at::Tensor& values, int64_t piece) {
  struct Stage {
    at::Tensor memory;
    std::optional<c10::Event> filled;
    int64_t begin = 0, count = 0;
  };
  const at::Device device = values.device();
  const int64_t most = std::min(piece, values.numel());
  at::Tensor host = at::empty(values.sizes(), type_on_host(values));
  std::array<Stage, 2> stages;
  for (Stage& stage : stages) {
    stage.memory = at::empty({most}, host.options().pinned_memory(!device.is_cpu()));
    if (!device.is_cpu()) stage.filled.emplace(device.type());
  }
  const auto empty = [&](Stage& stage) {
    if (stage.filled && stage.count > 0) stage.filled->synchronize();
    host.narrow(0, stage.begin, stage.count).copy_(stage.memory.narrow(0, 0, stage.count));
    stage.count = 0;
  };
  size_t next = 0;
  for (int64_t begin = 0; begin < values.numel(); begin += piece, next ^= 1) {
    Stage& stage = stages[next];
    empty(stage);
    stage.begin = begin;
    stage.count = std::min(piece, values.numel() - begin);
    stage.memory.narrow(0, 0, stage.count).copy_(values.narrow(0, begin, stage.count), /*non_blocking=*/true);
    if (stage.filled) stage.filled->record(current_stream_of(device));
  }
  for (Stage& stage : stages) empty(stage);
  return host;
}

ArenaState::ArenaState(std::shared_ptr<const Layout> layout, const std::vector<Parameter>& parameters)
    : layout_(std::move(layout)), parameters_(std::make_shared<const std::vector<Parameter>>(parameters)) {}

std::unique_ptr<Snapshot> ArenaState::snapshot(std::vector<ArenaPart> parts, const at::Tensor& step_counts,
                                               bool copy) const {
  wait_for_device(parts);
  for (ArenaPart& part : parts) {
    if (is_frozen(*layout_, part)) continue;
    if (!part.values.is_cpu()) {
      part.values = staged_copy(part.values, kStagedElements);
    } else if (part.kind != kValue) {
      if (copy && !part.is_copy) part.values = part.values.clone();
    } else {
      part.values = part.values.to(at::TensorOptions().dtype(at::kFloat), /*non_blocking=*/false, copy);
    }
  }
  return std::make_unique<ArenaSnapshot>(
      layout_, parameters_, std::move(parts),
      step_counts.defined() ? step_counts.to(at::kCPU, at::kLong) : at::Tensor());
}

void ArenaState::read(const StateReader& reader, const ArenaPart& part) const {
  const at::ScalarType type = type_on_host(part.values);
  const bool in_place = part.values.is_cpu() && part.values.scalar_type() == type;
  for_each_piece(*layout_, *parameters_, part, [&](Piece piece, int64_t first) {
    piece.dtype = to_pl(type);
    const at::Tensor whole = part.values.narrow(0, first, static_cast<int64_t>(piece.count));
    const int64_t most = in_place ? whole.numel() : kStagedElements;
    int64_t begin = 0;
    do {
      at::Tensor target = whole.narrow(0, begin, std::min(most, whole.numel() - begin));
      at::Tensor host = in_place ? target : at::empty(target.sizes(), type);
      Piece wanted = piece;
      wanted.offset += static_cast<uint64_t>(begin);
      wanted.count = static_cast<uint64_t>(target.numel());
      // Typed: where there are no elements, too, it is an address.
      reader.read(wanted, type == at::kByte ? static_cast<void*>(host.mutable_data_ptr<uint8_t>())
                                            : host.mutable_data_ptr<float>());
      if (!in_place) target.copy_(host);
      begin += target.numel();
    } while (begin < whole.numel());
  });
}

at::Tensor ArenaState::read_step_counts(const StateReader& reader) const {
  const at::Tensor counts = at::zeros({static_cast<int64_t>(layout_->losses())}, at::kLong);
  if (!reader.values_only()) reader.read(step_piece(counts), counts.mutable_data_ptr());
  return counts;
}

ValueArena::ValueArena(std::shared_ptr<const Layout> layout, at::ScalarType dtype, at::Device device)
    : layout_(std::move(layout)) {
  for (const Stored how : kStoredWays) {
    const int64_t least = how == Stored::kWide ? kChunk : 0, count = layout_->end(how) - layout_->begin(how);
    const std::vector<int64_t> shape{std::max(count, least)};
    const at::ScalarType type = type_of(how, dtype);
    values_[static_cast<size_t>(how)] =
        device.is_cpu() ? mapped_zeros(shape, type) : at::zeros(shape, at::TensorOptions(device).dtype(type));
  }
}

at::Tensor ValueArena::part(int64_t begin, int64_t length) const {
  const Stored how = length == 0 ? Stored::kWide : layout_->stored(begin);
  const at::Tensor& values = values_[static_cast<size_t>(how)];
  return values.narrow(0, std::min(begin - layout_->begin(how), values.numel()), length);
}

uint64_t ValueArena::bytes() const {
  uint64_t bytes = 0;
  for (const at::Tensor& values : values_) bytes += values.nbytes();
  return bytes;
}

void* ValueArena::address(size_t index) const {
  const Slot& slot = layout_->slot_of(index);
  return part(slot.offset, slot.padded).mutable_data_ptr();
}

}  // namespace pipeline::strategies
