#include "plugins/tasks/vlm/batch.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <utility>

#include <pipeline/error.hpp>

namespace pipeline::tasks::vlm {
namespace {

using chat::ChatTokens;

int64_t features_in(const std::vector<int64_t>& tokens) {
  return std::count(tokens.begin(), tokens.end(), ChatTokens::kPatch);
}

}  // namespace

int64_t SamplePicture::rows() const { return features_in(shape.tokens); }

chat::PictureTokens PicturesOfBatch::tokens_of(size_t sample) const {
  const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(samples[sample].first);
  return {first, first + static_cast<std::ptrdiff_t>(samples[sample].pictures)};
}

void PicturesOfBatch::append_rows(size_t sample, size_t count, std::vector<int64_t>& rows) const {
  int64_t row = 0;
  for (size_t i = 0; i < samples[sample].first + count; ++i) {
    const int64_t end = row + features_in(tokens[i]);
    for (; row < end; ++row)
      if (i >= samples[sample].first) rows.push_back(row);
  }
}

void BatchBuilder::add(chat::Sequence&& sequence, std::vector<SamplePicture>&& pictures, bool is_broken) {
  int64_t left = features_in(sequence.tokens);
  size_t in_sequence = 0;
  for (; in_sequence < pictures.size() && left > 0; ++in_sequence) left -= pictures[in_sequence].rows();
  if (left != 0)
    fail("a sequence has ", left, " rows of features more than its pictures: it is cut within one");
  if (!keeps_all_) pictures.resize(in_sequence);
  of_samples_.samples.push_back(
      {.first = pictures_.size(), .pictures = pictures.size(), .is_broken = is_broken});

  int64_t feature = features_;
  for (int64_t& token : sequence.tokens) {
    if (token == ChatTokens::kPatch) {
      picture_rows_.push_back(rows_);
      shown_.push_back(feature++);
      token = 0;
    }
    ++rows_;
  }
  for (SamplePicture& picture : pictures) {
    features_ += picture.rows();
    of_samples_.tokens.push_back(picture.shape.tokens);
    pictures_.push_back(std::move(picture));
  }
  tokens_.push_back(std::move(sequence.tokens));
  targets_.push_back(std::move(sequence.targets));
}

void BatchBuilder::finish(llava::VlmBatch& batch, PicturesOfBatch& pictures) {
  batch.packed = transformer::pack(tokens_, targets_);
  pictures = std::move(of_samples_);
  if (pictures_.empty()) return;
  batch.picture_rows = at::tensor(picture_rows_, at::kLong);
  if (static_cast<int64_t>(shown_.size()) != features_) batch.shown = at::tensor(shown_, at::kLong);

  int64_t decoded = 0, found = 0, squares = 0;
  for (const SamplePicture& picture : pictures_)
    (picture.is_known() ? found : decoded) += picture.shape.squares;
  const bool is_arranged = std::any_of(pictures_.begin(), pictures_.end(),
                                       [](const auto& p) { return !p.shape.arranged.empty(); });
  const int64_t rows = (decoded + found) * of_square_;
  std::vector<int64_t> arranged;
  std::vector<at::Tensor> known;
  if (decoded > 0) batch.pixels = at::empty({decoded, 3, side_, side_}, at::kFloat);
  decoded = found = 0;
  for (SamplePicture& picture : pictures_) {
    const bool is_known = picture.is_known();
    if (has_cache_)
      batch.cached.push_back({.key = picture.key,
                              .width = picture.features.width,
                              .height = picture.features.height,
                              .squares = picture.shape.squares,
                              .place = is_known ? -found - 1 : decoded});
    if (is_known)
      known.push_back(picture.features.squares);
    else
      std::copy(picture.pixels.begin(), picture.pixels.end(),
                batch.pixels.mutable_data_ptr<float>() + decoded * 3 * side_ * side_);
    (is_known ? found : decoded) += picture.shape.squares;
    if (picture.shape.patches.patches() > 0) batch.patches.push_back(picture.shape.patches);
    const int64_t first = squares * of_square_;
    squares += picture.shape.squares;
    if (!is_arranged) continue;
    for (const int64_t row : picture.shape.arranged)
      arranged.push_back(row == llava::kNewline ? rows + batch.newlines++ : first + row);
    for (int64_t row = 0; picture.shape.arranged.empty() && row < picture.shape.squares * of_square_; ++row)
      arranged.push_back(first + row);
  }
  if (!known.empty()) batch.known = at::cat(known);
  if (is_arranged) batch.arranged = at::tensor(arranged, at::kLong);
}

}  // namespace pipeline::tasks::vlm
