#pragma once

#include <pipeline/torch/parameter_registry.hpp>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quantization/matrix_form.hpp"

namespace pipeline::safetensors {
class Folder;
struct TensorView;
}  // namespace pipeline::safetensors

namespace pipeline::hugging_face {

class QuantizedMatrix;

// `name` behind a prefix that it has.
inline std::string after(const std::string& name, std::string_view prefix) {
  return name.substr(prefix.size());
}

// A tensor of a folder: a parameter of ours, or some of its columns.
struct Piece {
  std::string name;
  int64_t first = 0, columns = 0;  // in the last dimension; 0 columns: all
  bool transposed = false;         // a matrix that is (out, in) in the folder and (in, out) here
  // At the end of the folder's tensor; zeros where we write it. Below 0: at the end of ours, where each row
  // starts as the mean of the folder's.
  int64_t more_rows = 0;
  // The folder's shape where it has the same values, after all of that, in another.
  std::vector<int64_t> folded = {};

  at::Tensor of(const at::Tensor& parameter) const;
  at::Tensor written(const at::Tensor& parameter) const;  // with more_rows, which are not below 0
  std::vector<int64_t> shape(const std::vector<int64_t>& parameter) const;
};

// A parameter that is several matrices of the folder side by side: each is called as the parameter is, with
// its own name in place of `whole`.
struct MatrixPart {
  const char* name;
  int64_t columns;
};
std::vector<Piece> side_by_side(const std::string& parameter, std::string_view whole,
                                const std::vector<MatrixPart>& parts, bool transposed);

// How the tensors of a folder and the parameters of a model belong together.
struct NameMap {
  // What a parameter is made of, and is written as; without it, one tensor of its own name. No piece: the
  // folder is not where it comes from, as with a model of which two folders have a part each.
  std::function<std::vector<Piece>(const Parameter& parameter)> pieces = nullptr;
  // What `pieces` calls a tensor that other versions have under other names. Empty: it is passed over.
  std::function<std::string(const std::string& name)> plain_name = nullptr;
  // What is written for a parameter, if it is not its own value.
  std::function<at::Tensor(const ParameterRegistry::Declared& parameter)> value = nullptr;
  // What a value from the folder becomes here.
  std::function<void(const Parameter& parameter, at::Tensor& value)> as_ours = nullptr;
  // An output head that folders may have although it is this tensor again; then it must be equal.
  std::string head = "", tied_to = "";
  // The file, which shards of that name may stand for.
  const char* file = "model.safetensors";
  // What folders may have besides parameters.
  std::vector<std::pair<std::string, std::vector<int64_t>>> optional = {};
};

std::vector<Piece> pieces_of(const Parameter& parameter, const NameMap& map);

// The type for a safetensors dtype that weights may come in.
std::optional<at::ScalarType> scalar_type_of(std::string_view dtype);

// The weights of a folder, model.safetensors or shards of it, in fp32, fp16, bf16 or fp64, as the parameters
// of a model. Const and safe for any thread.
class Weights {
 public:
  // Throws an Error (PL_ERROR_CONFIG) unless the files hold exactly the parameters: one that names every
  // tensor that is missing, unexpected or of another shape.
  Weights(const std::string& folder, const ParameterRegistry& parameters, const NameMap& map = {});
  ~Weights();

  // Parameter `index` into `out`: fp32, contiguous, in host memory, of its shape. The file takes no memory
  // after it.
  void read(size_t index, at::Tensor& out) const;
  bool has(size_t index) const { return !sources_.at(index).empty(); }
  // Parameter `index` in a form of 8 or 4 bits; false: the folder has other values.
  bool read_codes(size_t index, quantization::Form form, std::byte* out) const;

  // Tensors of the files by their own names, parameters or not.
  std::vector<std::string> names() const;
  // A tensor as fp32; undefined if there is none. Throws unless it has this shape and finite values.
  at::Tensor find(const std::string& name, const std::vector<int64_t>& shape) const;

 private:
  struct Source {
    Piece piece;
    const safetensors::TensorView* view;                         // in files_
    std::shared_ptr<const QuantizedMatrix> quantized = nullptr;  // null: it is not
  };

  std::unique_ptr<const safetensors::Folder> files_;
  std::vector<std::vector<Source>> sources_;  // per parameter
};

// The rows of a folder's tensor from row `first` on, in fp32; undefined where the folder is not there, or has
// no such tensor or no more rows.
at::Tensor rows_from(const std::string& folder, const std::string& name, int64_t first,
                     const std::function<std::string(const std::string& name)>& plain_name = nullptr);

// From now on the parameters that the folder has start as they are there. Throws as Weights does.
std::shared_ptr<const Weights> import_weights(const std::string& folder, ParameterRegistry& parameters,
                                              const NameMap& map = {});

// The files that have a folder's weights. Says what can be said of them without a model: throws Error
// (PL_ERROR_CONFIG) where there are none, or files are missing, cut off or of another kind.
std::vector<std::string> weight_files(const std::string& folder);
// So that `check` says it as the run would.
inline void check_weights(const std::string& folder) { static_cast<void>(weight_files(folder)); }

// A note for the log on which weights of a folder are read where it has two kinds, as after a new model was
// saved to it. Empty: it has one.
std::string note_of_weights(const std::string& folder);

// Writes model.safetensors in float32: the parameters, then `others`, which are no parameters. The folder
// must exist; the memory needed does not grow with the model. As a folder has them: export_form.hpp.
void export_weights(const std::string& folder, const ParameterRegistry& parameters, const NameMap& map = {},
                    const std::vector<std::pair<std::string, at::Tensor>>& others = {});

void write_text(const std::string& path, const std::string& text);

}  // namespace pipeline::hugging_face
