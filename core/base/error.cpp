#include "core/base/error.hpp"

#include <memory>
#include <new>

#include "core/base/abi_values.hpp"

namespace pipeline {
namespace {

// Handed out when there is no memory for a new one; never freed.
pl_error* out_of_memory() noexcept {
  static pl_error error{PL_ERROR_OUT_OF_MEMORY, "out of memory"};  // short: needs no allocation
  return &error;
}

void free_error(pl_error* error) noexcept {
  if (error != out_of_memory()) delete error;
}

pl_error* error_new(uint32_t code, pl_str message) noexcept {
  try {
    return new pl_error{code, std::string(view(message))};
  } catch (...) {
    return out_of_memory();
  }
}

}  // namespace

void check(pl_error* error) {
  if (!error) return;
  std::unique_ptr<pl_error, void (*)(pl_error*)> owner(error, [](pl_error* e) { free_error(e); });
  throw Error(error->code, error->message);
}

pl_error* make_error(uint32_t code, const std::string& message) noexcept {
  return error_new(code, to_pl(message));
}

pl_error* current_exception_as_error() noexcept {
  try {
    throw;
  } catch (const Error& e) {
    return error_new(e.code(), to_pl(e.what()));
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::exception& e) {
    return error_new(PL_ERROR_FAILED, to_pl(e.what()));
  } catch (...) {
    return error_new(PL_ERROR_FAILED, to_pl("an exception that is not a std::exception"));
  }
}

void fill_error_slots(pl_host& host) {
  host.error_new = error_new;
  host.error_code = [](const pl_error* error) noexcept { return error->code; };
  host.error_message = [](const pl_error* error) noexcept { return to_pl(error->message); };
  host.error_free = free_error;
}

}  // namespace pipeline
