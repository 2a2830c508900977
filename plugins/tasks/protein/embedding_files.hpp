// Embeddings as files that grow with a prediction, in safetensors' format (its header is a JSON object of
// names, shapes and places, padded to 8 bytes, with its size in front; then the values, little-endian).
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/task_types.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "core/base/descriptor.hpp"
#include "plugins/data/proteins/dataset.hpp"

namespace pipeline::tasks::protein {

// What is said of embeddings in the files' metadata.
using Metadata = std::map<std::string, std::string>;

// "embeddings.safetensors": `embeddings` (samples, C) fp32, in the order of the prediction's table.
class ChainEmbeddings {
 public:
  static constexpr const char* kFile = "embeddings.safetensors";

  ChainEmbeddings(uint64_t samples, int64_t width, Metadata metadata)
      : samples_(samples), width_(width), metadata_(std::move(metadata)) {}

  // embedding: (C) fp32, of sample `id`.
  void add(uint64_t id, const at::Tensor& embedding, const PredictionSink& sink) const;

 private:
  uint64_t samples_;
  int64_t width_;
  Metadata metadata_;
};

// "residue-embeddings-00001-of-00003.safetensors" and so on: for each sample (residues, C) fp32, by the name
// that its other files begin with. A file has 10,000 samples at most, and values of 4 GiB, but for one that
// has more by itself.
class ResidueEmbeddings {
 public:
  ResidueEmbeddings(const proteins::Dataset& dataset, Split split, int64_t width, Metadata metadata);

  // embeddings: (residues, C) fp32, of sample `id`.
  void add(uint64_t id, const at::Tensor& embeddings, const PredictionSink& sink) const;
  // Of each file its name, its first sample, and that behind its last.
  using Part = std::pair<std::string, std::pair<uint64_t, uint64_t>>;
  std::vector<Part> parts() const;

 private:
  std::string name(size_t file) const;
  std::string header(size_t file) const;

  const proteins::Dataset& dataset_;
  Split split_;
  int64_t width_;
  Metadata metadata_;
  std::vector<uint64_t> begins_;  // of each file the first sample, and behind the last the number of samples
};

// The vectors in such a file, one after another.
class ValueReader {
 public:
  // Throws files::DataError.
  ValueReader(const std::string& path, int64_t width);

  // Vectors first .. first + count - 1: (count, C).
  void read(uint64_t first, uint64_t count, float* into) const;

 private:
  std::string path_;
  Descriptor file_;
  uint64_t begin_, bytes_;  // of the values; of a vector
};

// The same as Parquet in `folder`: "embeddings.parquet", a row for each sample, and
// "residue-embeddings.parquet", a row for each residue. Throw files::DataError.
void write_chain_parquet(const proteins::Dataset& dataset, Split split, int64_t width,
                         const std::filesystem::path& folder);
void write_residue_parquet(const proteins::Dataset& dataset, Split split, int64_t width,
                           const std::filesystem::path& folder);

}  // namespace pipeline::tasks::protein
