// Predicted embeddings: a vector for each sample, one for each residue, and a picture of the former. Files
// grow with a prediction, in safetensors' format (its header is a JSON object of names, shapes and places,
// padded to 8 bytes, with its size in front; then the values, little-endian).
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "plugins/tasks/protein/objective.hpp"

namespace pipeline::tasks::protein {

// What is said of embeddings in the files' metadata.
using Metadata = std::map<std::string, std::string>;

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

class Embeddings {
 public:
  // dataset: it outlives the object.
  Embeddings(const Setting& setting, const proteins::Dataset& dataset)
      : setting_(setting), dataset_(dataset) {}

  // Whole samples, many in a forward pass, each a sequence of its own.
  void predict(const ProteinBatch& batch, const Inference& inference, const PredictionSink& sink);
  // Embeddings in other formats, and the picture. width: of the model.
  void finish(Split split, const std::filesystem::path& folder, int64_t width,
              const PredictionSink& sink) const;

 private:
  const PredictConfig& options() const { return setting_.config.predict; }
  int64_t layer_of(const pipeline::protein::ProteinModel& model) const;
  Metadata metadata(int64_t layer) const;
  // To "embeddings.safetensors": `embeddings` (samples, C) fp32, in the order of the prediction's table.
  // embedding: (C), of sample `id`.
  void add(Split split, uint64_t id, const at::Tensor& embedding, int64_t layer,
           const PredictionSink& sink) const;
  void draw_map(Split split, const std::filesystem::path& folder, int64_t width,
                const PredictionSink& sink) const;

  const Setting& setting_;
  const proteins::Dataset& dataset_;
  std::optional<ResidueEmbeddings> residue_files_;  // once the first is predicted
};

}  // namespace pipeline::tasks::protein
