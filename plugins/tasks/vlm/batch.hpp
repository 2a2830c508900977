// Samples as batches: turns with pictures in their places, each of them one square or several, whose features
// take rows of the sequence.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "plugins/models/chat/sequence.hpp"
#include "plugins/models/llava/vlm.hpp"
#include "plugins/tasks/vlm/picture_layout.hpp"

namespace pipeline::tasks::vlm {

// A picture of a sample as the model is given it.
struct SamplePicture {
  PictureShape shape;
  files::Hash128 key;               // with a cache of features
  llava::PictureFeatures features;  // from there, or the picture's size alone
  std::vector<float> pixels;        // (squares, 3, S, S), where these are not

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

  void finish(llava::VlmBatch& batch, PicturesOfBatch& pictures);

 private:
  int64_t side_, of_square_;
  bool has_cache_, keeps_all_;
  PicturesOfBatch of_samples_;
  std::vector<std::vector<int64_t>> tokens_, targets_;
  std::vector<SamplePicture> pictures_;
  std::vector<int64_t> picture_rows_, shown_;  // as in VlmBatch
  int64_t rows_ = 0, features_ = 0;            // of sequences, of features until now
};

}  // namespace pipeline::tasks::vlm
