#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "core/safetensors/file.hpp"
#include "core/safetensors/writer.hpp"

namespace pipeline::tests {

// The tensors of a model's folder, by their bits.
struct FileTensor {
  safetensors::Dtype dtype = safetensors::Dtype::kF32;
  safetensors::Shape shape = {};
  std::string bytes = {};

  bool operator==(const FileTensor&) const = default;
};
using FileTensors = std::map<std::string, FileTensor>;

inline FileTensors read_weights(const std::string& folder) {
  FileTensors all;
  const auto files = safetensors::Folder::open(folder);
  for (const std::string& name : files.names()) {
    const safetensors::TensorView& view = files.at(name);
    const auto* const first = reinterpret_cast<const char*>(view.data.data());
    all[name] = {view.dtype, view.shape, std::string(first, view.data.size())};
  }
  return all;
}

// Writes the tensors in two files with an index, as large models have them.
inline void write_shards(const std::string& folder, const FileTensors& all) {
  std::remove((folder + "/model.safetensors").c_str());
  const std::string names[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
  nlohmann::json index{{"metadata", {{"total_size", 0}}}};
  for (size_t shard = 0; shard < 2; ++shard) {
    safetensors::Writer writer(folder + "/" + names[shard]);
    size_t i = 0;
    for (const auto& [name, tensor] : all)
      if (i++ % 2 == shard) {
        writer.declare(name, tensor.dtype, tensor.shape);
        index["weight_map"][name] = names[shard];
      }
    for (const auto& info : writer.layout())
      writer.write(info.name, std::as_bytes(std::span(all.at(info.name).bytes)));
    writer.finish();
  }
  std::ofstream(folder + "/model.safetensors.index.json") << index;
}

// Rounds a tensor in float32 to BF16 or F16.
inline void round_to(FileTensor& tensor, safetensors::Dtype dtype) {
  const at::Tensor wide = at::from_blob(
      tensor.bytes.data(), {static_cast<int64_t>(tensor.bytes.size() / sizeof(float))}, at::kFloat);
  const at::Tensor narrow =
      wide.to(dtype == safetensors::Dtype::kF16 ? at::kHalf : at::kBFloat16).contiguous();
  tensor = {dtype, tensor.shape,
            std::string(static_cast<const char*>(narrow.const_data_ptr()), narrow.nbytes())};
}

// A tensor of a folder's files, in float32.
inline at::Tensor read_tensor(const std::filesystem::path& folder, const std::string& name) {
  const auto files = safetensors::Folder::open(folder.string());
  const auto& view = files.at(name);
  return at::from_blob(const_cast<std::byte*>(view.data.data()), view.shape, at::kFloat).clone();
}

// A file of one tensor, in float32.
inline void write_tensor(const std::filesystem::path& path, const std::string& name,
                         const at::Tensor& values) {
  const at::Tensor tensor = values.contiguous();
  safetensors::Writer writer(path.string());
  writer.declare(name, safetensors::Dtype::kF32, tensor.sizes().vec());
  writer.write(name,
               std::as_bytes(std::span(tensor.const_data_ptr<float>(), static_cast<size_t>(tensor.numel()))));
  writer.finish();
}

}  // namespace pipeline::tests
