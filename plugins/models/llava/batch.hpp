// Samples as batches: turns with pictures in their places, each of them one square or several, whose features
// take rows of the sequence.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/data/images/tiles.hpp"
#include "plugins/models/chat/sequence.hpp"
#include "plugins/models/llava/vlm.hpp"

namespace pipeline::llava {

// A picture of some size.
struct PictureShape {
  int64_t squares = 1;          // of the picture, which the encoder sees
  vision::PatchGrid patches;    // NaFlex's: those squares
  std::vector<int64_t> tokens;  // what the picture takes, kPatch for a row of features
  std::vector<int64_t>
      arranged;  // those rows: each one of the squares' rows, or kNewline; empty: all, in order
};

// The tokens of words around pictures, of which each <image> is kPatch.
using PictureWords = std::function<std::vector<int64_t>(const std::string& text)>;

class PictureLayout {
 public:
  // `side`: rows of features along a square's side; `registers`: before these. `words`: of Idefics3, which
  // says of each square where it is; null: nothing stands around pictures.
  PictureLayout(images::TileOptions tiles, int64_t side, PictureWords words = nullptr, int64_t registers = 0)
      : tiles_(std::move(tiles)), side_(side), registers_(registers), words_(std::move(words)) {}

  PictureShape of(int64_t width, int64_t height) const;
  // The most rows of features that a picture may have.
  int64_t most_rows() const;

 private:
  int64_t in_square() const { return registers_ + side_ * side_; }

  images::TileOptions tiles_;
  int64_t side_, registers_;
  PictureWords words_;
};

// A picture of a sample as the model is given it.
struct SamplePicture {
  PictureShape shape;
  files::Hash128 key;         // with a cache of features
  PictureFeatures features;   // from there, or the picture's size alone
  std::vector<float> pixels;  // (squares, 3, S, S), where these are not

  int64_t rows() const;  // of features
  bool is_known() const { return features.squares.defined(); }
};

struct SampleOfBatch {
  size_t first = 0, pictures = 0;  // among those of the batch
  bool is_broken = false;          // one of its pictures cannot be used, and it has none
};

// What the samples of a batch have of pictures.
struct PicturesOfBatch {
  std::vector<SampleOfBatch> samples;
  chat::PictureTokens tokens;  // of each picture

  // The tokens of a sample's pictures.
  chat::PictureTokens tokens_of(size_t sample) const;
  // The rows of Vlm::features() that its first `count` pictures have.
  void append_rows(size_t sample, size_t count, std::vector<int64_t>& rows) const;
};

class BatchBuilder {
 public:
  // `side`: of a square, which has so many `rows` of features. `keeps_all`: also those pictures that a
  // sequence was cut before, for prompts.
  BatchBuilder(int64_t side, int64_t rows, bool has_cache, bool keeps_all)
      : side_(side), of_square_(rows), has_cache_(has_cache), keeps_all_(keeps_all) {}

  // The sequence is of the tokens of these pictures, or of the first few of them.
  void add(chat::Sequence&& sequence, std::vector<SamplePicture>&& pictures, bool is_broken);

  void finish(VlmBatch& batch, PicturesOfBatch& pictures);

 private:
  int64_t side_, of_square_;
  bool has_cache_, keeps_all_;
  PicturesOfBatch of_samples_;
  std::vector<std::vector<int64_t>> tokens_, targets_;
  std::vector<SamplePicture> pictures_;
  std::vector<int64_t> picture_rows_, shown_;  // as in VlmBatch
  int64_t rows_ = 0, features_ = 0;            // of sequences, of features until now
};

}  // namespace pipeline::llava
