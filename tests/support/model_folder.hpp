// A model's folder, whose files a test changes.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/safetensors/file.hpp"
#include "core/safetensors/writer.hpp"

namespace pipeline::tests {

using Stored = std::map<std::string, at::Tensor>;

class FolderTest : public ::testing::Test {
 protected:
  explicit FolderTest(const std::string& prefix) {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (prefix + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~FolderTest() override { std::filesystem::remove_all(folder_); }

  Stored stored() const {
    Stored tensors;
    const safetensors::Folder folder = safetensors::Folder::open(folder_);
    for (const std::string& name : folder.names()) {
      const safetensors::TensorView& view = folder.at(name);
      tensors[name] = at::empty(view.shape);
      std::memcpy(tensors[name].mutable_data_ptr(), view.data.data(), view.data.size());
    }
    return tensors;
  }

  void write(const Stored& tensors, const std::string& file = "model.safetensors") const {
    safetensors::Writer writer((folder_ / file).string());
    std::map<std::string, at::Tensor> plain;
    for (const auto& [name, value] : tensors) {
      using safetensors::Dtype;
      const Dtype dtype = value.scalar_type() == at::kHalf       ? Dtype::kF16
                          : value.scalar_type() == at::kBFloat16 ? Dtype::kBF16
                          : value.scalar_type() == at::kLong     ? Dtype::kI64
                                                                 : Dtype::kF32;
      writer.declare(name, dtype, value.sizes().vec());
      plain[name] = value.contiguous();
    }
    for (const safetensors::TensorInfo& info : writer.layout()) {
      const at::Tensor& value = plain.at(info.name);
      writer.write(info.name, std::as_bytes(std::span(static_cast<const char*>(value.const_data_ptr()),
                                                      value.nbytes())));
    }
    writer.finish();
  }

  void set_config(const std::string& key, const nlohmann::json& value) const {
    std::ifstream in(folder_ / "config.json");
    nlohmann::json config = nlohmann::json::parse(in);
    config[key] = value;
    std::ofstream(folder_ / "config.json") << config;
  }

  std::filesystem::path folder_;
};

}  // namespace pipeline::tests
