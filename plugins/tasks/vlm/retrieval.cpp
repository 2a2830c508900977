#include "plugins/tasks/vlm/retrieval.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/log_softmax.h>

#include <algorithm>
#include <cmath>

#include "transformer/packed_batch.hpp"

namespace pipeline::tasks::vlm {

std::vector<float> caption_scores(const generation::DecoderModel& model, const std::vector<int64_t>& prompt,
                                  const std::vector<std::vector<int64_t>>& captions, at::ScalarType compute) {
  size_t longest = 0;
  for (const auto& caption : captions) longest = std::max(longest, caption.size());
  // The picture is seen once; each caption then goes on from there in a slot of its own.
  generation::Decoder decoder(model, {prompt}, static_cast<int64_t>(captions.size()),
                              static_cast<int64_t>(longest), compute);
  std::vector<double> sums(captions.size(), 0);
  std::vector<int64_t> slots(captions.size());
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i);
  at::Tensor log_p =
      at::log_softmax(decoder.prompt_logits(), 1).expand({static_cast<int64_t>(slots.size()), -1});
  for (size_t at = 0; !slots.empty(); ++at) {
    std::vector<int64_t> tokens;
    for (const int64_t slot : slots) tokens.push_back(captions[static_cast<size_t>(slot)][at]);
    const at::Tensor chosen = log_p.gather(1, transformer::to_device(tokens, model.device()).unsqueeze(1))
                                  .squeeze(1)
                                  .to(at::kCPU)
                                  .contiguous();
    for (size_t i = 0; i < slots.size(); ++i)
      sums[static_cast<size_t>(slots[i])] += chosen.const_data_ptr<float>()[i];
    std::vector<int64_t> left, next;
    for (size_t i = 0; i < slots.size(); ++i) {
      if (at + 1 >= captions[static_cast<size_t>(slots[i])].size()) continue;
      left.push_back(slots[i]);
      next.push_back(tokens[i]);
    }
    slots = std::move(left);
    if (!slots.empty()) log_p = at::log_softmax(decoder.append(slots, next), 1);
  }
  return {sums.begin(), sums.end()};
}

}  // namespace pipeline::tasks::vlm
