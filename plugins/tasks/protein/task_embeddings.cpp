#include <algorithm>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <pipeline/numbers.hpp>

#include "plugins/data/files/data_errors.hpp"
#include "plugins/scores/figures/embedding_map.hpp"
#include "plugins/tasks/protein/embedding_files.hpp"
#include "plugins/tasks/protein/pack.hpp"
#include "plugins/tasks/protein/task.hpp"

namespace pipeline::tasks::protein {

namespace {

std::span<const float> numbers_of(const at::Tensor& contiguous) {
  return {contiguous.const_data_ptr<float>(), static_cast<size_t>(contiguous.numel())};
}

}  // namespace

int64_t ProteinTask::embedded_layer() {
  const int64_t layer = config().predict.layer < 0 ? model().layers() : config().predict.layer;
  if (layer > model().layers())
    config_error("predict.layer", concat("must be at most ", model().layers(), ", the model's layers"));
  return layer;
}

// Whole samples, many in a forward pass, each a sequence of its own.
void ProteinTask::embed(const ProteinBatch& batch, const PredictionSink& sink) {
  const int64_t layer = embedded_layer();
  const auto rows_of = [&](size_t i) { return int64_t{dataset_->row(batch.split, batch.ids[i]).residues}; };
  in_passes(batch.ids.size(), rows_of, [&](size_t begin, size_t end) {
    Packer packer(packing());
    for (size_t i = begin; i < end; ++i) {
      const proteins::Sample sample = dataset_->sample(batch.split, batch.ids[i]);
      packer.add(sample, all_rows(sample), proteins::nothing_masked(sample.codes));
    }
    const PackedProteins packed = batch_on(device(), packer.finish());
    const pipeline::protein::Embeddings embeddings = model().embeddings(packed, pass(), layer);
    const at::Tensor residues = embeddings.residues.to(at::kCPU).contiguous(),
                     chains = embeddings.chains.defined() ? embeddings.chains.to(at::kCPU) : at::Tensor();
    int64_t chain = 0;
    for (size_t i = begin; i < end; ++i) {
      const uint64_t id = batch.ids[i];
      const int64_t count = dataset_->row(batch.split, id).chains;
      const auto at = static_cast<int64_t>(i - begin);
      const at::Tensor own = residues.narrow(0, packed.sequences.start(at), packed.sequences.length(at));
      require_numbers(numbers_of(own), dataset_->name(batch.split, id), "embedding");
      if (config().predict.wants("embeddings")) {
        if (!chain_files_)
          chain_files_.emplace(dataset_->size(batch.split), model().width(), metadata(layer));
        const bool by_mean = config().predict.pooling == "mean";
        if (!by_mean && !chains.defined())
          config_error("predict.pooling", "= \"cls\": the encoder-decoder has no such token: use \"mean\"");
        chain_files_->add(id, (by_mean ? own : chains.narrow(0, chain, count)).mean(0), sink);
      }
      if (config().predict.wants("residue_embeddings")) {
        if (!residue_files_) residue_files_.emplace(*dataset_, batch.split, model().width(), metadata(layer));
        residue_files_->add(id, own, sink);
      }
      chain += count;
    }
  });
}

void ProteinTask::finish_predictions(Split split, const std::filesystem::path& folder,
                                     const PredictionSink& sink) {
  const PredictConfig& options = config().predict;
  if (!options.mutations.empty()) finish_variants(split, folder, sink);
  const int64_t width = model().width();
  const auto as_parquet = [&](const char* file, const auto& write) {
    if (!options.has_format("parquet")) return;
    sink.file(0, file, "");
    files::with_data_errors([&] { write(*dataset_, split, width, folder); });
  };
  if (options.wants("embeddings")) {
    if (options.pictures) draw_map(split, folder, sink);
    as_parquet("embeddings.parquet", write_chain_parquet);
    if (!options.has_format("safetensors")) std::filesystem::remove(folder / ChainEmbeddings::kFile);
  }
  if (options.wants("residue_embeddings")) {
    as_parquet("residue-embeddings.parquet", write_residue_parquet);
    for (const auto& [file, ids] : ResidueEmbeddings(*dataset_, split, width, {}).parts())
      if (!options.has_format("safetensors")) std::filesystem::remove(folder / file);
  }
}

// Of many samples some, evenly spaced.
void ProteinTask::draw_map(Split split, const std::filesystem::path& folder, const PredictionSink& sink) {
  constexpr uint64_t kMostPoints = 3000, kFewest = 3;
  const uint64_t samples = dataset_->size(split), points = std::min(samples, kMostPoints);
  if (points < kFewest) return;
  figures::EmbeddingMap map{
      .title = concat("embeddings of ", points == samples ? "" : concat(points, " of "), samples,
                      " proteins, by ", config().kind),
      .embeddings = at::empty({static_cast<int64_t>(points), model().width()}, at::kFloat),
      .names = {},
      .groups = {}};
  ValueReader values((folder / ChainEmbeddings::kFile).string(), model().width());
  for (uint64_t i = 0; i < points; ++i) {
    const uint64_t id = i * samples / points;
    values.read(id, 1, map.embeddings.select(0, static_cast<int64_t>(i)).data_ptr<float>());
    map.names.push_back(dataset_->name(split, id));
    map.groups.push_back(dataset_->group(split, id));
  }
  if (std::ranges::all_of(map.groups, [](const std::string& group) { return group.empty(); }))
    map.groups.clear();
  sink.file(0, "embeddings.svg", figures::draw(map));
}

Metadata ProteinTask::metadata(int64_t layer) const {
  return {{"model", config().kind},
          {"layer", std::to_string(layer)},
          {"pooling", config().predict.pooling},
          {"order", "of the prediction's table"}};
}

}  // namespace pipeline::tasks::protein
