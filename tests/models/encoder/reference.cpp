#include "reference.hpp"
#include "plugins/data/residues/alphabet.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace pipeline::encoder::testing {
namespace {

constexpr std::string_view kLetters = "ACDEFGHIKLMNPQRSTVWYX";  // by our number
// <cls> <pad> <eos> <unk>, then one letter each, ... <mask> at 32
constexpr std::string_view kTheirs = "????LAGVSERTIDPKQNFYMHWCXBUZO.-?";

int64_t their_number(int64_t token) {
  return token == residues::kMaskToken
             ? 32
             : static_cast<int64_t>(kTheirs.find(kLetters[static_cast<size_t>(token)]));
}

// Attention of `count` heads with rotary positions; q, k and v: (L, C).
at::Tensor exact_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t count,
                           const std::vector<int64_t>& positions) {
  const int64_t length = q.size(0), width = q.size(1), half = width / count / 2;
  const at::Tensor frequencies =
      at::pow(10000.0, at::arange(half, at::kDouble) * (-1.0 / static_cast<double>(half)));
  const at::Tensor angles = at::tensor(positions, at::kDouble).unsqueeze(1) * frequencies;
  const at::Tensor turn = at::polar(at::ones_like(angles), angles).unsqueeze(1);  // (L, 1, D / 2) complex
  const auto heads = [&](const at::Tensor& part) { return part.reshape({length, count, 2, half}); };
  const auto turned = [&](const at::Tensor& part) {
    return at::view_as_real(at::complex(heads(part).select(2, 0), heads(part).select(2, 1)) * turn)
        .flatten(2)
        .transpose(0, 1);
  };
  // The order of channels within a head does not change products of queries and keys.
  const at::Tensor scores =
      at::matmul(turned(q), turned(k).transpose(1, 2)) / std::sqrt(2.0 * static_cast<double>(half));
  return at::matmul(at::softmax(scores, -1), heads(v).flatten(2).transpose(0, 1))
      .transpose(0, 1)
      .reshape({length, width});
}

}  // namespace

Weights exact_weights(const ProteinEncoder& model) {
  Weights weights;
  for (const auto& [name, value] : named(model))
    weights[name] = value.detach().to(at::kDouble).clone().requires_grad_(true);
  return weights;
}

at::Tensor Reference::linear(const std::string& name, const at::Tensor& x) const {
  const at::Tensor y = at::mm(x, w(name + ".weight")), more = bias(name);
  return more.defined() ? y + more : y;
}

at::Tensor Reference::norm(const std::string& name, const at::Tensor& x) const {
  return at::layer_norm(x, {config_.hidden_size}, w(name + ".weight"), bias(name), config_.layer_norm_eps);
}

std::vector<at::Tensor> Reference::states(const std::vector<int64_t>& tokens,
                                          const std::vector<int64_t>& positions) const {
  const Names& names = row_.names;
  const auto length = static_cast<double>(tokens.size());
  const auto masks = static_cast<double>(std::count(tokens.begin(), tokens.end(), 32));
  const double divisor =
      row_.divides_branches ? std::sqrt(static_cast<double>(config_.num_hidden_layers) / 36) : 1;
  at::Tensor x = w(names.words).index_select(0, at::tensor(tokens, at::kLong));
  if (config_.token_dropout) {
    const at::Tensor seen = at::tensor(tokens, at::kLong).ne(32).to(at::kDouble).unsqueeze(1);
    x = x * seen * (1 - 0.15 * 0.8) / (1 - masks / length);
  }
  std::vector<at::Tensor> states{x};
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const std::string of = names.layers + std::to_string(i) + ".";
    auto qkv = linear(of + names.layer.qkv, norm(of + names.layer.attention_norm, x)).chunk(3, 1);
    if (names.query_norm != nullptr) {
      qkv[0] = norm(of + names.query_norm, qkv[0]);
      qkv[1] = norm(of + names.key_norm, qkv[1]);
    }
    const at::Tensor h = exact_attention(qkv[0], qkv[1], qkv[2], config_.num_attention_heads, positions);
    x = x + linear(of + names.layer.projection, h) / divisor;
    const at::Tensor up = linear(of + names.layer.up, norm(of + names.layer.mlp_norm, x));
    const auto halves = up.chunk(2, 1);
    x = x +
        linear(of + names.layer.down, row_.gate ? at::silu(halves[0]) * halves[1] : at::gelu(up)) / divisor;
    states.push_back(x);
  }
  states.back() = norm(names.last_norm, x);
  return states;
}

at::Tensor Reference::logits(const std::vector<int64_t>& tokens,
                             const std::vector<int64_t>& positions) const {
  const Names& names = row_.names;
  const at::Tensor h =
      norm("lm_head.layer_norm", at::gelu(linear("lm_head.dense", states(tokens, positions).back())));
  const std::string table = names.decoder == nullptr ? names.words : concat(names.decoder, ".weight");
  return at::mm(h, w(table).t()) + w(names.head_bias);
}

Exact Reference::exact(const protein::PackedProteins& batch) const {
  const auto number = [](const at::Tensor& tensor, int64_t row) { return tensor[row].item<int64_t>(); };
  Exact exact{at::zeros({}, at::kDouble), {}};
  std::vector<at::Tensor> all;
  size_t next = 0;
  for (int64_t s = 0; s < batch.sequences.sequences(); ++s) {
    int64_t begin = batch.sequences.start(s);
    while (begin < batch.sequences.start(s + 1)) {
      int64_t end = begin;
      std::vector<int64_t> tokens = {0}, positions = {0};
      for (; end < batch.sequences.start(s + 1) && number(batch.chains, end) == number(batch.chains, begin);
           ++end) {
        tokens.push_back(their_number(number(batch.tokens, end)));
        positions.push_back(number(batch.positions, end) - number(batch.positions, begin) + 1);
      }
      tokens.push_back(2);
      positions.push_back(positions.back() + 1);
      const at::Tensor rows = logits(tokens, positions);
      for (; next < batch.target_rows.size() && batch.target_rows[next] < end; ++next) {
        all.push_back(rows[batch.target_rows[next] - begin + 1]);
        const int64_t target = their_number(number(batch.targets, static_cast<int64_t>(next)));
        exact.loss = exact.loss - at::log_softmax(all.back(), 0)[target];
      }
      begin = end;
    }
  }
  if (!all.empty()) exact.logits = at::stack(all);
  return exact;
}

}  // namespace pipeline::encoder::testing
