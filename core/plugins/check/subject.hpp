#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fail.hpp"
#include "core/config/settings.hpp"
#include "core/plugins/check/check_plugin.hpp"
#include "core/plugins/host.hpp"
#include "core/plugins/plugin.hpp"

namespace pipeline::plugins {

// Why most checks of a plugin with a required option are skipped.
inline constexpr std::string_view kNeedsConfig = "an option is required: give a configuration file";

// A reason to skip a check, thrown by it.
struct Skip {
  std::string reason;
};

// What the run of a check is told to be.
struct SubjectHow {
  uint32_t purpose = PL_PURPOSE_TRAIN;
  uint32_t flags = PL_RUN_REPRODUCIBLE;
  pl_dtype dtype{PL_DTYPE_FLOAT, 32, 1};  // of parameters and products
};

// The plugin under test with all that an object of it is created with. Lives in a check's own process.
class Subject {
 public:
  // Throws Skip when an option is required and no configuration gives it.
  explicit Subject(const CheckArgs& args, const SubjectHow& how = {});
  ~Subject();

  const Plugin& plugin() const { return plugin_; }
  pl_context& context() const { return *context_; }
  const pl_config* config() const { return &config_; }

 private:
  const Plugin& plugin_;
  pl_config config_;
  std::unique_ptr<pl_context> context_;
  std::filesystem::path folder_;  // run and cache folder, removed at the end
};

template <class T>
T* data_of(const pl_tensor& tensor) {
  return reinterpret_cast<T*>(static_cast<char*>(tensor.data) + tensor.byte_offset);
}

// A view of numbers in host memory. `shape`, of `ndim` lengths, must outlive it; none: a scalar.
inline pl_tensor host_tensor(void* data, pl_dtype dtype, int64_t* shape = nullptr, int32_t ndim = 0) {
  pl_tensor view{};
  view.data = data;
  view.device = {PL_DEVICE_CPU, 0};
  view.ndim = ndim;
  view.dtype = dtype;
  view.shape = shape;
  return view;
}
inline constexpr pl_dtype kFloat32{PL_DTYPE_FLOAT, 32, 1};

// The first error that a subject of this process has logged; empty: none.
std::string logged_error();

// Throws unless `call` refuses an options struct that sets a field which it does not know, or a reserved one.
// `good`: one that it takes, which it gets at the end. The message: `before`, what is set, `behind`.
template <class Args>
void require_unknown_refused(const char* before, const char* behind, const Args& good,
                             const std::function<pl_error*(const Args* args)>& call) {
  struct {
    Args args;
    uint64_t option_of_the_future;
  } longer{good, 1};
  longer.args.struct_size = sizeof longer;
  const auto must_refuse = [&](const char* setting) {
    pl_error* error = call(&longer.args);
    if (!error) fail("{}{}{}", before, setting, behind);
    host_table().error_free(error);
  };
  must_refuse("an option it cannot know");
  longer.option_of_the_future = 0;
  longer.args.reserved = 1;
  must_refuse("`reserved`");
  longer.args.reserved = 0;
  check(call(&longer.args));
}

// One promise and the function that tests it: throws an exception when it is broken, Skip when it does not
// apply.
struct Promise {
  std::string name;
  std::function<void(const CheckArgs& args)> test;
  std::string needs = {};  // the promise without which this one says nothing; empty: none
};

std::vector<Promise> library_promises();
std::vector<Promise> task_promises();
std::vector<Promise> strategy_promises();
std::vector<Promise> backend_promises();
std::vector<Promise> optimizer_promises();

// The names of the symbols that a 64-bit ELF library exports, as `nm -D --defined-only` shows them. Throws
// Error for a file that is none or is damaged.
std::vector<std::string> exported_symbols(const std::filesystem::path& file);

}  // namespace pipeline::plugins
