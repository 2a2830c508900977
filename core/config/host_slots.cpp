#include <atomic>
#include <exception>
#include <new>

#include "core/config/option.hpp"
#include "core/config/plugin_config.hpp"

namespace pipeline::config {
namespace {

using ErrorNew = pl_error* (*)(uint32_t, pl_str);

// Set once, before any plugin is loaded.
std::atomic<ErrorNew> error_new;

pl_error* make(uint32_t code, std::string_view message) {
  return error_new.load()(code, {message.data(), message.size()});
}

// No exception may cross the ABI.
template <class Function>
pl_error* guarded(Function&& function) noexcept {
  try {
    function();
    return nullptr;
  } catch (const Error& error) {
    return make(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return make(PL_ERROR_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return make(PL_ERROR_FAILED, error.what());
  }
}

template <class T>
void hand_out(const std::vector<T>& values, const T** out, uint64_t* count) {
  *out = values.data();
  *count = values.size();
}

pl_error* get_bool(const pl_config* config, pl_str key, uint32_t* out) {
  return guarded([&] { *out = config->get_bool(view(key)) ? 1 : 0; });
}

pl_error* get_int(const pl_config* config, pl_str key, int64_t* out) {
  return guarded([&] { *out = config->get_int(view(key)); });
}

pl_error* get_float(const pl_config* config, pl_str key, double* out) {
  return guarded([&] { *out = config->get_float(view(key)); });
}

pl_error* get_string(const pl_config* config, pl_str key, pl_str* out) {
  return guarded([&] { *out = config->string(view(key)); });
}

pl_error* get_int_list(const pl_config* config, pl_str key, const int64_t** out, uint64_t* count) {
  return guarded([&] { hand_out(config->get_int_list(view(key)), out, count); });
}

pl_error* get_float_list(const pl_config* config, pl_str key, const double** out, uint64_t* count) {
  return guarded([&] { hand_out(config->get_float_list(view(key)), out, count); });
}

pl_error* get_string_list(const pl_config* config, pl_str key, const pl_str** out, uint64_t* count) {
  return guarded([&] {
    const std::span<const pl_str> strings = config->string_list(view(key));
    *out = strings.data();
    *count = strings.size();
  });
}

// This slot cannot fail: a key that the schema does not have is not set.
uint32_t is_set(const pl_config* config, pl_str key) {
  try {
    return config->is_set(view(key)) ? 1 : 0;
  } catch (const Error&) {
    return 0;
  }
}

pl_error* new_error(const pl_config* config, pl_str key, pl_str problem) {
  return guarded([&] { throw config->error(view(key), view(problem)); });
}

}  // namespace

void fill_host_slots(pl_host& host) {
  error_new = host.error_new;
  host.config_bool = get_bool;
  host.config_int = get_int;
  host.config_float = get_float;
  host.config_string = get_string;
  host.config_int_list = get_int_list;
  host.config_float_list = get_float_list;
  host.config_string_list = get_string_list;
  host.config_is_set = is_set;
  host.config_error = new_error;
}

}  // namespace pipeline::config
