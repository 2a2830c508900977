#include "plugins/models/llava/batch.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>

#include <pipeline/error.hpp>

#include "plugins/models/chat/chat_format.hpp"

namespace pipeline::llava {
namespace {

using chat::ChatTokens;
using images::Grid;

// The part of a side of `patches` that a picture has in it where the other one is full; what is left on both
// ends is equal. Source: unpad_image() of transformers' modeling_llava_next.py, with its rounding.
struct Filled {
  int64_t from = 0, to;
  Filled(int64_t patches, int64_t side, double scale) : to(patches) {
    const auto filled = static_cast<int64_t>(std::nearbyint(static_cast<double>(side) * scale * 1e7) / 1e7);
    from = (patches - filled) / 2;
    to = patches - from;
  }
  explicit Filled(int64_t patches) : to(patches) {}
};

// The whole, then the grid's patches line by line across its tiles, without those that the picture does not
// reach, and after each line the newline.
std::vector<int64_t> arranged(const Grid& grid, int64_t patches, int64_t width, int64_t height) {
  const int64_t in_square = patches * patches, rows = grid.rows * patches, columns = grid.columns * patches;
  const double picture = static_cast<double>(width) / static_cast<double>(height),
               whole = static_cast<double>(columns) / static_cast<double>(rows);
  const bool is_wide = picture > whole;
  const Filled y = is_wide ? Filled(rows, height, static_cast<double>(columns) / static_cast<double>(width))
                           : Filled(rows);
  const Filled x = is_wide ? Filled(columns)
                           : Filled(columns, width, static_cast<double>(rows) / static_cast<double>(height));
  std::vector<int64_t> result;
  for (int64_t patch = 0; patch < in_square; ++patch) result.push_back(patch);
  for (int64_t row = y.from; row < y.to; ++row) {
    for (int64_t column = x.from; column < x.to; ++column) {
      const int64_t tile = 1 + row / patches * grid.columns + column / patches;
      result.push_back(tile * in_square + row % patches * patches + column % patches);
    }
    result.push_back(kNewline);
  }
  return result;
}

// What Idefics3Processor of transformers writes, with one <image> for each square.
std::string words_of(const Grid& grid) {
  const std::string around = "<fake_token_around_image>", whole = around + "<global-img><image>" + around;
  if (grid.tiles() == 0) return whole;
  std::string text;
  for (int64_t row = 1; row <= grid.rows; ++row) {
    for (int64_t column = 1; column <= grid.columns; ++column)
      text += concat(around, "<row_", row, "_col_", column, "><image>");
    text += "\n";
  }
  return text + "\n" + whole;
}

int64_t features_in(const std::vector<int64_t>& tokens) {
  return std::count(tokens.begin(), tokens.end(), ChatTokens::kPatch);
}

}  // namespace

PictureShape PictureLayout::of(int64_t width, int64_t height) const {
  PictureShape shape;
  const Grid grid = images::grid_of(tiles_, width, height);
  const auto in_square = static_cast<size_t>(this->in_square());
  shape.squares = 1 + grid.tiles();
  if (tiles_.max_patches > 0) {
    shape.squares = grid.tiles();
    shape.patches = {.rows = grid.rows, .columns = grid.columns};
  }
  if (words_) {
    for (const int64_t token : words_(words_of(grid)))
      shape.tokens.insert(shape.tokens.end(), token == ChatTokens::kPatch ? in_square : 1, token);
    return shape;
  }
  if (!tiles_.grids.empty()) shape.arranged = arranged(grid, side_, width, height);
  const size_t rows =
      shape.arranged.empty() ? static_cast<size_t>(shape.squares) * in_square : shape.arranged.size();
  shape.tokens.assign(rows, ChatTokens::kPatch);
  return shape;
}

int64_t PictureLayout::most_rows() const {
  if (tiles_.max_patches > 0) return tiles_.max_patches;
  int64_t most = in_square();
  if (tiles_.longest_edge > 0)  // a picture as high as wide has most
    most *= 1 + images::grid_of(tiles_, tiles_.longest_edge, tiles_.longest_edge).tiles();
  for (const Grid& grid : tiles_.grids)
    most = std::max(most, side_ * side_ + grid.rows * side_ * (grid.columns * side_ + 1));
  return most;
}

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

void BatchBuilder::finish(VlmBatch& batch, PicturesOfBatch& pictures) {
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
      arranged.push_back(row == kNewline ? rows + batch.newlines++ : first + row);
    for (int64_t row = 0; picture.shape.arranged.empty() && row < picture.shape.squares * of_square_; ++row)
      arranged.push_back(first + row);
  }
  if (!known.empty()) batch.known = at::cat(known);
  if (is_arranged) batch.arranged = at::tensor(arranged, at::kLong);
}

}  // namespace pipeline::llava
