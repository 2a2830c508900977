// What is read of matrices that bitsandbytes has quantized, and what is refused. The values themselves are
// compared with it in tests/parity/quantization_parity.py.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <map>

#include "core/safetensors/file.hpp"
#include "core/safetensors/writer.hpp"
#include "hugging_face/bitsandbytes.hpp"
#include "hugging_face/config_file.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::hugging_face {
namespace {

using quantization::Form;
using testing::HasSubstr;

struct Stored {
  safetensors::Dtype dtype;
  std::vector<int64_t> shape;
  std::string data;
};
template <class T>
Stored stored(safetensors::Dtype dtype, const std::vector<T>& values) {
  std::string data(values.size() * sizeof(T), '\0');
  std::memcpy(data.data(), values.data(), data.size());
  return {dtype, {static_cast<int64_t>(values.size())}, data};
}

class QuantizedFolder : public testing::Test {
 protected:
  static constexpr int64_t kRows = 6, kColumns = 128;
  static constexpr const char* kState = "w.weight.quant_state.bitsandbytes__nf4";

  QuantizedFolder() {
    const std::vector<float> levels(std::begin(quantization::kNf4Levels), std::end(quantization::kNf4Levels));
    const auto& map = quantization::dynamic_map();
    std::vector<uint8_t> sizes;
    for (uint8_t i = 0; i < kRows * kColumns / 64; ++i) sizes.push_back(static_cast<uint8_t>(100 + 9 * i));
    tensors_ = {
        {"w.weight",
         {safetensors::Dtype::kU8, {kRows * kColumns / 2, 1}, std::string(kRows * kColumns / 2, '\x2f')}},
        {"w.weight.absmax", stored(safetensors::Dtype::kU8, sizes)},
        {"w.weight.quant_map", stored(safetensors::Dtype::kF32, levels)},
        {"w.weight.nested_absmax", stored(safetensors::Dtype::kF32, std::vector<float>{0.5f})},
        {"w.weight.nested_quant_map",
         stored(safetensors::Dtype::kF32, std::vector<float>(map.begin(), map.end()))}};
    say(R"({"blocksize": 64, "shape": [6, 128], "nested_blocksize": 256, "nested_offset": 0.75})");
  }

  void say(const std::string& state) {
    tensors_[kState] = stored(safetensors::Dtype::kU8, std::vector<char>(state.begin(), state.end()));
  }

  safetensors::File written() const {
    const std::string path = folder_.path() + "/model.safetensors";
    safetensors::Writer writer(path);
    for (const auto& [name, tensor] : tensors_) writer.declare(name, tensor.dtype, tensor.shape);
    for (const bool is_wide : {true, false})  // in the order of the file, widest first
      for (const auto& [name, tensor] : tensors_)
        if ((tensor.dtype == safetensors::Dtype::kF32) == is_wide)
          writer.write(name, std::as_bytes(std::span(tensor.data)));
    writer.finish();
    return safetensors::File::open(path);
  }
  // The matrix as numbers, and as rows of its form.
  std::pair<at::Tensor, at::Tensor> read() const {
    const safetensors::File file = written();
    const FindTensor find = [&](const std::string& name) { return file.find(name); };
    const auto matrix = QuantizedMatrix::of(file.at("w.weight"), find);
    if (matrix == nullptr) return {};
    at::Tensor rows = at::zeros({kRows, kColumns});
    const Form form = matrix->is_in(Form::kNf4) ? Form::kNf4 : Form::kInt8;
    std::vector<std::byte> bytes(static_cast<size_t>(kRows * quantization::Row::bytes(form, kColumns)));
    if (matrix->is_in(form)) matrix->arrange(bytes.data());
    for (int64_t row = 0; row < kRows && matrix->is_in(form); ++row) {
      const auto* const data =
          reinterpret_cast<const uint8_t*>(bytes.data()) + row * quantization::Row::bytes(form, kColumns);
      quantization::Row(form, kColumns, data)
          .decode(0, {rows[row].mutable_data_ptr<float>(), static_cast<size_t>(kColumns)});
    }
    return {matrix->values(), rows};
  }
  std::string error() const {
    return tests::message_of<std::exception>([&] { read(); });
  }

  tests::FilesFolder folder_;
  std::map<std::string, Stored> tensors_;
};

TEST_F(QuantizedFolder, IsTheSameAsNumbersAndAsRows) {
  const auto [values, rows] = read();
  EXPECT_TRUE(values.equal(rows));
  const float size = quantization::dynamic_map()[100] * 0.5f + 0.75f;
  EXPECT_EQ(values[0][0].item<float>(), quantization::kNf4Levels[2] * size);
  EXPECT_EQ(values[0][1].item<float>(), quantization::kNf4Levels[15] * size);
  EXPECT_NE(values[0][64].item<float>(), values[0][0].item<float>()) << "the next block";
}

TEST_F(QuantizedFolder, WithoutDoubleQuantizationIsNumbers) {
  for (const char* name : {".nested_absmax", ".nested_quant_map"})
    tensors_.erase(std::string("w.weight") + name);
  tensors_["w.weight.absmax"] = stored(safetensors::Dtype::kF32, std::vector<float>(12, 0.25f));
  say(R"({"blocksize": 64, "shape": [6, 128]})");
  const auto [values, rows] = read();
  EXPECT_EQ(values[5][127].item<float>(), 0.25f);
  EXPECT_TRUE(rows.eq(0).all().item<bool>()) << "its sizes are not in 8 bits";
}

TEST_F(QuantizedFolder, In8BitsHasScalesOfRows) {
  tensors_ = {
      {"w.weight", {safetensors::Dtype::kI8, {kRows, kColumns}, std::string(kRows * kColumns, '\xfe')}},
      {"w.SCB", stored(safetensors::Dtype::kF32, std::vector<float>{127, 254, 0, 1, 2, 3})},
      {"w.weight_format", {safetensors::Dtype::kU8, {}, std::string(1, '\0')}}};
  const auto [values, rows] = read();
  EXPECT_TRUE(values.equal(rows));
  EXPECT_EQ(values[1][7].item<float>(), -4);
  tensors_.erase("w.SCB");
  EXPECT_THAT(
      error(),
      HasSubstr("w.weight is quantized by bitsandbytes, and w.SCB is missing: quantize the model anew"));
}

TEST_F(QuantizedFolder, APlainMatrixIsNone) {
  tensors_ = {
      {"w.weight", {safetensors::Dtype::kF32, {kRows, kColumns}, std::string(kRows * kColumns * 4, '\0')}}};
  EXPECT_FALSE(read().first.defined());
}

TEST_F(QuantizedFolder, WhatIsMeantInAnotherWayIsRefused) {
  const auto refused_with = [&](const std::string& name, const Stored& tensor) {
    const Stored before = std::exchange(tensors_[name], tensor);
    const std::string text = error();
    tensors_[name] = before;
    return text;
  };
  std::string map = tensors_["w.weight.quant_map"].data;
  map[2] = 0;
  EXPECT_THAT(refused_with("w.weight.quant_map", {safetensors::Dtype::kF32, {16}, map}),
              HasSubstr("w.weight.quant_map has "));
  EXPECT_THAT(refused_with("w.weight.absmax", {safetensors::Dtype::kU8, {3}, "abc"}),
              HasSubstr("w.weight.absmax is U8 [3], must have 12 of U8"));
  EXPECT_THAT(refused_with("w.weight", {safetensors::Dtype::kU8, {8}, "12345678"}),
              HasSubstr("is U8 [8], must have 384 of U8"));
  for (const auto& [state, problem] :
       {std::pair(R"({"blocksize": 128, "shape": [6, 128]})", "in blocks of 128, must be 64"),
        {R"({"blocksize": 64, "shape": [6]})", "its shape [6] is no matrix's"},
        {R"({"blocksize": 64, "shape": [-6, 128]})", "is no matrix's"},
        {R"({"blocksize": 64, "shape": ["6"]})", "what it says of itself is damaged"},
        {R"({"blocksize": 64})", "what it says of itself is damaged"},
        {R"({"blocksize": 64, "shape": [6, 128], "nested_offset": 1, "nested_blocksize": 64})",
         "not in groups of 256"},
        {"{", "what it says of itself is damaged"}}) {
    say(state);
    EXPECT_THAT(error(), HasSubstr(problem)) << state;
  }
  tensors_.erase(kState);
  tensors_["w.weight.quant_state.bitsandbytes__fp4"] =
      stored(safetensors::Dtype::kU8, std::vector<char>{'{', '}'});
  EXPECT_THAT(error(), HasSubstr("as fp4, and only nf4 is read"));
}

TEST_F(QuantizedFolder, OtherWaysAreRefusedByTheirName) {
  const auto problem = [&](const std::string& config) {
    return tests::message_of<std::exception>([&] {
      check_quantization(
          ConfigFile::of("config.json", R"({"model_type": "llama", "quantization_config": )" + config + "}"));
    });
  };
  EXPECT_THAT(problem(R"({"quant_method": "gptq", "bits": 4})"), HasSubstr(R"(("gptq") are not read)"));
  EXPECT_THAT(
      problem(R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "fp4"})"),
      HasSubstr("nf4 and int8"));
  EXPECT_THAT(problem("3"), HasSubstr("are not read"));
  EXPECT_EQ(problem("null"), "(nothing was thrown)");
  EXPECT_EQ(problem(R"({"quant_method": "bitsandbytes", "load_in_8bit": true, "load_in_4bit": false})"),
            "(nothing was thrown)");
}

}  // namespace
}  // namespace pipeline::hugging_face
