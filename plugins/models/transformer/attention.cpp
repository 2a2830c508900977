#include "attention.hpp"

#include <ATen/core/Tensor.h>

#include "attention_paths.hpp"
#include "cuda/program.hpp"
#include "kernels/kernels.hpp"
#include "packed_batch.hpp"

namespace pipeline::transformer {
namespace {

void check_rows(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                const AttentionLayout& layout) {
  TORCH_CHECK(layout.queries.rows() == q.size(0) && layout.keys.rows() == k.size(0) &&
                  q.size(1) % layout.heads == 0 && layout.heads % layout.heads_of_keys() == 0 &&
                  k.size(1) == layout.key_width(q.size(1)) && v.sizes() == k.sizes(),
              "attention: q ", q.sizes(), ", k ", k.sizes(), ", v ", v.sizes(), " for ",
              layout.queries.rows(), " query rows, ", layout.keys.rows(), " key rows, ", layout.heads,
              " heads, ", layout.heads_of_keys(), " of keys");
}

void check_bias(const at::Tensor& bias, const AttentionLayout& layout) {
  if (!bias.defined() || bias.dim() == 2) return;  // the latter is from biases_of_pairs()
  const int64_t expected = layout.heads * pair_starts(layout).back();
  TORCH_CHECK(bias.dim() == 1 && bias.numel() == expected && bias.is_contiguous(),
              "attention: bias of shape ", bias.sizes(), ", must be contiguous with ", expected, " values");
}

}  // namespace

Parts parts_of(const at::Tensor& qkv, const AttentionLayout& layout) {
  const int64_t heads = layout.heads + 2 * layout.heads_of_keys();
  TORCH_CHECK(qkv.dim() == 2 && qkv.size(1) % heads == 0 && layout.heads % layout.heads_of_keys() == 0,
              "attention: qkv ", qkv.sizes(), " for ", layout.heads, " heads of queries, ",
              layout.heads_of_keys(), " of keys and of values");
  const int64_t width = qkv.size(1) / heads * layout.heads, keys = layout.key_width(width);
  return {qkv.narrow(1, 0, width), qkv.narrow(1, width, keys), qkv.narrow(1, width + keys, keys)};
}

AttentionLayout shared_by_layers(AttentionLayout layout) {
  if (!layout.uploaded) layout.uploaded = std::make_shared<UploadedLayout>();
  return layout;
}

AttentionLayout queries_at(const AttentionLayout& whole, const std::vector<int64_t>& rows) {
  AttentionLayout layout = whole;
  layout.queries = {};
  layout.uploaded = nullptr;
  size_t next = 0;
  for (int64_t s = 0; s < whole.keys.sequences(); ++s) {
    const size_t first = next;
    for (; next < rows.size() && rows[next] < whole.keys.start(s + 1); ++next)
      layout.positions.push_back(rows[next] - whole.keys.start(s));
    layout.queries.append(static_cast<int64_t>(next - first));
  }
  return layout;
}

std::vector<int64_t> pair_starts(const AttentionLayout& layout) {
  std::vector<int64_t> starts{0};
  for (int64_t s = 0; s < layout.queries.sequences(); ++s)
    starts.push_back(starts.back() + layout.queries.length(s) * layout.keys.length(s));
  return starts;
}

at::Tensor ragged_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionLayout& layout, const Dropout& dropout, const at::Tensor& bias) {
  check_rows(q, k, v, layout);
  check_bias(bias, layout);
  if (kernels_take(q, k, v, layout, bias)) return attention_by_kernels(q, k, v, layout, dropout, bias);
  if (q.is_cuda() && flash_can(q, layout, bias, cuda::compute_capability(q.device())))
    return flash_attention(q, k, v, layout, dropout);
  return padded_attention(q, k, v, layout, dropout, bias);
}

at::Tensor ragged_self_attention(const at::Tensor& qkv, const AttentionLayout& layout, const Dropout& dropout,
                                 const at::Tensor& bias) {
  const auto [q, k, v] = parts_of(qkv, layout);
  check_rows(q, k, v, layout);
  check_bias(bias, layout);
  if (kernels_take(q, k, v, layout, bias)) return self_attention_by_kernels(qkv, layout, dropout, bias);
  if (q.is_cuda()) {
    const int capability = cuda::compute_capability(q.device());
    if (cudnn_can(q, layout, dropout, bias, capability)) return cudnn_self_attention(qkv, layout);
    if (flash_can(q, layout, bias, capability)) return flash_self_attention(qkv, layout, dropout);
  }
  return padded_self_attention(qkv, layout, dropout, bias);
}

}  // namespace pipeline::transformer
