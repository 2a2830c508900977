#include "plugins/tasks/common/vector_files.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "plugins/data/files/error.hpp"
#include "plugins/data/files/hash128.hpp"
#include "plugins/data/files/regular_file.hpp"

namespace pipeline::tasks::common {

VectorFiles::VectorFiles(Vectors what, uint64_t most_samples, uint64_t most_bytes) : what_(std::move(what)) {
  uint64_t bytes = 0;
  for (uint64_t id = 0; id < what_.samples; ++id) {
    const uint64_t own = what_.bytes(id);
    if (begins_.empty() || id - begins_.back() == most_samples || bytes + own > most_bytes) {
      begins_.push_back(id);
      bytes = 0;
    }
    bytes += own;
  }
  begins_.push_back(what_.samples);
}

void VectorFiles::add(uint64_t id, const at::Tensor& values, const PredictionSink& sink) {
  const size_t group = group_of(id);
  if (begins_[group] == id) sink.append(id, name(group), before(group));
  const at::Tensor contiguous = values.contiguous();
  sink.append(id, name(group), {static_cast<const char*>(contiguous.const_data_ptr()), contiguous.nbytes()});
  if (id + 1 == what_.samples)
    if (const std::string end = behind(); !end.empty()) sink.append(id, name(group), end);
}

void VectorFiles::read(const std::filesystem::path& folder, uint64_t id, float* into) {
  uint64_t at = id * what_.bytes(id);
  for (size_t group = 0; group <= group_of(id); ++group) {
    if (group == sizes_.size()) sizes_.push_back(before(group).size());
    at += sizes_[group];
  }
  const std::string path = (folder / name(0)).string();
  if (!file_) file_ = Descriptor(files::open_regular(path, O_RDONLY));
  if (!file_) throw files::system_error(path, "it was written a moment ago: check the disk");
  const uint64_t bytes = what_.bytes(id);
  if (files::read_at(file_.fd(), at, reinterpret_cast<char*>(into), bytes, path, "check the disk") != bytes)
    throw files::DataError(path + ": is shorter than it was written: check the disk");
}

size_t VectorFiles::group_of(uint64_t id) const {
  return static_cast<size_t>(std::ranges::upper_bound(begins_, id) - begins_.begin()) - 1;
}

namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kMostTensors = 10'000, kMostBytes = uint64_t{4} << 30,  // of a file with many tensors
    kMostRows = 1'000'000, kGroupBytes = uint64_t{64} << 20;               // of a Parquet file's row group

class SafetensorsFiles : public VectorFiles {
 public:
  // has_tensors: one for each sample; else all are one, in one file.
  SafetensorsFiles(Vectors what, bool has_tensors)
      : VectorFiles(std::move(what), has_tensors ? kMostTensors : kNoLimit,
                    has_tensors ? kMostBytes : kNoLimit) {}

 private:
  std::string name(size_t group) const override {
    if (!what().rows) return what().name + ".safetensors";
    std::array<char, 64> number;
    std::snprintf(number.data(), number.size(), "-%05zu-of-%05zu.safetensors", group + 1, groups());
    return what().name + number.data();
  }
  std::string before(size_t group) override {
    Json json{{"__metadata__", what().metadata}};
    uint64_t at = 0;
    const auto add = [&](const std::string& tensor, int64_t rows) {
      const uint64_t end = at + static_cast<uint64_t>(rows * what().width) * sizeof(float);
      json[tensor] = {{"dtype", "F32"}, {"shape", {rows, what().width}}, {"data_offsets", {at, end}}};
      at = end;
    };
    if (!what().rows) add("embeddings", static_cast<int64_t>(what().samples));
    for (uint64_t id = begin(group); what().rows && id < begin(group + 1); ++id)
      add(what().tensor(id), what().rows_of(id));
    std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    text.append((8 - text.size() % 8) % 8, ' ');
    return std::string(files::bytes_of(uint64_t{text.size()})) + text;
  }
};

// A group of samples is a row group. Where a process begins a row group, it makes those before it, too, since
// the end of the file tells where all are.
class ParquetTable : public VectorFiles {
 public:
  explicit ParquetTable(Vectors what) : VectorFiles(std::move(what), kMostRows, kGroupBytes) {}

 private:
  using Column = parquet::ParquetWriter::Column;

  std::string name(size_t) const override { return what().name + ".parquet"; }
  std::string before(size_t group) override {
    std::string bytes;
    if (!table_ || group < next_) start();
    for (; next_ <= group; ++next_) {
      for (uint64_t id = begin(next_); id < begin(next_ + 1); ++id) what().add_rows(*table_, id);
      bytes = table_->end_group();
    }
    return bytes;
  }
  std::string behind() override {
    if (next_ < groups()) before(groups() - 1);
    return table_->finish();
  }
  void start() {
    std::vector<Column> columns = what().columns;
    columns.push_back({.name = "embedding", .kind = Column::kVector, .width = what().width});
    table_.emplace(name(0), std::move(columns));
    next_ = 0;
  }

  std::optional<parquet::ParquetWriter> table_;
  size_t next_ = 0;  // group
};

}  // namespace

std::unique_ptr<VectorFiles> vector_files(std::string_view format, Vectors what) {
  if (format == "parquet") return std::make_unique<ParquetTable>(std::move(what));
  const bool has_tensors = what.rows != nullptr;  // before `what` is moved from
  return std::make_unique<SafetensorsFiles>(std::move(what), has_tensors);
}

}  // namespace pipeline::tasks::common
