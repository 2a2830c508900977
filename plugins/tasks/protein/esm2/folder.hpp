#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plugins/tasks/protein/esm2/esm2_config.hpp"
#include "plugins/tasks/protein/esm2/extras.hpp"
#include "plugins/tasks/protein/model/parameters.hpp"

namespace pipeline::safetensors {
class Folder;
struct TensorView;
}  // namespace pipeline::safetensors

namespace pipeline::protein::esm2 {

// A folder of EsmForMaskedLM: config.json, model.safetensors or shards, fp32, fp16, bf16 or fp64, and perhaps
// vocab.txt. Const and safe for any thread.
class Folder {
 public:
  // Throws unless it holds the model of `config` with exactly `parameters`; all values of the configuration
  // that differ are in one error, and all tensors that are missing, unexpected or of another shape in
  // another. Dropout and initial values are the run's own and not compared.
  Folder(const std::string& path, const Esm2Config& config, const Parameters& parameters);
  ~Folder();

  // Parameter `index` into `out`: fp32, contiguous, in host memory, of its shape.
  void read(size_t index, at::Tensor& out) const;
  const Extras& extras() const { return extras_; }

 private:
  using Views = std::vector<const safetensors::TensorView*>;

  void match();
  void read_extras();

  const Parameters& parameters_;
  Esm2Config config_;
  std::unique_ptr<const safetensors::Folder> files_;
  std::vector<Views> views_;  // per parameter, in files_
  Extras extras_;
};

// Writes the folder, in fp32, so that transformers loads it as EsmForMaskedLM and AutoTokenizer. What
// `extras` has not is written as zeros (contact head) and as it is by default (frequencies). The folder must
// exist; the memory needed does not grow with the model.
void write_folder(const std::string& path, const Esm2Config& config, const Parameters& parameters, const Extras& extras);

}  // namespace pipeline::protein::esm2
