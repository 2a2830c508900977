#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpt2_config.hpp"
#include "parameters.hpp"

namespace pipeline::safetensors {
class Folder;
struct TensorView;
}  // namespace pipeline::safetensors

namespace pipeline::summarization {

// Reads a config.json of GPT2LMHeadModel. Throws std::runtime_error that names file, key and value where the
// model is not the GPT-2 that we compute: another architecture, activation, or scaling of attention.
Gpt2Config read_gpt2_config(const std::string& path);

// A Hugging Face GPT-2 folder: config.json and model.safetensors, sharded or not, fp32, fp16, bf16 or fp64,
// names with or without "transformer.". Const and safe for any thread.
class HuggingFaceGpt2 {
 public:
  // Throws unless the files hold exactly the parameters of the configuration; every tensor that is missing,
  // unexpected or of another shape is named in one error. Mask buffers (attn.bias) are passed over, and
  // lm_head.weight must equal wte.weight.
  explicit HuggingFaceGpt2(const std::string& folder);
  ~HuggingFaceGpt2();

  const Gpt2Config& config() const { return config_; }
  const std::vector<ParameterInfo>& parameters() const { return parameters_; }

  // Parameter parameters()[index] into `out`: fp32, contiguous, in host memory, of its shape. The file takes no
  // memory after it.
  void read(size_t index, at::Tensor& out) const;

 private:
  void match();
  void check_head() const;

  Gpt2Config config_;
  std::vector<ParameterInfo> parameters_;
  std::unique_ptr<const safetensors::Folder> folder_;
  std::vector<const safetensors::TensorView*> tensors_;  // per parameter, in folder_
  const safetensors::TensorView* head_ = nullptr;        // lm_head.weight, where there is one
};

// Writes config.json, generation_config.json and model.safetensors (fp32) that transformers loads as
// GPT2LMHeadModel. `value` gives one parameter of parameter_list(config) at a time, in order; the memory
// needed does not grow with the model. The folder must exist.
void save_hugging_face_gpt2(const std::string& folder, const Gpt2Config& config,
                            const std::function<at::Tensor(size_t index)>& value);

}  // namespace pipeline::summarization
