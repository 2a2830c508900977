// The extension pl.profiler/1: Kineto, as torch.profiler uses it.
#pragma once

#include <pipeline/guard.hpp>
#include <pipeline/namespace.hpp>
#include <pipeline/text.hpp>
#include <pipeline/torch/errors.hpp>

#include <ATen/record_function.h>
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

// One table per plugin, one profiler in the process: LibTorch's own. Static.
inline const pl_profiler* profiler_extension() {
  namespace kineto = torch::autograd::profiler;
  namespace impl = torch::profiler::impl;
  static const pl_profiler table{
      .struct_size = sizeof(pl_profiler),
      .reserved = 0,
      .start =
          [](const pl_host*, const pl_run_info* info) {
            return guard([&] {
              std::set<impl::ActivityType> activities{impl::ActivityType::CPU};
              if (info->device.type == PL_DEVICE_CUDA) activities.insert(impl::ActivityType::CUDA);
              impl::ExperimentalConfig details;
              details.profile_all_threads = true;  // those of the loader and of backends, too
              const impl::ProfilerConfig config(impl::ProfilerState::KINETO, false, false, false, false,
                                                false, details);
              kineto::prepareProfiler(config, activities);
              kineto::enableProfiler(config, activities,
                                     {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
                                      at::RecordScope::USER_SCOPE});
            });
          },
      .stop =
          [](const pl_host*, pl_str path) {
            return guard([&] {
              const std::unique_ptr<kineto::ProfilerResult> result = kineto::disableProfiler();
              if (path.len > 0) result->save(std::string(view(path)));
            });
          }};
  return &table;
}

PIPELINE_SDK_END
