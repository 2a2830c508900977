#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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
  pl_dtype dtype = {PL_DTYPE_FLOAT, 32, 1};  // of parameters and products
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

// The first error that a subject of this process has logged; empty: none.
std::string logged_error();

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
