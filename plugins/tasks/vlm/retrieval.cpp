#include "plugins/tasks/vlm/retrieval.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/log_softmax.h>

#include <algorithm>
#include <cmath>

#include "transformer/packed_batch.hpp"

namespace pipeline::vlm {

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

Recall recall_of(std::span<const float> scores, size_t pictures) {
  const size_t captions = pictures == 0 ? 0 : scores.size() / pictures;
  const auto score = [&](size_t picture, size_t caption) {
    return static_cast<double>(scores[picture * captions + caption]);
  };
  // log of the mean over pictures of a caption's likelihood
  std::vector<double> usual(captions);
  for (size_t c = 0; c < captions; ++c) {
    double most = score(0, c), sum = 0;
    for (size_t p = 1; p < pictures; ++p) most = std::max(most, score(p, c));
    for (size_t p = 0; p < pictures; ++p) sum += std::exp(score(p, c) - most);
    usual[c] = most + std::log(sum / static_cast<double>(pictures));
  }
  Recall recall;  // of NaN none is best
  for (size_t i = 0; i < pictures; ++i) {
    bool caption_is_best = true, picture_is_best = true;
    for (size_t j = 0; j < captions; ++j)
      if (j != i && !(score(i, j) - usual[j] < score(i, i) - usual[i])) caption_is_best = false;
    for (size_t j = 0; j < pictures; ++j)
      if (j != i && !(score(j, i) < score(i, i))) picture_is_best = false;
    recall.captions += caption_is_best;
    recall.pictures += picture_is_best;
  }
  if (pictures > 0) {
    recall.captions /= static_cast<double>(pictures);
    recall.pictures /= static_cast<double>(pictures);
  }
  return recall;
}

}  // namespace pipeline::vlm
