// The extension pl.runtime/1: LibTorch's allocator, and Kineto as torch.profiler uses it.
#pragma once

#include <pipeline/error.hpp>
#include <pipeline/guard.hpp>
#include <pipeline/namespace.hpp>
#include <pipeline/torch/errors.hpp>
#include <pipeline/torch/tensor.hpp>

#include <ATen/record_function.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <set>
#include <string>
#include <unordered_set>

PIPELINE_SDK_BEGIN

// A part of a step with a name, from here to the end of the scope, in a trace. Costs a look at a flag where
// nobody records one. `name` is a literal.
class TraceScope {
 public:
  explicit TraceScope(const char* name) : record_(at::RecordScope::USER_SCOPE) {
    if (record_.isActive()) record_.before(name);
  }

 private:
  at::RecordFunction record_;
};

// One table per plugin, one profiler in the process: LibTorch's own. Static; without peak_flops and flags.
inline const pl_runtime* runtime_extension() {
  namespace kineto = torch::autograd::profiler;
  namespace impl = torch::profiler::impl;
  static const pl_runtime table = [] {
    auto t = sized<pl_runtime>();
    t.empty_cache = [](const pl_host*, const pl_run_info* info) {
      return guard([&] {
        const c10::Device device = to_torch(info->device);
        if (!device.is_cpu()) c10::getDeviceAllocator(device.type())->emptyCache();
      });
    };
    t.start_profile = [](const pl_host*, const pl_run_info* info) {
      return guard([&] {
        std::set<impl::ActivityType> activities{impl::ActivityType::CPU};
        if (info->device.type == PL_DEVICE_CUDA) activities.insert(impl::ActivityType::CUDA);
        impl::ExperimentalConfig details;
        details.profile_all_threads = true;  // those of the loader and of backends, too
        const impl::ProfilerConfig config(impl::ProfilerState::KINETO, false, false, false, false, false,
                                          details);
        kineto::prepareProfiler(config, activities);
        kineto::enableProfiler(
            config, activities,
            {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE});
      });
    };
    t.stop_profile = [](const pl_host*, pl_str path) {
      return guard([&] {
        const std::unique_ptr<kineto::ProfilerResult> result = kineto::disableProfiler();
        if (path.len > 0) result->save(std::string(view(path)));
      });
    };
    return t;
  }();
  return &table;
}

PIPELINE_SDK_END
