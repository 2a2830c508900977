// Predicted embeddings, and a picture of them.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <pipeline/numbers.hpp>

#include "plugins/data/files/data_errors.hpp"
#include "plugins/data/parquet/parquet_file.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/scores/figures/embedding_map.hpp"
#include "plugins/tasks/common/vector_files.hpp"
#include "plugins/tasks/protein/objective.hpp"
#include "plugins/tasks/protein/predictions.hpp"

namespace pipeline::tasks::protein {
namespace {

std::span<const float> numbers_of(const at::Tensor& contiguous) {
  return {contiguous.const_data_ptr<float>(), static_cast<size_t>(contiguous.numel())};
}

class Embeddings : public Prediction {
 public:
  using Prediction::Prediction;

  // Predicts whole samples, many in a forward pass, each a sequence of its own.
  void predict(const ProteinBatch& batch, const Inference& inference, const PredictionSink& sink) override {
    const int64_t layer = layer_of(inference.model);
    const bool by_mean = options().pooling == "mean";
    open_files(batch.split, inference.model);
    const auto rows_of = [&](size_t i) { return int64_t{dataset_.row(batch.split, batch.ids[i]).residues}; };
    inference.in_passes(batch.ids.size(), rows_of, [&](size_t begin, size_t end) {
      Packer packer(packing_of(setting_.config));
      for (size_t i = begin; i < end; ++i) {
        const proteins::Sample sample = dataset_.sample(batch.split, batch.ids[i]);
        packer.add(sample, all_rows(sample), proteins::nothing_masked(sample.codes));
      }
      const PackedProteins packed = batch_on(inference.device, packer.finish());
      const pipeline::protein::Embeddings embedded =
          inference.model.embeddings(packed, inference.pass, layer);
      const at::Tensor residues = embedded.residues.to(at::kCPU).contiguous(),
                       chains = embedded.chains.defined() ? embedded.chains.to(at::kCPU) : at::Tensor();
      if (!of_samples_.empty() && !by_mean && !chains.defined())
        setting_.errors("predict.pooling", "= \"cls\": the encoder-decoder has no such token: use \"mean\"");
      int64_t chain = 0;
      for (size_t i = begin; i < end; ++i) {
        const uint64_t id = batch.ids[i];
        const int64_t count = dataset_.row(batch.split, id).chains;
        const auto at = static_cast<int64_t>(i - begin);
        const at::Tensor own = residues.narrow(0, packed.sequences.start(at), packed.sequences.length(at));
        require_numbers(numbers_of(own), dataset_.name(batch.split, id), "embedding");
        files::with_data_errors([&] {
          for (const auto& file : of_samples_)
            file->add(id, (by_mean ? own : chains.narrow(0, chain, count)).mean(0), sink);
          for (const auto& file : of_residues_) file->add(id, own, sink);
        });
        chain += count;
      }
    });
  }
  void finish(Split split, const std::filesystem::path& folder, const Inference& inference,
              const PredictionSink& sink) override {
    open_files(split, inference.model);
    if (!of_samples_.empty() && options().pictures)
      files::with_data_errors([&] { draw_map(split, folder, inference.model.width(), sink); });
  }

 private:
  using AllFiles = std::vector<std::unique_ptr<common::VectorFiles>>;

  int64_t layer_of(const pipeline::protein::ProteinModel& model) const {
    const int64_t layer = options().layer < 0 ? model.layers() : options().layer;
    if (layer > model.layers())
      setting_.errors("predict.layer", concat("must be at most ", model.layers(), ", the model's layers"));
    return layer;
  }
  void open_files(Split split, const pipeline::protein::ProteinModel& model) {
    if (!of_samples_.empty() || !of_residues_.empty()) return;
    using Column = parquet::ParquetWriter::Column;
    const auto residues = [this, split](uint64_t id) { return int64_t{dataset_.row(split, id).residues}; };
    common::Vectors what{.samples = dataset_.size(split),
                         .width = model.width(),
                         .name = "embeddings",
                         .metadata = {{"model", setting_.config.kind},
                                      {"layer", std::to_string(layer_of(model))},
                                      {"pooling", options().pooling},
                                      {"order", "of the prediction's table"}},
                         .columns = {{.name = "id"}, {.name = "residues", .kind = Column::kInteger}},
                         .add_rows = [this, split, residues](parquet::ParquetWriter& table, uint64_t id) {
                           table.text(dataset_.name(split, id)).integer(residues(id)).end_row();
                         }};
    open("embeddings", what, of_samples_);
    what.name = "residue-embeddings";
    what.rows = residues;
    what.tensor = [this, split](uint64_t id) { return dataset_.tensor(split, id); };
    what.columns = {{.name = "id"},
                    {.name = "chain"},
                    {.name = "number", .kind = Column::kInteger},
                    {.name = "insertion"},
                    {.name = "residue"}};
    what.add_rows = [this, split](parquet::ParquetWriter& table, uint64_t id) {
      add_residues(table, split, id);
    };
    open("residue_embeddings", what, of_residues_);
  }
  void open(const char* wanted, const common::Vectors& what, AllFiles& files) const {
    if (!options().wants(wanted)) return;
    for (const char* format : {"safetensors", "parquet"})
      if (options().has_format(format)) files.push_back(common::vector_files(format, what));
  }
  void add_residues(parquet::ParquetWriter& table, Split split, uint64_t id) const {
    const proteins::Sample sample = dataset_.sample(split, id);
    const std::vector<std::string> chains = dataset_.chain_names(split, id);
    for (size_t i = 0; i < sample.size(); ++i) {
      const char letter = residues::letter_of(sample.codes[i]);
      table.text(dataset_.name(split, id)).text(chains[static_cast<size_t>(sample.chains[i])]);
      table.integer(sample.number(i)).text(insertion_of(sample, i)).text({&letter, 1}).end_row();
    }
  }
  // Draws some samples, evenly spaced, where there are many.
  void draw_map(Split split, const std::filesystem::path& folder, int64_t width,
                const PredictionSink& sink) const {
    constexpr uint64_t kMostPoints = 3000, kFewest = 3;
    const uint64_t samples = dataset_.size(split), points = std::min(samples, kMostPoints);
    if (points < kFewest) return;
    figures::EmbeddingMap map{
        .title = concat("embeddings of ", points == samples ? "" : concat(points, " of "), samples,
                        " proteins, by ", setting_.config.kind),
        .embeddings = at::empty({static_cast<int64_t>(points), width}, at::kFloat),
        .names = {},
        .groups = {}};
    for (uint64_t i = 0; i < points; ++i) {
      const uint64_t id = i * samples / points;
      of_samples_.front()->read(folder, id,
                                map.embeddings.select(0, static_cast<int64_t>(i)).data_ptr<float>());
      map.names.push_back(dataset_.name(split, id));
      map.groups.push_back(dataset_.group(split, id));
    }
    if (std::ranges::all_of(map.groups, [](const std::string& group) { return group.empty(); }))
      map.groups.clear();
    sink.file(0, "embeddings.svg", figures::draw(map));
  }

  AllFiles of_samples_, of_residues_;  // in each format that is asked for
};

}  // namespace

std::unique_ptr<Prediction> embeddings(const Setting& setting, const proteins::Dataset& dataset) {
  return std::make_unique<Embeddings>(setting, dataset);
}

}  // namespace pipeline::tasks::protein
