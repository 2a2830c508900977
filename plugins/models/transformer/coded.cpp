#include "coded.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <numeric>
#include <utility>

#include "cuda/kernels.hpp"
#include "plugins/parallel/parallel.hpp"

namespace pipeline::transformer {
namespace {

using quantization::Form;
using quantization::Row;

Form form_of(uint32_t form) { return form == PL_FORM_INT8 ? Form::kInt8 : Form::kNf4; }

// values: (R, C), maybe some columns of a wider matrix, whose transposition as it is would go to another row
// for each element.
at::Tensor transposed(const at::Tensor& values) {
  at::Tensor result = at::empty({values.size(1), values.size(0)}, values.options());
  parallel::rows(values.size(1), 256, values.size(0), [&](int64_t begin, int64_t end) {
    result.narrow(0, begin, end - begin).copy_(values.narrow(1, begin, end - begin).contiguous().t());
  });
  return result;
}

class MatrixCoding : public Coding {
 public:
  explicit MatrixCoding(std::vector<int64_t> columns) : columns_(std::move(columns)) {}

  uint64_t bytes(const Parameter& p, uint32_t form) const override {
    return static_cast<uint64_t>(p.shape[1] * Row::bytes(form_of(form), p.shape[0]));
  }

  void encode(const Parameter& p, uint32_t form, const at::Tensor& values, std::byte* out) const override {
    int64_t first = 0;
    for (const int64_t count : columns_) {
      const at::Tensor rows = transposed(values.narrow(1, first, count));
      quantization::encode(
          form_of(form), count, p.shape[0], rows.const_data_ptr<float>(), out,
          [&](int64_t parts, const auto& body) { parallel::rows(parts, 256, p.shape[0], body); });
      out += count * Row::bytes(form_of(form), p.shape[0]);
      first += count;
    }
  }

  at::Tensor bound(const Parameter& p, const at::Tensor& bytes) const override {
    for (const uint32_t form : {PL_FORM_INT8, PL_FORM_NF4})
      if (static_cast<uint64_t>(bytes.numel()) == this->bytes(p, form))
        return bytes.view(form == PL_FORM_INT8 ? at::kChar : at::kByte).view({p.shape[1], -1});
    TORCH_CHECK(false, p.name, " is bound to ", bytes.numel(), " bytes: expected ",
                this->bytes(p, PL_FORM_INT8), " or ", this->bytes(p, PL_FORM_NF4));
  }

  at::Tensor decode(const Parameter& /*p*/, const at::Tensor& bound) const override {
    return decoded(bound.cpu(), at::kFloat);
  }

 private:
  std::vector<int64_t> columns_;  // of each part
};

}  // namespace

Form form_of(const at::Tensor& coded) { return coded.scalar_type() == at::kChar ? Form::kInt8 : Form::kNf4; }

int64_t inputs(const at::Tensor& weight) {
  return is_coded(weight) ? Row::columns(form_of(weight), weight.size(1)) : weight.size(0);
}

at::Tensor outputs_of(const at::Tensor& weight, int64_t first, int64_t count) {
  return weight.narrow(is_coded(weight) ? 0 : 1, first, count);
}

at::Tensor decoded(const at::Tensor& coded, at::ScalarType type) {
  const int64_t in = inputs(coded), out = outputs(coded);
  if (!coded.is_cpu()) return cuda::decode(form_of(coded), coded, in, type).t();
  at::Tensor rows = at::empty({out, in}, at::kFloat);
  parallel::rows(out, 1, in, [&](int64_t begin, int64_t end) {
    const auto* const from = static_cast<const uint8_t*>(coded.const_data_ptr());
    float* const to = rows.mutable_data_ptr<float>();
    for (int64_t row = begin; row < end; ++row)
      Row(form_of(coded), in, from + row * coded.stride(0))
          .decode(0, {to + row * in, static_cast<size_t>(in)});
  });
  return rows.to(type).t();
}

std::shared_ptr<const Coding> coding_of_parts(int64_t in, std::vector<int64_t> columns) {
  if (columns.empty() || !Row::takes(in)) return nullptr;
  return std::make_shared<const MatrixCoding>(std::move(columns));
}

}  // namespace pipeline::transformer
