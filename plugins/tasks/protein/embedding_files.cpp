#include "plugins/tasks/protein/embedding_files.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "plugins/data/files/error.hpp"
#include "plugins/data/files/hash128.hpp"
#include "plugins/data/files/regular_file.hpp"
#include "plugins/data/parquet/parquet_writer.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/tasks/protein/predictions.hpp"

namespace pipeline::tasks::protein {
namespace {

using Json = nlohmann::ordered_json;

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

}  // namespace

void ChainEmbeddings::add(uint64_t id, const at::Tensor& embedding, const PredictionSink& sink) const {
  const uint64_t bytes = samples_ * static_cast<uint64_t>(width_) * sizeof(float);
  if (id == 0)
    sink.append(id, kFile,
                with_size({{"__metadata__", metadata_},
                           {"embeddings", tensor({static_cast<int64_t>(samples_), width_}, 0, bytes)}}));
  sink.append(id, kFile, bytes_of_values(embedding.contiguous()));
}

ResidueEmbeddings::ResidueEmbeddings(const proteins::Dataset& dataset, Split split, int64_t width,
                                     Metadata metadata)
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

std::string ResidueEmbeddings::name(size_t file) const {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "residue-embeddings-%05zu-of-%05zu.safetensors", file + 1,
                begins_.size() - 1);
  return text.data();
}

std::vector<ResidueEmbeddings::Part> ResidueEmbeddings::parts() const {
  std::vector<Part> parts;
  for (size_t file = 0; file + 1 < begins_.size(); ++file)
    parts.push_back({name(file), {begins_[file], begins_[file + 1]}});
  return parts;
}

std::string ResidueEmbeddings::header(size_t file) const {
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

void ResidueEmbeddings::add(uint64_t id, const at::Tensor& embeddings, const PredictionSink& sink) const {
  const auto file = static_cast<size_t>(std::ranges::upper_bound(begins_, id) - begins_.begin()) - 1;
  if (begins_[file] == id) sink.append(id, name(file), header(file));
  sink.append(id, name(file), bytes_of_values(embeddings.contiguous()));
}

ValueReader::ValueReader(const std::string& path, int64_t width)
    : path_(path),
      file_(files::open_regular(path, O_RDONLY)),
      bytes_(static_cast<uint64_t>(width) * sizeof(float)) {
  uint64_t header = 0;
  if (!file_) throw files::system_error(path, "it was written a moment ago: check the disk");
  if (::pread(file_.fd(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header))
    throw files::DataError(path + ": has no header: start again");
  begin_ = sizeof header + header;
}

void ValueReader::read(uint64_t first, uint64_t count, float* into) const {
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

void write_chain_parquet(const proteins::Dataset& dataset, Split split, int64_t width,
                         const std::filesystem::path& folder) {
  using Column = parquet::ParquetWriter::Column;
  const ValueReader values((folder / ChainEmbeddings::kFile).string(), width);
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
  const ResidueEmbeddings files(dataset, split, width, {});
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

}  // namespace pipeline::tasks::protein
