#include "hugging_face/weights.hpp"

#include <pipeline/error.hpp>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <stdexcept>

#include "core/safetensors/file.hpp"
#include "core/safetensors/header.hpp"
#include "hugging_face/bitsandbytes.hpp"
#include "hugging_face/config_file.hpp"
#include "plugins/parallel/parallel.hpp"

namespace pipeline::hugging_face {
namespace {

using safetensors::TensorView;

// What is wrong with the weights in a folder, for one error that says all of it.
class Problems {
 public:
  // kind: "missing", "unexpected", ...
  void add(const std::string& kind, const std::string& name, const std::string& problem = "") {
    lists_[kind].push_back(shown(name) + problem);
  }

  void raise(const std::string& folder) const {
    constexpr size_t kMostListed = 20;
    if (lists_.empty()) return;
    const bool is_adapter = std::filesystem::exists(std::filesystem::path(folder) / "adapter_config.json");
    std::string message =
        folder + (is_adapter
                      ? ": its tensors do not fit this model with its options (lora.rank, lora.targets; "
                        "left out, they follow the folder):"
                      : ": the weights are not those of its config.json:");
    for (const auto& [kind, list] : lists_) {
      message += "\n  " + kind + " (" + std::to_string(list.size()) + "): ";
      for (size_t i = 0; i < list.size() && i < kMostListed; ++i) message += (i ? ", " : "") + list[i];
      if (list.size() > kMostListed)
        message += ", and " + std::to_string(list.size() - kMostListed) + " more";
    }
    fail_with(PL_ERROR_CONFIG, message);
  }

 private:
  std::map<std::string, std::vector<std::string>> lists_;
};

// Throws for a dtype that weights do not come in.
at::ScalarType scalar_type(const TensorView& tensor, const std::string& folder) {
  if (const auto type = scalar_type_of(tensor.dtype_name())) return *type;
  fail_with(PL_ERROR_CONFIG, folder, ": ", shown(tensor.name), " has dtype ", tensor.dtype_name(),
            ": must be F32, F16, BF16 or F64");
}

// The file's data, in the file's memory where they are aligned for their type.
at::Tensor view_of(const TensorView& tensor, const std::string& folder) {
  const at::ScalarType type = scalar_type(tensor, folder);
  const auto options = at::TensorOptions(type);
  if (!tensor.data.empty() && reinterpret_cast<uintptr_t>(tensor.data.data()) % at::elementSize(type) == 0)
    return at::from_blob(const_cast<std::byte*>(tensor.data.data()), tensor.shape, options);
  at::Tensor copy = at::empty(tensor.shape, options);
  if (!tensor.data.empty()) std::memcpy(copy.mutable_data_ptr(), tensor.data.data(), tensor.data.size());
  return copy;
}

// A copy into a transposed matrix would convert one element at a time, each far from the one before it.
void copy_values(const at::Tensor& to, const at::Tensor& from) {
  constexpr int64_t kBand = 256;  // rows
  if (to.dim() != 2 || to.stride(0) != 1 || to.size(0) < 2) {
    to.copy_(from);
    return;
  }
  parallel::rows(to.size(0), kBand, to.size(1), [&](int64_t begin, int64_t end) {
    const at::Tensor band = from.narrow(0, begin, end - begin);
    to.narrow(0, begin, end - begin).t().copy_(band.to(at::kFloat).t().contiguous());
  });
}

bool same_values(const TensorView& a, const TensorView& b, const std::string& folder) {
  if (a.shape != b.shape) return false;
  if (a.dtype == b.dtype) return std::memcmp(a.data.data(), b.data.data(), b.data.size()) == 0;
  return view_of(a, folder).to(at::kFloat).equal(view_of(b, folder).to(at::kFloat));
}

}  // namespace

std::vector<Piece> pieces_of(const Parameter& parameter, const NameMap& map) {
  if (!map.pieces) return {{.name = parameter.name}};
  return map.pieces(parameter);
}

std::optional<at::ScalarType> scalar_type_of(std::string_view dtype) {
  if (dtype == "F32") return at::kFloat;
  if (dtype == "F16") return at::kHalf;
  if (dtype == "BF16") return at::kBFloat16;
  if (dtype == "F64") return at::kDouble;
  return std::nullopt;
}

at::Tensor Piece::of(const at::Tensor& parameter) const {
  const at::Tensor part = columns == 0 ? parameter : parameter.narrow(-1, first, columns);
  return transposed ? part.t() : part;
}

at::Tensor Piece::written(const at::Tensor& parameter) const {
  const at::Tensor part = of(parameter);
  if (more_rows == 0) return part;
  std::vector<int64_t> rest = part.sizes().vec();
  rest.front() = more_rows;
  return at::cat({part, at::zeros(rest, part.options())});
}

std::vector<int64_t> Piece::shape(const std::vector<int64_t>& parameter) const {
  std::vector<int64_t> result = parameter;
  if (columns > 0) result.back() = columns;
  if (transposed) std::swap(result.front(), result.back());
  if (more_rows != 0) result.front() += more_rows;  // a scalar has no rows
  return folded.empty() ? result : folded;
}

std::vector<Piece> side_by_side(const std::string& parameter, std::string_view whole,
                                const std::vector<MatrixPart>& parts, bool transposed) {
  std::vector<Piece> pieces;
  int64_t first = 0;
  for (const MatrixPart& part : parts) {
    std::string name = parameter;
    name.replace(name.find(whole), whole.size(), part.name);
    pieces.push_back({.name = name, .first = first, .columns = part.columns, .transposed = transposed});
    first += part.columns;
  }
  return pieces;
}

Weights::Weights(const std::string& folder, const ParameterRegistry& parameters, const NameMap& map)
    : files_(std::make_unique<const safetensors::Folder>(safetensors::Folder::open(folder, map.file))) {
  Problems problems;
  std::map<std::string, const TensorView*> left;
  const FindTensor find = [&](const std::string& name) { return files_->find(name); };
  for (const std::string& name : files_->names()) {
    if (is_beside_codes(name, find)) continue;
    const std::string plain = map.plain_name ? map.plain_name(name) : name;
    if (!plain.empty() && !left.emplace(plain, &files_->at(name)).second)
      problems.add("twice, under an old and a new name", plain);
  }
  const auto take = [&](const std::string& name) -> const TensorView* {
    const auto found = left.extract(name);
    return found.empty() ? nullptr : found.mapped();
  };
  const auto check_shape = [&](const TensorView& view, const std::vector<int64_t>& theirs,
                               const std::vector<int64_t>& shape) {
    if (theirs != shape) {
      problems.add(
          "of another shape", view.name,
          " is " + safetensors::shape_string(theirs) + ", must be " + safetensors::shape_string(shape));
    }
  };
  const auto check = [&](const TensorView& view, const std::vector<int64_t>& shape) {
    check_shape(view, view.shape, shape);
    scalar_type(view, folder);
  };
  const TensorView* const head = map.head.empty() ? nullptr : take(map.head);
  const TensorView* embedding = nullptr;
  for (const Parameter& parameter : parameters) {
    std::vector<Source>& sources = sources_.emplace_back();
    for (Piece& piece : pieces_of(parameter, map)) {
      const TensorView* const view = take(piece.name);
      std::shared_ptr<const QuantizedMatrix> quantized;
      if (view != nullptr) quantized = QuantizedMatrix::of(*view, find);
      if (view == nullptr) {
        problems.add("missing", piece.name);
      } else if (quantized) {
        check_shape(*view, quantized->shape(), piece.shape(parameter.shape));
      } else {
        check(*view, piece.shape(parameter.shape));
        if (piece.name == map.tied_to) embedding = view;
      }
      sources.push_back({std::move(piece), view, std::move(quantized)});
    }
  }
  for (const auto& [name, shape] : map.optional)
    if (const TensorView* const view = take(name)) check(*view, shape);
  for (const auto& [name, view] : left) problems.add("unexpected", view->name);
  problems.raise(folder);
  if (head != nullptr && embedding != nullptr && !same_values(*head, *embedding, folder)) {
    fail_with(PL_ERROR_CONFIG, folder, ": ", head->name, " differs from ", embedding->name,
              ": only an output head tied to the token embedding is supported");
  }
  if (head != nullptr) head->forget();
}

Weights::~Weights() = default;

void Weights::read(size_t index, at::Tensor& out) const {
  for (const auto& [piece, view, quantized] : sources_.at(index)) {
    at::Tensor part = piece.of(out);
    at::Tensor theirs = quantized ? quantized->values() : view_of(*view, files_->path());
    if (piece.more_rows < 0) {
      part.narrow(0, theirs.size(0), -piece.more_rows).copy_(theirs.to(at::kDouble).mean(0));
      part = part.narrow(0, 0, theirs.size(0));
    } else if (piece.more_rows > 0) {
      theirs = theirs.narrow(0, 0, part.size(0));
    }
    copy_values(part, theirs.view(part.sizes()));
    view->forget();
  }
}

bool Weights::read_codes(size_t index, quantization::Form form, std::byte* out) const {
  const std::vector<Source>& sources = sources_.at(index);
  const auto is_so = [&](const Source& source) {
    return source.quantized && source.quantized->is_in(form) && source.piece.transposed &&
           source.piece.more_rows == 0 && source.piece.folded.empty();
  };
  if (!std::ranges::all_of(sources, is_so)) return false;
  for (const Source& source : sources) {  // side by side: one after the other, as rows are
    source.quantized->arrange(out);
    out += source.quantized->shape()[0] * quantization::Row::bytes(form, source.quantized->shape()[1]);
    source.view->forget();
  }
  return true;
}

std::vector<std::string> Weights::names() const { return files_->names(); }

at::Tensor Weights::find(const std::string& name, const std::vector<int64_t>& shape) const {
  const TensorView* const view = files_->find(name);
  if (view == nullptr) return {};
  if (view->shape != shape) {
    fail_with(PL_ERROR_CONFIG, files_->path(), ": ", name, " is ", safetensors::shape_string(view->shape),
              ", must be ", safetensors::shape_string(shape));
  }
  at::Tensor values = view_of(*view, files_->path()).to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  if (!values.isfinite().all().item<bool>())
    fail_with(PL_ERROR_CONFIG, files_->path(), ": ", name, " has values that are not finite");
  return values;
}

at::Tensor rows_from(const std::string& folder, const std::string& name, int64_t first,
                     const std::function<std::string(const std::string& name)>& plain_name) {
  std::error_code ignored;
  if (folder.empty() || !std::filesystem::is_directory(folder, ignored)) return {};
  const auto files = safetensors::Folder::open(folder);
  const TensorView* view = files.find(name);
  if (view == nullptr && plain_name)
    for (const std::string& other : files.names())
      if (plain_name(other) == name) view = files.find(other);
  if (view == nullptr || view->shape.empty() || view->shape.front() <= first) return {};
  return view_of(*view, folder)
      .narrow(0, first, view->shape.front() - first)
      .to(at::kFloat, false, /*copy=*/true);
}

std::shared_ptr<const Weights> import_weights(const std::string& folder, ParameterRegistry& parameters,
                                              const NameMap& map) {
  auto weights = std::make_shared<const Weights>(folder, parameters, map);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!weights->has(i)) continue;
    const auto codes = [weights, i](uint32_t form, std::byte* out) {
      return weights->read_codes(
          i, form == PL_FORM_INT8 ? quantization::Form::kInt8 : quantization::Form::kNf4, out);
    };
    parameters.start_from(
        i,
        [weights, i, as_ours = map.as_ours, &parameters](at::Tensor& out, uint64_t) {
          weights->read(i, out);
          if (as_ours) as_ours(parameters[i], out);
        },
        map.as_ours ? InitialCode() : codes);
  }
  return weights;
}

std::vector<std::string> weight_files(const std::string& folder) try {
  const auto opened = safetensors::Folder::open(folder);
  std::vector<std::string> paths;
  for (const safetensors::File& file : opened.files()) paths.push_back(file.path());
  return paths;
} catch (const std::exception& error) {
  fail_with(PL_ERROR_CONFIG, error.what());
}

std::string note_of_weights(const std::string& folder) {
  constexpr const char *kWhole = "model.safetensors", *kIndex = "model.safetensors.index.json";
  const std::filesystem::path path(folder);
  std::error_code ignored;
  if (!std::filesystem::exists(path / kWhole, ignored) || !std::filesystem::exists(path / kIndex, ignored))
    return "";
  return concat(folder, ": has both ", kWhole, " and ", kIndex, ": ", kWhole,
                " is read, as transformers does, and not the files that the index names");
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw std::runtime_error(path + ": cannot be written: " + std::strerror(errno));
}

}  // namespace pipeline::hugging_face
