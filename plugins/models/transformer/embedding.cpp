#include "embedding.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>

#include "fast_path.hpp"
#include "gemm.hpp"
#include "kept.hpp"
#include "kernels/kernels.hpp"
#include "plugins/parallel/parallel.hpp"

namespace pipeline::transformer {
namespace {

struct SavedEmbedding {
  Dropout dropout;
  std::shared_ptr<SharedGradient> shared;
  int64_t position_rows;
};

// gradient[index[n]] += rows[n], n in order, so that repeated indices add up in one order; the gradient is
// wide.
void add_rows(at::Tensor& gradient, const at::Tensor& index, const at::Tensor& rows_in_any_type) {
  const at::Tensor dx = rows_in_any_type.to(gradient.scalar_type());
  if (!fast_path(gradient) || !fast_path(dx)) {
    gradient.index_add_(0, index, dx);
    return;
  }
  const int64_t columns = dx.size(1);
  const int64_t* const rows = index.const_data_ptr<int64_t>();
  const float* const from = dx.const_data_ptr<float>();
  float* const to = gradient.mutable_data_ptr<float>();
  const int64_t parts = std::min<int64_t>(columns, parallel::thread_count());
  parallel::rows(columns, (columns + parts - 1) / parts, dx.size(0), [&](int64_t begin, int64_t end) {
    for (int64_t n = 0; n < dx.size(0); ++n) {
      kernels().add(from + n * columns + begin, to + rows[n] * columns + begin, end - begin);
    }
  });
}

// `inserted`: (0, 0) where nothing is.
class Embed : public torch::autograd::Function<Embed> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& table, const Variable& positions_table,
                          const Variable& inserted, const at::Tensor& inserted_rows, const at::Tensor& tokens,
                          const at::Tensor& positions, const Dropout& dropout,
                          const std::shared_ptr<SharedGradient>& shared, at::ScalarType type) {
    at::Tensor x = at::index_select(table, 0, tokens).to(type);
    if (inserted.numel() > 0) x.index_copy_(0, inserted_rows, inserted.to(x.scalar_type()));
    if (positions_table.numel() > 0) x.add_(at::index_select(positions_table, 0, positions));
    if (dropout.active()) x = apply_dropout(x, dropout, {}, true);
    ctx->save_for_backward({kept_if(table.requires_grad(), tokens),
                            kept_if(positions_table.requires_grad(), positions), inserted_rows, table});
    keep(ctx, SavedEmbedding{dropout, shared, positions_table.size(0)});
    return x;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &tokens = saved[0], &positions = saved[1], &inserted_rows = saved[2], &table = saved[3];
    const auto& [dropout, shared, position_rows] = kept<SavedEmbedding>(ctx);
    const at::Tensor dy = grads[0].contiguous();
    const at::Tensor dx = dropout.active() ? apply_dropout(dy, dropout) : dy;

    const at::TensorOptions sums = dx.options().dtype(wide(dx.scalar_type()));
    at::Tensor dtable, dpositions, dinserted;
    if (ctx->needs_input_grad(2)) dinserted = dx.index_select(0, inserted_rows);
    if (ctx->needs_input_grad(0)) {
      const at::Tensor of_tokens = inserted_rows.numel() > 0 ? dx.index_fill(0, inserted_rows, 0) : dx;
      if (shared) dtable = std::exchange(shared->value, {});
      if (dtable.defined()) dtable = dtable.to(wide(dtable.scalar_type()));
      if (shared && shared->take_rows) {
        shared->take_rows(tokens, of_tokens);
      } else {
        at::Tensor sum = dtable.defined() ? dtable : gradient_so_far(table);
        if (!sum.defined()) sum = dtable = at::zeros(table.sizes(), sums);
        add_rows(sum, tokens, of_tokens);
      }
    }
    if (ctx->needs_input_grad(1)) {
      dpositions = at::zeros({position_rows, dx.size(1)}, sums);
      add_rows(dpositions, positions, dx);
    }
    return {dtable,     dpositions, dinserted,  Variable(), Variable(),
            Variable(), Variable(), Variable(), Variable()};
  }
};

}  // namespace

void check_range(const at::Tensor& index, int64_t size, const char* what) {
  if (!index.device().is_cpu()) return;
  const int64_t* const values = index.const_data_ptr<int64_t>();
  for (int64_t n = 0; n < index.numel(); ++n) {
    TORCH_CHECK_INDEX(values[n] >= 0 && values[n] < size, what, " ", values[n], " at row ", n,
                      ": must be 0 to ", size - 1);
  }
}

at::Tensor embed(const at::Tensor& tokens, const at::Tensor& positions, const at::Tensor& table,
                 const at::Tensor& positions_table, const Dropout& dropout,
                 const std::shared_ptr<SharedGradient>& shared, const Inserted& inserted,
                 std::optional<at::ScalarType> type) {
  check_range(tokens, table.size(0), "token");
  const bool has_positions = positions_table.defined();
  if (has_positions) check_range(positions, positions_table.size(0), "position");
  const bool any = inserted.rows.defined();
  return Embed::apply(table, has_positions ? positions_table : at::empty({0, 0}, table.options()),
                      any ? inserted.values : at::empty({0, 0}, table.options()),
                      any ? inserted.rows : at::empty({0}, tokens.options()), tokens,
                      has_positions ? positions : at::empty({0}, tokens.options()), dropout, shared,
                      type.value_or(table.scalar_type()));
}

at::Tensor look_up(const at::Tensor& table, const at::Tensor& index) {
  return at::embedding(table.to(wide(table.scalar_type())), index).to(table.scalar_type());
}

}  // namespace pipeline::transformer
