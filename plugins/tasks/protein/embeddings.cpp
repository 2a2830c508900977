// Predicted embeddings: files that grow, what is made of them at the end, and a picture.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <ATen/ops/empty.h>
#include <nlohmann/json.hpp>
#include <pipeline/numbers.hpp>

#include "core/base/descriptor.hpp"
#include "plugins/data/files/data_errors.hpp"
#include "plugins/data/files/error.hpp"
#include "plugins/data/files/hash128.hpp"
#include "plugins/data/files/regular_file.hpp"
#include "plugins/data/parquet/parquet_writer.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/scores/figures/embedding_map.hpp"
#include "plugins/tasks/protein/objective.hpp"
#include "plugins/tasks/protein/predictions.hpp"

namespace pipeline::tasks::protein {
namespace {

using Json = nlohmann::ordered_json;
// What is said of embeddings in the files' metadata.
using Metadata = std::map<std::string, std::string>;

constexpr const char* kChainFile = "embeddings.safetensors";
constexpr uint64_t kMostTensors = 10'000, kMostBytes = uint64_t{4} << 30;

std::string with_size(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  return std::string(files::bytes_of(uint64_t{text.size()})) + text;
}

Json tensor(std::initializer_list<int64_t> shape, uint64_t begin, uint64_t end) {
  return {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, end}}};
}

std::string_view bytes_of_values(const at::Tensor& values) {
  return {static_cast<const char*>(values.const_data_ptr()), values.nbytes()};
}

std::span<const float> numbers_of(const at::Tensor& contiguous) {
  return {contiguous.const_data_ptr<float>(), static_cast<size_t>(contiguous.numel())};
}

// The vectors in such a file, one after another.
class ValueReader {
 public:
  // Throws files::DataError.
  ValueReader(const std::string& path, int64_t width)
      : path_(path),
        file_(files::open_regular(path, O_RDONLY)),
        bytes_(static_cast<uint64_t>(width) * sizeof(float)) {
    uint64_t header = 0;
    if (!file_) throw files::system_error(path, "it was written a moment ago: check the disk");
    if (::pread(file_.fd(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header))
      throw files::DataError(path + ": has no header: start again");
    begin_ = sizeof header + header;
  }

  // Vectors first .. first + count - 1: (count, C).
  void read(uint64_t first, uint64_t count, float* into) const {
    auto* bytes = reinterpret_cast<char*>(into);
    uint64_t at = begin_ + first * bytes_;
    for (uint64_t left = count * bytes_; left > 0;) {
      const ssize_t got = ::pread(file_.fd(), bytes, left, static_cast<off_t>(at));
      if (got <= 0) throw files::DataError(path_ + ": is shorter than it was written: check the disk");
      bytes += got;
      at += static_cast<uint64_t>(got);
      left -= static_cast<uint64_t>(got);
    }
  }

 private:
  std::string path_;
  Descriptor file_;
  uint64_t begin_, bytes_;  // of the values; of a vector
};

// For each sample (residues, C) fp32, by the name that its other files begin with. A file has 10,000 samples
// at most, and values of 4 GiB, but for one that has more by itself.
class ResidueFiles {
 public:
  ResidueFiles(const proteins::Dataset& dataset, Split split, int64_t width, Metadata metadata)
      : dataset_(dataset), split_(split), width_(width), metadata_(std::move(metadata)) {
    uint64_t bytes = 0;
    const uint64_t samples = dataset_.size(split_);
    for (uint64_t id = 0; id < samples; ++id) {
      const uint64_t own = dataset_.row(split_, id).residues * static_cast<uint64_t>(width_) * sizeof(float);
      if (begins_.empty() || id - begins_.back() == kMostTensors || bytes + own > kMostBytes) {
        begins_.push_back(id);
        bytes = 0;
      }
      bytes += own;
    }
    begins_.push_back(samples);
  }
  // values: (residues, C) fp32, of sample `id`.
  void add(uint64_t id, const at::Tensor& values, const PredictionSink& sink) const {
    const auto file = static_cast<size_t>(std::ranges::upper_bound(begins_, id) - begins_.begin()) - 1;
    if (begins_[file] == id) sink.append(id, name(file), header(file));
    sink.append(id, name(file), bytes_of_values(values.contiguous()));
  }
  // Of each file its name, its first sample, and that behind its last.
  using Part = std::pair<std::string, std::pair<uint64_t, uint64_t>>;
  std::vector<Part> parts() const {
    std::vector<Part> parts;
    for (size_t file = 0; file + 1 < begins_.size(); ++file)
      parts.push_back({name(file), {begins_[file], begins_[file + 1]}});
    return parts;
  }

 private:
  std::string name(size_t file) const {
    std::array<char, 64> text;
    std::snprintf(text.data(), text.size(), "residue-embeddings-%05zu-of-%05zu.safetensors", file + 1,
                  begins_.size() - 1);
    return text.data();
  }
  std::string header(size_t file) const {
    Json json{{"__metadata__", metadata_}};
    uint64_t at = 0;
    for (uint64_t id = begins_[file]; id < begins_[file + 1]; ++id) {
      const int64_t residues = dataset_.row(split_, id).residues;
      const uint64_t bytes = static_cast<uint64_t>(residues * width_) * sizeof(float);
      json[dataset_.tensor(split_, id)] = tensor({residues, width_}, at, at + bytes);
      at += bytes;
    }
    return with_size(json);
  }

  const proteins::Dataset& dataset_;
  Split split_;
  int64_t width_;
  Metadata metadata_;
  std::vector<uint64_t> begins_;  // of each file the first sample, and behind the last the number of samples
};

void write_chain_parquet(const proteins::Dataset& dataset, Split split, int64_t width,
                         const std::filesystem::path& folder) {
  using Column = parquet::ParquetWriter::Column;
  const ValueReader values((folder / kChainFile).string(), width);
  parquet::ParquetWriter table((folder / "embeddings.parquet").string(),
                               {{.name = "id"},
                                {.name = "residues", .kind = Column::kInteger},
                                {.name = "embedding", .kind = Column::kVector, .width = width}});
  std::vector<float> vector(static_cast<size_t>(width));
  for (uint64_t id = 0; id < dataset.size(split); ++id) {
    values.read(id, 1, vector.data());
    table.text(dataset.name(split, id)).integer(dataset.row(split, id).residues).vector(vector.data());
    table.end_row();
  }
  table.finish();
}

void write_residue_parquet(const proteins::Dataset& dataset, Split split, int64_t width,
                           const std::filesystem::path& folder) {
  using Column = parquet::ParquetWriter::Column;
  const ResidueFiles files(dataset, split, width, {});
  parquet::ParquetWriter table((folder / "residue-embeddings.parquet").string(),
                               {{.name = "id"},
                                {.name = "chain"},
                                {.name = "number", .kind = Column::kInteger},
                                {.name = "insertion"},
                                {.name = "residue"},
                                {.name = "embedding", .kind = Column::kVector, .width = width}});
  std::vector<float> vectors;
  for (const auto& [name, ids] : files.parts()) {
    const ValueReader values((folder / name).string(), width);
    uint64_t first = 0;
    for (uint64_t id = ids.first; id < ids.second; ++id) {
      const proteins::Sample sample = dataset.sample(split, id);
      const std::vector<std::string> chains = dataset.chain_names(split, id);
      const std::string sample_name = dataset.name(split, id);
      vectors.resize(sample.size() * static_cast<size_t>(width));
      values.read(first, sample.size(), vectors.data());
      first += sample.size();
      for (size_t i = 0; i < sample.size(); ++i) {
        const char letter = residues::letter_of(sample.codes[i]);
        table.text(sample_name).text(chains[static_cast<size_t>(sample.chains[i])]).integer(sample.number(i));
        table.text(insertion_of(sample, i));
        table.text({&letter, 1}).vector(&vectors[i * static_cast<size_t>(width)]);
        table.end_row();
      }
    }
  }
  table.finish();
}

class Embeddings : public Prediction {
 public:
  using Prediction::Prediction;

  // Whole samples, many in a forward pass, each a sequence of its own.
  void predict(const ProteinBatch& batch, const Inference& inference, const PredictionSink& sink) override {
    const int64_t layer = layer_of(inference.model);
    const bool by_mean = options().pooling == "mean";
    const bool wants_samples = options().wants("embeddings");
    if (options().wants("residue_embeddings") && !residue_files_)
      residue_files_.emplace(dataset_, batch.split, inference.model.width(), metadata(layer));
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
      int64_t chain = 0;
      for (size_t i = begin; i < end; ++i) {
        const uint64_t id = batch.ids[i];
        const int64_t count = dataset_.row(batch.split, id).chains;
        const auto at = static_cast<int64_t>(i - begin);
        const at::Tensor own = residues.narrow(0, packed.sequences.start(at), packed.sequences.length(at));
        require_numbers(numbers_of(own), dataset_.name(batch.split, id), "embedding");
        if (wants_samples) {
          if (!by_mean && !chains.defined())
            setting_.errors("predict.pooling",
                            "= \"cls\": the encoder-decoder has no such token: use \"mean\"");
          add(batch.split, id, (by_mean ? own : chains.narrow(0, chain, count)).mean(0), layer, sink);
        }
        if (residue_files_) residue_files_->add(id, own, sink);
        chain += count;
      }
    });
  }
  void finish(Split split, const std::filesystem::path& folder, const Inference& inference,
              const PredictionSink& sink) override {
    const int64_t width = inference.model.width();
    const auto as_parquet = [&](const char* file, const auto& write) {
      if (!options().has_format("parquet")) return;
      sink.file(0, file, "");
      files::with_data_errors([&] { write(dataset_, split, width, folder); });
    };
    if (options().wants("embeddings")) {
      if (options().pictures) draw_map(split, folder, width, sink);
      as_parquet("embeddings.parquet", write_chain_parquet);
      if (!options().has_format("safetensors")) std::filesystem::remove(folder / kChainFile);
    }
    if (options().wants("residue_embeddings")) {
      as_parquet("residue-embeddings.parquet", write_residue_parquet);
      for (const auto& [file, ids] : ResidueFiles(dataset_, split, width, {}).parts())
        if (!options().has_format("safetensors")) std::filesystem::remove(folder / file);
    }
  }

 private:
  int64_t layer_of(const pipeline::protein::ProteinModel& model) const {
    const int64_t layer = options().layer < 0 ? model.layers() : options().layer;
    if (layer > model.layers())
      setting_.errors("predict.layer", concat("must be at most ", model.layers(), ", the model's layers"));
    return layer;
  }
  Metadata metadata(int64_t layer) const {
    return {{"model", setting_.config.kind},
            {"layer", std::to_string(layer)},
            {"pooling", options().pooling},
            {"order", "of the prediction's table"}};
  }
  // To the file of samples: `embeddings` (samples, C) fp32, in the order of the prediction's table.
  // embedding: (C), of sample `id`.
  void add(Split split, uint64_t id, const at::Tensor& embedding, int64_t layer,
           const PredictionSink& sink) const {
    const auto samples = static_cast<int64_t>(dataset_.size(split));
    const int64_t width = embedding.numel();
    if (id == 0)
      sink.append(
          id, kChainFile,
          with_size({{"__metadata__", metadata(layer)},
                     {"embeddings",
                      tensor({samples, width}, 0, static_cast<uint64_t>(samples * width) * sizeof(float))}}));
    sink.append(id, kChainFile, bytes_of_values(embedding.contiguous()));
  }
  // Of many samples some, evenly spaced.
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
    ValueReader values((folder / kChainFile).string(), width);
    for (uint64_t i = 0; i < points; ++i) {
      const uint64_t id = i * samples / points;
      values.read(id, 1, map.embeddings.select(0, static_cast<int64_t>(i)).data_ptr<float>());
      map.names.push_back(dataset_.name(split, id));
      map.groups.push_back(dataset_.group(split, id));
    }
    if (std::ranges::all_of(map.groups, [](const std::string& group) { return group.empty(); }))
      map.groups.clear();
    sink.file(0, "embeddings.svg", figures::draw(map));
  }

  std::optional<ResidueFiles> residue_files_;  // once the first is predicted
};

}  // namespace

std::unique_ptr<Prediction> embeddings(const Setting& setting, const proteins::Dataset& dataset) {
  return std::make_unique<Embeddings>(setting, dataset);
}

}  // namespace pipeline::tasks::protein
