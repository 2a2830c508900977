// Predicted vectors as files that grow with the samples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <pipeline/task_types.hpp>

#include "core/base/descriptor.hpp"
#include "plugins/data/parquet/parquet_file.hpp"

namespace pipeline::tasks::common {

// What is written: a vector of each sample, or several of each.
struct Vectors {
  uint64_t samples;
  int64_t width;
  std::string name;                                     // of the files: "embeddings"
  std::function<int64_t(uint64_t id)> rows = {};        // of a sample that has several; none: each has one
  std::function<std::string(uint64_t id)> tensor = {};  // then: what its tensor is called
  std::map<std::string, std::string> metadata = {};     // of safetensors
  std::vector<parquet::ParquetWriter::Column> columns = {};  // of a table, beside the vector
  // Writes a sample's rows of these.
  std::function<void(parquet::ParquetWriter& table, uint64_t id)> add_rows = {};

  int64_t rows_of(uint64_t id) const { return rows ? rows(id) : 1; }
  uint64_t bytes(uint64_t id) const { return static_cast<uint64_t>(rows_of(id) * width) * sizeof(float); }
};

// Vectors in files of one format, as they come: samples in their order form groups, and behind what the
// format has before a group stand its vectors, fp32. So a file is the same however samples are dealt to
// processes, and an interrupted prediction goes on with it.
class VectorFiles {
 public:
  // A group has at most so many samples and bytes of vectors, but for one whose only sample has more.
  VectorFiles(Vectors what, uint64_t most_samples, uint64_t most_bytes);
  virtual ~VectorFiles() = default;
  VectorFiles(const VectorFiles&) = delete;
  VectorFiles& operator=(const VectorFiles&) = delete;

  // values: (rows of sample `id`, C) fp32. Samples come in their order.
  void add(uint64_t id, const at::Tensor& values, const PredictionSink& sink);
  // The vector of a sample that has one, in a file that has all.
  void read(const std::filesystem::path& folder, uint64_t id, float* into);

 protected:
  const Vectors& what() const { return what_; }
  size_t groups() const { return begins_.size() - 1; }
  // First sample of a group; that of the group behind the last: the number of samples.
  uint64_t begin(size_t group) const { return begins_[group]; }

 private:
  size_t group_of(uint64_t id) const;
  virtual std::string name(size_t group) const = 0;
  virtual std::string before(size_t group) = 0;
  virtual std::string behind() { return ""; }  // the last group's vectors

  Vectors what_;
  std::vector<uint64_t> begins_;
  std::vector<uint64_t> sizes_;  // of what stands before the first groups
  Descriptor file_;
};

// "safetensors": `embeddings` (samples, C), in the order of the prediction's table; or, where samples have
// several vectors, a tensor for each sample, in files with 10,000 of them and 4 GiB at most. "parquet": a row
// for each vector.
std::unique_ptr<VectorFiles> vector_files(std::string_view format, Vectors what);

}  // namespace pipeline::tasks::common
