// For probes: tensors in safetensors files.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <filesystem>
#include <span>
#include <string>

#include "core/safetensors/file.hpp"
#include "core/safetensors/writer.hpp"

namespace pipeline::tests {

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
