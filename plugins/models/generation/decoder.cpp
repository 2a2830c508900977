#include "decoder.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <deque>

#include "transformer/packed_batch.hpp"

namespace pipeline::generation {

using transformer::AttentionLayout;

Decoder::Decoder(const DecoderModel& model, const std::vector<std::vector<int64_t>>& prompts,
                 int64_t slots_per_prompt, int64_t new_tokens, at::ScalarType compute)
    : model_(model), compute_(compute), slots_per_prompt_(slots_per_prompt) {
  for (const auto& prompt : prompts) {
    const auto length = static_cast<int64_t>(prompt.size());
    TORCH_CHECK(length > 0, "prompt ", prompts_.sequences(),
                " is empty: generation needs a token to start from");
    TORCH_CHECK(length + new_tokens <= model.max_tokens(), "prompt ", prompts_.sequences(), " has ", length,
                " tokens: with ", new_tokens, " new ones that is more than the model takes (",
                model.max_tokens(), "); shorten one or the other");
    prompts_.append(length);
    prompt_tokens_.insert(prompt_tokens_.end(), prompt.begin(), prompt.end());
    lengths_.insert(lengths_.end(), static_cast<size_t>(slots_per_prompt), length);
  }
  capacity_ = prompts_.longest() + new_tokens;
  const auto slots = static_cast<int64_t>(lengths_.size());
  for (int64_t i = 0; i < model.layer_count(); ++i) {
    cache_.push_back(at::empty({slots * capacity_, 2 * model.key_heads() * model.head_width()},
                               at::TensorOptions(model.device()).dtype(compute)));
  }
}

// What is kept of each token, row by row of all slots.
std::vector<at::Tensor> Decoder::kept() const {
  std::vector<at::Tensor> all = cache_;
  if (inputs_.defined()) all.push_back(inputs_);
  return all;
}

at::Tensor Decoder::run(at::IntArrayRef tokens, at::IntArrayRef positions, const AttentionLayout& layout,
                        const std::vector<int64_t>& cache_rows) {
  const auto there = [&](at::IntArrayRef values) { return transformer::to_device(values, model_.device()); };
  const at::Tensor rows = there(cache_rows), places = there(positions);
  const at::Tensor x = model_.embed(there(tokens), places);
  if (model_.positions_change_after() > 0) {
    if (!inputs_.defined())
      inputs_ = at::empty({static_cast<int64_t>(lengths_.size()) * capacity_, x.size(1)}, x.options());
    inputs_.index_copy_(0, rows, x);
  }
  return run_layers(x, places, layout, rows);
}

// Runs the rows of these slots again, since their positions have changed. Gives the last row of each.
at::Tensor Decoder::run_again(const std::vector<int64_t>& slots) {
  std::vector<int64_t> positions, cache_rows, last;
  AttentionLayout layout;
  layout.heads = model_.heads();
  layout.key_heads = model_.key_heads();
  for (const int64_t slot : slots) {
    const int64_t length = lengths_[static_cast<size_t>(slot)];
    layout.queries.append(length);
    for (int64_t i = 0; i < length; ++i) {
      positions.push_back(i);
      cache_rows.push_back(slot * capacity_ + i);
    }
    last.push_back(static_cast<int64_t>(positions.size()) - 1);
  }
  layout.keys = layout.queries;
  const auto there = [&](at::IntArrayRef values) { return transformer::to_device(values, model_.device()); };
  const at::Tensor rows = there(cache_rows);
  return run_layers(inputs_.index_select(0, rows), there(positions), layout, rows)
      .index_select(0, there(last));
}

// Row n of the new keys and values goes to row rows[n] of the cache; then attention over `layout`, whose keys
// are either the rows themselves (same lengths) or the whole cache.
at::Tensor Decoder::run_layers(at::Tensor x, const at::Tensor& places, const AttentionLayout& layout,
                               const at::Tensor& rows) {
  const int64_t width = model_.heads() * model_.head_width(), keys = model_.key_heads() * model_.head_width();
  std::deque<AttentionLayout> kinds;  // whose tensors their layers share
  const auto of_layer = [&](size_t number) -> const AttentionLayout& {
    const AttentionLayout own = model_.attention(static_cast<int64_t>(number));
    for (const AttentionLayout& kind : kinds)
      if (kind.window == own.window && kind.scale == own.scale && kind.softcap == own.softcap) return kind;
    AttentionLayout kind = layout;
    kind.window = own.window, kind.scale = own.scale, kind.softcap = own.softcap;
    return kinds.emplace_back(transformer::shared_by_layers(std::move(kind)));
  };
  for (size_t i = 0; i < cache_.size(); ++i) {
    at::Tensor& cache = cache_[i];
    const AttentionLayout& uploaded = of_layer(i);
    x = model_.layer(static_cast<int64_t>(i), x, places, compute_, [&](const at::Tensor& qkv) {
      cache.index_copy_(0, rows, qkv.narrow(1, width, 2 * keys));
      if (layout.positions.empty()) return transformer::ragged_self_attention(qkv, uploaded);
      return transformer::ragged_attention(qkv.narrow(1, 0, width), cache.narrow(1, 0, keys),
                                           cache.narrow(1, keys, keys), uploaded);
    });
  }
  return x;
}

at::Tensor Decoder::prompt_logits() {
  const at::NoGradGuard no_grad;
  std::vector<int64_t> positions, cache_rows, last;
  for (int64_t p = 0; p < prompts_.sequences(); ++p) {
    for (int64_t i = 0; i < prompts_.length(p); ++i) {
      positions.push_back(i);
      cache_rows.push_back(p * slots_per_prompt_ * capacity_ + i);
    }
    last.push_back(prompts_.start(p + 1) - 1);
  }
  AttentionLayout layout;
  layout.queries = layout.keys = prompts_;
  layout.heads = model_.heads();
  layout.key_heads = model_.key_heads();
  const at::Tensor x = run(prompt_tokens_, positions, layout, cache_rows);
  for (const at::Tensor& cache : kept()) {  // the other slots start from the same keys and values
    for (int64_t p = 0; p < prompts_.sequences(); ++p) {
      const int64_t first = p * slots_per_prompt_;
      for (int64_t s = 1; s < slots_per_prompt_; ++s) {
        cache.narrow(0, (first + s) * capacity_, prompts_.length(p))
            .copy_(cache.narrow(0, first * capacity_, prompts_.length(p)));
      }
    }
  }
  return model_.logits_of(x.index_select(0, transformer::to_device(last, model_.device())), compute_);
}

at::Tensor Decoder::append(std::span<const int64_t> slots, std::span<const int64_t> tokens) {
  const at::NoGradGuard no_grad;
  AttentionLayout layout;
  layout.heads = model_.heads();
  layout.key_heads = model_.key_heads();
  layout.decoding = true;
  std::vector<int64_t> cache_rows, grown, grown_rows;  // grown: slots that pass positions_change_after()
  size_t next = 0;
  for (int64_t slot = 0; slot < static_cast<int64_t>(lengths_.size()); ++slot) {
    layout.keys.append(capacity_);
    const bool active = next < slots.size() && slots[next] == slot;
    layout.queries.append(active ? 1 : 0);  // a slot that rests has no query
    if (!active) continue;
    int64_t& length = lengths_[static_cast<size_t>(slot)];
    TORCH_CHECK(length < capacity_, "slot ", slot, " is full: ", capacity_, " tokens");
    layout.positions.push_back(length);
    cache_rows.push_back(slot * capacity_ + length);
    if (length == model_.positions_change_after() && length > 0) {
      grown.push_back(slot);
      grown_rows.push_back(static_cast<int64_t>(next));
    }
    ++length;
    ++next;
  }
  TORCH_CHECK(next == slots.size() && tokens.size() == slots.size(), "append: ", slots.size(), " slots, ",
              tokens.size(), " tokens; slots must be below ", lengths_.size(), " and ascend");
  at::Tensor x = run({tokens.data(), tokens.size()}, layout.positions, layout, cache_rows);
  if (!grown.empty()) x.index_copy_(0, transformer::to_device(grown_rows, model_.device()), run_again(grown));
  return model_.logits_of(x, compute_);
}

void Decoder::reorder(int64_t prompt, std::span<const int64_t> from) {
  const int64_t first = prompt * slots_per_prompt_;
  bool same = true;
  for (size_t i = 0; i < from.size(); ++i) same = same && from[i] == static_cast<int64_t>(i);
  if (same) return;
  const int64_t longest =
      *std::max_element(lengths_.begin() + first, lengths_.begin() + first + slots_per_prompt_);
  const at::Tensor index = transformer::to_device({from.data(), from.size()}, cache_.front().device());
  // The prompt's rows are the same in all its slots, but for one that rested when its positions changed.
  const int64_t start = inputs_.defined() ? 0 : prompts_.length(prompt);
  for (const at::Tensor& cache : kept()) {
    const at::Tensor written = cache.narrow(0, first * capacity_, slots_per_prompt_ * capacity_)
                                   .view({slots_per_prompt_, capacity_, -1})
                                   .narrow(1, start, longest - start);
    written.copy_(written.index_select(0, index));
  }
  std::vector<int64_t> lengths;
  for (const int64_t slot : from) lengths.push_back(lengths_[static_cast<size_t>(first + slot)]);
  std::copy(lengths.begin(), lengths.end(), lengths_.begin() + first);
}

}  // namespace pipeline::generation
