#include "core/train/session/extra_state.hpp"

#include "core/base/abi_values.hpp"
#include "core/base/fail.hpp"

namespace pipeline::train {
namespace {

constexpr std::string_view kExtraState = "extra_state";

pl_piece whole(const std::string& task, const int64_t& bytes) {
  pl_piece piece{};
  piece.struct_size = sizeof piece;
  piece.ndim = 1;
  piece.parameter = to_pl(task);
  piece.kind = to_pl(kExtraState);
  piece.shape = &bytes;
  piece.count = static_cast<uint64_t>(bytes);
  piece.dtype = {PL_DTYPE_UINT, 8, 1};
  return piece;
}

std::string read_state(const checkpoint::Checkpoint& from, const std::string& task,
                       const checkpoint::Tensor& stored) {
  std::string state(checkpoint::element_count(stored.shape), '\0');
  const auto bytes = static_cast<int64_t>(state.size());
  from.read(whole(task, bytes), state.data());
  return state;
}

}  // namespace

checkpoint::PieceSource with_extra_state(const plugins::Task& task, checkpoint::PieceSource pieces) {
  std::string state = task.extra_state();
  if (state.empty()) return pieces;
  return [state = std::move(state), name = task.plugin().name(),
          pieces = std::move(pieces)](const checkpoint::PieceVisitor& visit) {
    const auto bytes = static_cast<int64_t>(state.size());
    pl_piece piece = whole(name, bytes);
    piece.data = state.data();
    visit(piece);
    pieces(visit);
  };
}

bool same_extra_state(const plugins::Task& task, const checkpoint::Checkpoint& a,
                      const checkpoint::Checkpoint& b) {
  const std::string& name = task.plugin().name();
  const checkpoint::Tensor *of_a = a.find(kExtraState, name), *of_b = b.find(kExtraState, name);
  if (of_a == nullptr || of_b == nullptr) return of_a == of_b;
  return read_state(a, name, *of_a) == read_state(b, name, *of_b);
}

void give_extra_state(plugins::Task& task, const checkpoint::Checkpoint& from) {
  const std::string& name = task.plugin().name();
  const checkpoint::Tensor* stored = from.find(kExtraState, name);
  if (!stored) return;
  if (!task.takes_extra_state())
    fail(PL_ERROR_UNSUPPORTED,
         "{}: was written by a task '{}' that keeps extra state, and the one that is installed ({}) does "
         "not: use the version that wrote it",
         from.path(), name, task.plugin().version());
  try {
    task.set_extra_state(read_state(from, name, *stored));
  } catch (const Error& error) {
    if (error.code() == PL_ERROR_CONFIG) throw;  // says where the option is
    fail(error.code(), "{}: {}", from.path(), error.what());
  }
}

}  // namespace pipeline::train
