// No exception leaves a plugin: every slot's body runs inside guard().
#pragma once

#include <pipeline/host.hpp>
#include <pipeline/namespace.hpp>

#include <exception>
#include <new>
#include <optional>
#include <utility>

PIPELINE_SDK_BEGIN

// Turns an exception of a library that the plugin uses into an Error; nullopt: not that library's
// exception. Called inside a catch block. A header that wraps such a library installs its own translator
// (pipeline/torch/errors.hpp does).
using Translator = std::optional<Error> (*)(std::exception_ptr exception);
inline Translator library_translator = nullptr;

inline Error current_error() noexcept(false) {
  const std::exception_ptr exception = std::current_exception();
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(PL_ERROR_OUT_OF_MEMORY, "out of memory on the host");
  } catch (const std::exception& error) {
    if (library_translator != nullptr) {
      if (std::optional<Error> translated = library_translator(exception)) return *translated;
    }
    return Error(error.what());
  } catch (...) {
    return Error("an exception that is not a std::exception");
  }
}

inline std::string with_plugin_name(const Error& error) {
  if (error.was_received() || globals().plugin_name.empty()) return error.what();
  return globals().plugin_name + ": " + error.what();
}

template <class F>
pl_error* guard(F&& body) noexcept {
  try {
    std::forward<F>(body)();
    return nullptr;
  } catch (...) {
    try {
      const Error error = current_error();
      return make_error(error.code(), with_plugin_name(error));
    } catch (...) {  // no memory left for the message
      return make_error(PL_ERROR_OUT_OF_MEMORY, "out of memory on the host");
    }
  }
}

// For slots that cannot report errors: logs the failure and returns `otherwise`.
template <class T, class F>
T guard_value(const pl_context* context, T otherwise, F&& body) noexcept {
  T result = otherwise;
  pl_error* error = guard([&] { result = std::forward<F>(body)(); });
  if (error == nullptr) return result;
  host().log(context, PL_LOG_ERROR, host().error_message(error));
  host().error_free(error);
  return otherwise;
}

template <class F>
void guard_void(const pl_context* context, F&& body) noexcept {
  guard_value(context, 0, [&] {
    std::forward<F>(body)();
    return 0;
  });
}

PIPELINE_SDK_END
