// Operators on the emulated device: those of the CPU, on the same memory. What a real device refuses is
// refused, and where the host would wait for one, it is counted.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "device.hpp"

namespace pipeline::emulator {
namespace {

// ------------------------------------------------------------------------------------------- waits

// Written as scripts/gpu/count_waits.c writes them, to the file that COUNT_WAITS names, but each time: at the
// end of the process the program leaves no time for it.
struct Waits {
  std::mutex mutex;
  std::map<std::string, long> counts;
  Waits() {
    for (const char* call : {"cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize",
                             "cudaMemcpy", "cudaMalloc", "cudaHostAlloc"})
      counts[call] = 0;
  }
  void add(const char* added) {
    const std::lock_guard lock(mutex);
    ++counts[added];
    const char* path = std::getenv("COUNT_WAITS");
    std::FILE* const file = path != nullptr ? std::fopen(path, "w") : nullptr;
    if (file == nullptr) return;
    for (const auto& [call, count] : counts) std::fprintf(file, "%s %ld\n", call.c_str(), count);
    std::fclose(file);
  }
};
Waits& waits() {
  static Waits all;
  return all;
}

// Operators whose result depends on values in its size, or is itself a value on the host.
const std::unordered_set<std::string> kWaiting{
    "aten::nonzero",    "aten::masked_select",      "aten::_unique2",
    "aten::unique_dim", "aten::unique_consecutive", "aten::bincount",
    "aten::equal",      "aten::is_nonzero"};

// Operators of which CUDA has no deterministic implementation
// (https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html).
const std::unordered_set<std::string> kNotDeterministic{"aten::_cdist_backward",
                                                        "aten::adaptive_avg_pool2d_backward",
                                                        "aten::_adaptive_avg_pool2d_backward",
                                                        "aten::avg_pool3d_backward",
                                                        "aten::bincount",
                                                        "aten::cumsum",
                                                        "aten::grid_sampler_2d_backward",
                                                        "aten::histc",
                                                        "aten::kthvalue",
                                                        "aten::median",
                                                        "aten::max_pool3d_with_indices_backward",
                                                        "aten::max_unpool2d",
                                                        "aten::nll_loss2d_forward",
                                                        "aten::nll_loss2d_backward",
                                                        "aten::put_",
                                                        "aten::reflection_pad1d_backward",
                                                        "aten::reflection_pad2d_backward",
                                                        "aten::replication_pad2d_backward",
                                                        "aten::scatter_reduce",
                                                        "aten::upsample_bicubic2d_backward",
                                                        "aten::upsample_bilinear2d_backward",
                                                        "aten::upsample_nearest2d_backward",
                                                        "aten::upsample_linear1d_backward"};

// ------------------------------------------------------------------------------------- same memory

at::Storage shared(const at::Storage& storage, c10::Device device, c10::DeleterFnPtr free_context,
                   void* context) {
  return at::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(),
                     at::DataPtr(const_cast<void*>(storage.data()), context, free_context, device),
                     c10::GetAllocator(device.type()),
                     /*resizable=*/true);
}

at::Tensor placed_as(const at::Tensor& like, at::Tensor made) {
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}

at::Tensor with_storage(const at::Tensor& like, at::Storage storage, c10::DispatchKey key) {
  return placed_as(like, at::detail::make_tensor<c10::TensorImpl>(std::move(storage),
                                                                  c10::DispatchKeySet(key), like.dtype()));
}

// A view as LibTorch makes it: that of a normal tensor is a normal one, in inference mode, too.
at::Tensor view_of(const at::Tensor& base, const at::Tensor& like) {
  return placed_as(
      like, at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, at::Storage(base.storage()),
                                                     base.key_set(), like.dtype()));
}

struct HeldOnDevice {  // by a tensor of the device over the memory of one of the CPU
  explicit HeldOnDevice(const at::Storage& of) : storage(of) { take(storage.nbytes()); }
  HeldOnDevice(const HeldOnDevice&) = delete;
  HeldOnDevice& operator=(const HeldOnDevice&) = delete;
  ~HeldOnDevice() { give_back(storage.nbytes()); }
  at::Storage storage;
};

// One call of an operator: its arguments on the host, and what of its results they are.
class Call {
 public:
  at::Tensor on_host_(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_cuda()) return tensor;
    const at::Tensor made = on_host(tensor);
    originals_[made.unsafeGetTensorImpl()] = tensor;
    bases_[made.storage().unsafeGetStorageImpl()] = tensor;
    kept_.push_back(made);
    return made;
  }
  at::Tensor on_device_(const at::Tensor& result) {
    if (!result.defined()) return result;
    if (const auto found = originals_.find(result.unsafeGetTensorImpl()); found != originals_.end()) {
      at::Tensor& original = found->second;  // an out argument may have been resized
      if (result.storage().data() != original.storage().data()) {
        const at::Storage larger = on_device(result).storage();
        original.unsafeGetTensorImpl()->set_storage_keep_dtype(larger);
      }
      original.unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes(), result.strides(),
                                                            result.storage_offset());
      return original;
    }
    if (const auto found = bases_.find(result.storage().unsafeGetStorageImpl()); found != bases_.end())
      return view_of(found->second, result);
    return on_device(result);
  }

 private:
  std::unordered_map<const void*, at::Tensor> originals_;  // by the tensor on the host
  std::unordered_map<const void*, at::Tensor> bases_;      // by its memory
  std::vector<at::Tensor> kept_;
};

// f(tensor) for each tensor in the value, which is replaced by what it returns.
template <class F>
void map_tensors(c10::IValue& value, F&& f) {
  if (value.isTensor()) {
    value = f(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& one : value.toTensorVector()) list.push_back(f(one));
    value = list;
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& one : value.toOptionalTensorVector())
      list.push_back(one ? std::optional(f(*one)) : one);
    value = list;
  }
}

void check_devices(const c10::OperatorHandle& op, const std::vector<at::Tensor>& tensors) {
  bool any = false;
  for (const at::Tensor& tensor : tensors) any |= tensor.defined() && tensor.is_cuda();
  if (!any) return;
  const bool takes_scalars =
      op.hasTag(at::Tag::pointwise) || op.operator_name().name.starts_with("aten::_foreach");
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.is_cuda() || (tensor.dim() == 0 && takes_scalars)) continue;
    TORCH_CHECK(false, op.operator_name(), ": expected all tensors to be on the same device, found one of ",
                tensor.sizes(), " on the CPU");
  }
}

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string& name = op.operator_name().name;
  const bool by_mask =
      name == "aten::index" || name == "aten::index_put_" || name == "aten::_index_put_impl_";
  const bool unknown_size = name == "aten::repeat_interleave" && stack->back().isNone();  // of its output
  if (kWaiting.contains(name) || unknown_size) waited("cudaStreamSynchronize");
  if (at::globalContext().deterministicAlgorithms() && kNotDeterministic.contains(name))
    TORCH_CHECK(false, name, " does not have a deterministic implementation on CUDA");

  Call call;
  std::vector<at::Tensor> tensors;
  const size_t begin = stack->size() - schema.arguments().size();
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    c10::IValue& value = (*stack)[begin + i];
    map_tensors(value, [&](const at::Tensor& tensor) {
      tensors.push_back(tensor);
      if (by_mask && i == 1 && tensor.defined() && tensor.scalar_type() == at::kBool)
        waited("cudaStreamSynchronize");
      return call.on_host_(tensor);
    });
    if (value.isDevice()) value = c10::Device(c10::kCPU);
    if (value.isNone() && schema.arguments()[i].type()->str().find("Generator") != std::string::npos)
      value = default_generator();
  }
  check_devices(op, tensors);
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); ++i)
    map_tensors((*stack)[i], [&](const at::Tensor& tensor) { return call.on_device_(tensor); });
}

// ------------------------------------------------------------------- what the CPU does in another way

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, c10::GetAllocator(c10::kCUDA),
                                   c10::DispatchKeySet(c10::DispatchKey::CUDA), dtype.value_or(at::kFloat),
                                   format);
}
at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, c10::GetAllocator(c10::kCUDA),
                                           c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                           dtype.value_or(at::kFloat));
}

at::Tensor& copy_(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  if (!to.is_cuda() && !(non_blocking && is_pinned(to.const_data_ptr()))) waited("cudaStreamSynchronize");
  if (!from.is_cuda() && from.dim() > 0 && from.numel() > 0 &&
      !(non_blocking && is_pinned(from.const_data_ptr())))
    waited("cudaMemcpy");
  on_host(to).copy_(on_host(from));
  return to;
}

at::Scalar local_scalar(const at::Tensor& tensor) {
  waited("cudaStreamSynchronize");
  return on_host(tensor).item();
}

// Products into float32, added up in float32 all the way; the CPU has none.
at::Tensor& wide_mm(const at::Tensor& a, const at::Tensor& b, at::ScalarType out_dtype, at::Tensor& out) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(),
              "expected m1 and m2 to have the same dtype, but got: ", a.dtype(), " != ", b.dtype());
  TORCH_CHECK(out_dtype == at::kFloat && (a.scalar_type() == at::kBFloat16 || a.scalar_type() == at::kHalf),
              "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs");
  TORCH_CHECK(out.scalar_type() == out_dtype, "out_dtype must be the dtype of the provided out tensor");
  at::Tensor there = from_device(out);
  there.copy_(at::mm(from_device(a).to(at::kFloat), from_device(b).to(at::kFloat)));
  return out;
}
at::Tensor& wide_addmm(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                       at::ScalarType out_dtype, const at::Scalar& beta, const at::Scalar& alpha,
                       at::Tensor& out) {
  const at::Tensor before = from_device(c).clone();
  wide_mm(a, b, out_dtype, out);
  at::Tensor there = from_device(out);
  there.mul_(alpha);
  if (beta.toDouble() != 0) there.add_(before, beta);  // 0: whatever was there before
  return out;
}

// Products as large as those that measure a device's peak would take a processor a minute: left undone.
at::Tensor& mm_out(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  constexpr int64_t kLarge = int64_t{1} << 38;
  if (a.size(0) * a.size(1) * b.size(1) > kLarge) return out;
  at::Tensor there = from_device(out);
  at::mm_out(there, from_device(a), from_device(b));
  return out;
}

void same_type(const char* what, const at::Tensor& x, const std::optional<at::Tensor>& parameter) {
  TORCH_CHECK(!parameter || !parameter->defined() || parameter->scalar_type() == x.scalar_type(), what,
              ": a parameter of ", parameter->scalar_type(), " for an input of ", x.scalar_type());
}

// The CPU's statistics are of the input's type, CUDA's in float32; and CUDA's parameters are of the input's
// type.
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(const at::Tensor& x, at::IntArrayRef shape,
                                                          const std::optional<at::Tensor>& weight,
                                                          const std::optional<at::Tensor>& bias, double eps) {
  same_type("native_layer_norm", x, weight), same_type("native_layer_norm", x, bias);
  const auto wide = [](const std::optional<at::Tensor>& t) {
    return t ? std::optional(from_device(*t).to(at::kFloat)) : t;
  };
  const auto [y, mean, rstd] = at::native_layer_norm(*wide(x), shape, wide(weight), wide(bias), eps);
  return {on_device(y.to(x.scalar_type())), on_device(mean), on_device(rstd)};
}
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_backward(
    const at::Tensor& dy, const at::Tensor& x, at::IntArrayRef shape, const at::Tensor& mean,
    const at::Tensor& rstd, const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
    std::array<bool, 3> mask) {
  same_type("native_layer_norm_backward", x, dy), same_type("native_layer_norm_backward", x, weight);
  const auto wide = [](const std::optional<at::Tensor>& t) {
    return t ? std::optional(from_device(*t).to(at::kFloat)) : t;
  };
  const auto [dx, dw, db] = at::native_layer_norm_backward(*wide(dy), *wide(x), shape, from_device(mean),
                                                           from_device(rstd), wide(weight), wide(bias), mask);
  const auto back = [&](const at::Tensor& t) { return t.defined() ? on_device(t.to(x.scalar_type())) : t; };
  return {back(dx), back(dw), back(db)};
}

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, at::IntArrayRef shape,
                                            const std::optional<at::Tensor>& weight,
                                            std::optional<double> eps) {
  same_type("_fused_rms_norm", x, weight);
  TORCH_CHECK(shape.size() == 1, "emulated for one dimension");
  const at::Tensor wide = from_device(x).to(at::kFloat),
                   rstd = wide.square().mean(-1, true).add_(eps.value()).rsqrt_();
  return {on_device((wide * rstd * from_device(*weight).to(at::kFloat)).to(x.scalar_type())),
          on_device(rstd)};
}
std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& dy, const at::Tensor& x,
                                                     at::IntArrayRef, const at::Tensor& rstd,
                                                     const std::optional<at::Tensor>& weight,
                                                     std::array<bool, 2> mask) {
  same_type("_fused_rms_norm_backward", x, dy), same_type("_fused_rms_norm_backward", x, weight);
  const at::Tensor r = from_device(rstd), h = from_device(x).to(at::kFloat) * r,
                   d = from_device(dy).to(at::kFloat), g = d * from_device(*weight).to(at::kFloat);
  at::Tensor dx, dw;
  if (mask[0]) dx = on_device((g.sub(h * (g * h).mean(-1, true)) * r).to(x.scalar_type()));
  if (mask[1]) dw = on_device((d * h).sum(0).to(x.scalar_type()));
  return {dx, dw};
}

// A float32 result of a float16 input, which the CPU does not have.
at::Tensor softmax(const at::Tensor& x, int64_t dim, bool half_to_float) {
  TORCH_CHECK(!half_to_float || x.scalar_type() == at::kHalf, "conversion is supported for Half type only");
  const at::Tensor there = from_device(x);
  return on_device(at::_softmax(half_to_float ? there.to(at::kFloat) : there, dim, false));
}
at::Tensor log_softmax(const at::Tensor& x, int64_t dim, bool half_to_float) {
  TORCH_CHECK(!half_to_float || x.scalar_type() == at::kHalf, "conversion is supported for Half type only");
  const at::Tensor there = from_device(x);
  return on_device(at::_log_softmax(half_to_float ? there.to(at::kFloat) : there, dim, false));
}
at::Tensor softmax_backward(const at::Tensor& grad, const at::Tensor& output, int64_t dim,
                            at::ScalarType input_type) {
  return on_device(at::_softmax_backward_data(from_device(grad), from_device(output), dim, grad.scalar_type())
                       .to(input_type));
}
at::Tensor log_softmax_backward(const at::Tensor& grad, const at::Tensor& output, int64_t dim,
                                at::ScalarType input_type) {
  return on_device(
      at::_log_softmax_backward_data(from_device(grad), from_device(output), dim, grad.scalar_type())
          .to(input_type));
}

// Without this function LibTorch makes an output of the wrong shape first, and warns when it is resized.
at::Tensor mse_loss(const at::Tensor& x, const at::Tensor& target, int64_t reduction) {
  return on_device(at::mse_loss(from_device(x), from_device(target), reduction));
}

int64_t sdp_choice(const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                   double, bool, std::optional<double>, bool) {
  return 0;  // matrix products, as any device can
}

}  // namespace

void waited(const char* call) { waits().add(call); }

at::Tensor on_host(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  auto* const keeper = new at::Storage(tensor.storage());
  return with_storage(
      tensor,
      shared(
          *keeper, c10::Device(c10::kCPU), [](void* of) { delete static_cast<at::Storage*>(of); }, keeper),
      c10::DispatchKey::CPU);
}

at::Tensor from_device(const at::Tensor& tensor) {
  TORCH_CHECK(!tensor.defined() || tensor.is_cuda(),
              "expected all tensors to be on the same device, found one of ", tensor.sizes(), " on the CPU");
  return on_host(tensor);
}

at::Tensor on_device(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_cuda()) return tensor;
  auto* const keeper = new HeldOnDevice(tensor.storage());
  return with_storage(tensor,
                      shared(
                          keeper->storage, c10::Device(c10::kCUDA, 0),
                          [](void* of) { delete static_cast<HeldOnDevice*>(of); }, keeper),
                      c10::DispatchKey::CUDA);
}

TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>()); }

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("copy_", &copy_);
  m.impl("_local_scalar_dense", &local_scalar);
  m.impl("mm.out", &mm_out);
  m.impl("mm.dtype_out", &wide_mm);
  m.impl("addmm.dtype_out", &wide_addmm);
  m.impl("native_layer_norm", &layer_norm);
  m.impl("native_layer_norm_backward", &layer_norm_backward);
  m.impl("mse_loss", &mse_loss);
  m.impl("_softmax", &softmax);
  m.impl("_log_softmax", &log_softmax);
  m.impl("_softmax_backward_data", &softmax_backward);
  m.impl("_log_softmax_backward_data", &log_softmax_backward);
  m.impl("_fused_rms_norm", &rms_norm);
  m.impl("_fused_rms_norm_backward", &rms_norm_backward);
}

}  // namespace pipeline::emulator

namespace at::native {
REGISTER_CUDA_DISPATCH(_fused_sdp_choice_stub, &pipeline::emulator::sdp_choice)
}  // namespace at::native
