// Predicted embeddings: files that grow, and a picture of them.
#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fcntl.h>

#include <ATen/ops/empty.h>
#include <nlohmann/json.hpp>
#include <pipeline/numbers.hpp>

#include "core/base/descriptor.hpp"
#include "plugins/data/files/data_errors.hpp"
#include "plugins/data/files/error.hpp"
#include "plugins/data/files/hash128.hpp"
#include "plugins/data/files/regular_file.hpp"
#include "plugins/data/parquet/parquet_file.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/scores/figures/embedding_map.hpp"
#include "plugins/tasks/protein/objective.hpp"
#include "plugins/tasks/protein/predictions.hpp"

namespace pipeline::tasks::protein {
namespace {

using Json = nlohmann::ordered_json;
// What is said of embeddings in the files' metadata.
using Metadata = std::map<std::string, std::string>;

constexpr uint64_t kMostTensors = 10'000, kMostBytes = uint64_t{4} << 30,  // of a file with many tensors
    kGroupBytes = uint64_t{64} << 20;  // vectors of a Parquet file's row group

std::span<const float> numbers_of(const at::Tensor& contiguous) {
  return {contiguous.const_data_ptr<float>(), static_cast<size_t>(contiguous.numel())};
}

// Vectors in files of one format, as they come: samples in their order form groups, and behind what the
// format has before a group stand its vectors, fp32. So a file is the same however samples are dealt to
// processes, and an interrupted prediction goes on with it.
class VectorFiles {
 public:
  // dataset and split: of the samples. by_residue: each has a vector a residue, or one. A group has at most
  // so many samples and bytes of vectors, but for one whose only sample has more.
  struct Shape {
    const proteins::Dataset& dataset;
    Split split;
    int64_t width;
    bool by_residue;

    uint64_t samples() const { return dataset.size(split); }
    int64_t rows(uint64_t id) const { return by_residue ? int64_t{dataset.row(split, id).residues} : 1; }
    uint64_t bytes(uint64_t id) const { return static_cast<uint64_t>(rows(id) * width) * sizeof(float); }
  };
  VectorFiles(const Shape& shape, uint64_t most_samples, uint64_t most_bytes) : shape_(shape) {
    uint64_t bytes = 0;
    for (uint64_t id = 0; id < shape_.samples(); ++id) {
      const uint64_t own = shape_.bytes(id);
      if (begins_.empty() || id - begins_.back() == most_samples || bytes + own > most_bytes) {
        begins_.push_back(id);
        bytes = 0;
      }
      bytes += own;
    }
    begins_.push_back(shape_.samples());
  }
  virtual ~VectorFiles() = default;

  // values: (rows of sample `id`, C) fp32.
  void add(uint64_t id, const at::Tensor& values, const PredictionSink& sink) {
    const size_t group = group_of(id);
    if (begins_[group] == id) sink.append(id, name(group), before(group));
    const at::Tensor contiguous = values.contiguous();
    sink.append(id, name(group),
                {static_cast<const char*>(contiguous.const_data_ptr()), contiguous.nbytes()});
    if (id + 1 == shape_.samples())
      if (const std::string end = behind(); !end.empty()) sink.append(id, name(group), end);
  }
  // The vector of a sample that has one, in a file that has all.
  void read(const std::filesystem::path& folder, uint64_t id, float* into) {
    uint64_t at = id * shape_.bytes(id);
    for (size_t group = 0; group <= group_of(id); ++group) {
      if (group == sizes_.size()) sizes_.push_back(before(group).size());
      at += sizes_[group];
    }
    const std::string path = (folder / name(0)).string();
    if (!file_) file_ = Descriptor(files::open_regular(path, O_RDONLY));
    if (!file_) throw files::system_error(path, "it was written a moment ago: check the disk");
    const uint64_t bytes = shape_.bytes(id);
    if (files::read_at(file_.fd(), at, reinterpret_cast<char*>(into), bytes, path, "check the disk") != bytes)
      throw files::DataError(path + ": is shorter than it was written: check the disk");
  }

 protected:
  const Shape& shape() const { return shape_; }
  size_t groups() const { return begins_.size() - 1; }
  // First sample of a group; that of the group behind the last: the number of samples.
  uint64_t begin(size_t group) const { return begins_[group]; }

 private:
  size_t group_of(uint64_t id) const {
    return static_cast<size_t>(std::ranges::upper_bound(begins_, id) - begins_.begin()) - 1;
  }
  virtual std::string name(size_t group) const = 0;
  virtual std::string before(size_t group) = 0;
  virtual std::string behind() { return ""; }  // the last group's vectors

  Shape shape_;
  std::vector<uint64_t> begins_;
  std::vector<uint64_t> sizes_;  // of what stands before the first groups
  Descriptor file_;
};

// `embeddings` (samples, C), in the order of the prediction's table; or of residues a tensor (residues, C)
// for each sample, by the name that its other files begin with, in files with 10,000 of them and 4 GiB at
// most.
class SafetensorsFiles : public VectorFiles {
 public:
  SafetensorsFiles(const Shape& shape, Metadata metadata)
      : VectorFiles(shape, shape.by_residue ? kMostTensors : std::numeric_limits<uint64_t>::max(),
                    shape.by_residue ? kMostBytes : std::numeric_limits<uint64_t>::max()),
        metadata_(std::move(metadata)) {}

 private:
  std::string name(size_t group) const override {
    if (!shape().by_residue) return "embeddings.safetensors";
    std::array<char, 64> text;
    std::snprintf(text.data(), text.size(), "residue-embeddings-%05zu-of-%05zu.safetensors", group + 1,
                  groups());
    return text.data();
  }
  std::string before(size_t group) override {
    Json json{{"__metadata__", metadata_}};
    uint64_t at = 0;
    const auto add = [&](const std::string& tensor, int64_t rows) {
      const uint64_t end = at + static_cast<uint64_t>(rows * shape().width) * sizeof(float);
      json[tensor] = {{"dtype", "F32"}, {"shape", {rows, shape().width}}, {"data_offsets", {at, end}}};
      at = end;
    };
    if (!shape().by_residue) add("embeddings", static_cast<int64_t>(shape().samples()));
    for (uint64_t id = begin(group); shape().by_residue && id < begin(group + 1); ++id)
      add(shape().dataset.tensor(shape().split, id), shape().rows(id));
    std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    text.append((8 - text.size() % 8) % 8, ' ');
    return std::string(files::bytes_of(uint64_t{text.size()})) + text;
  }

  Metadata metadata_;
};

// A row for each vector; a group of samples is a row group. Where a process begins a row group, it makes
// those before it, too, since the end of the file tells where all are.
class ParquetTable : public VectorFiles {
 public:
  explicit ParquetTable(const Shape& shape) : VectorFiles(shape, kMostRows, kGroupBytes) {}

 private:
  using Column = parquet::ParquetWriter::Column;
  static constexpr uint64_t kMostRows = 1'000'000;

  std::string name(size_t) const override {
    return shape().by_residue ? "residue-embeddings.parquet" : "embeddings.parquet";
  }
  std::string before(size_t group) override {
    std::string bytes;
    if (!table_ || group < next_) start();
    for (; next_ <= group; ++next_) {
      for (uint64_t id = begin(next_); id < begin(next_ + 1); ++id) add_rows(id);
      bytes = table_->end_group();
    }
    return bytes;
  }
  std::string behind() override {
    if (next_ < groups()) before(groups() - 1);
    return table_->finish();
  }
  void start() {
    std::vector<Column> columns{{.name = "id"}};
    if (shape().by_residue)
      columns.insert(columns.end(), {{.name = "chain"},
                                     {.name = "number", .kind = Column::kInteger},
                                     {.name = "insertion"},
                                     {.name = "residue"}});
    else
      columns.push_back({.name = "residues", .kind = Column::kInteger});
    columns.push_back({.name = "embedding", .kind = Column::kVector, .width = shape().width});
    table_.emplace(name(0), std::move(columns));
    next_ = 0;
  }
  void add_rows(uint64_t id) {
    const auto& [dataset, split, width, by_residue] = shape();
    const std::string name = dataset.name(split, id);
    if (!by_residue) {
      table_->text(name).integer(dataset.row(split, id).residues).end_row();
      return;
    }
    const proteins::Sample sample = dataset.sample(split, id);
    const std::vector<std::string> chains = dataset.chain_names(split, id);
    for (size_t i = 0; i < sample.size(); ++i) {
      const char letter = residues::letter_of(sample.codes[i]);
      table_->text(name).text(chains[static_cast<size_t>(sample.chains[i])]).integer(sample.number(i));
      table_->text(insertion_of(sample, i)).text({&letter, 1}).end_row();
    }
  }

  std::optional<parquet::ParquetWriter> table_;
  size_t next_ = 0;  // group
};

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
  using AllFiles = std::vector<std::unique_ptr<VectorFiles>>;

  int64_t layer_of(const pipeline::protein::ProteinModel& model) const {
    const int64_t layer = options().layer < 0 ? model.layers() : options().layer;
    if (layer > model.layers())
      setting_.errors("predict.layer", concat("must be at most ", model.layers(), ", the model's layers"));
    return layer;
  }
  void open_files(Split split, const pipeline::protein::ProteinModel& model) {
    if (!of_samples_.empty() || !of_residues_.empty()) return;
    const Metadata metadata{{"model", setting_.config.kind},
                            {"layer", std::to_string(layer_of(model))},
                            {"pooling", options().pooling},
                            {"order", "of the prediction's table"}};
    const auto open = [&](const char* what, bool by_residue, AllFiles& files) {
      if (!options().wants(what)) return;
      const VectorFiles::Shape shape{dataset_, split, model.width(), by_residue};
      if (options().has_format("safetensors"))
        files.push_back(std::make_unique<SafetensorsFiles>(shape, metadata));
      if (options().has_format("parquet")) files.push_back(std::make_unique<ParquetTable>(shape));
    };
    open("embeddings", false, of_samples_);
    open("residue_embeddings", true, of_residues_);
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
