// Translates LibTorch's exceptions into ABI error codes. Any header of pipeline/torch installs it.
#pragma once

#include <pipeline/guard.hpp>
#include <pipeline/namespace.hpp>

#include <c10/util/Exception.h>

#include <string>

PIPELINE_SDK_BEGIN

inline uint32_t torch_error_code(const c10::Error& error, const std::string& message) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return PL_ERROR_OUT_OF_MEMORY;
  if (dynamic_cast<const c10::DistError*>(&error) != nullptr) return PL_ERROR_PEER;
  if (dynamic_cast<const c10::NotImplementedError*>(&error) != nullptr) return PL_ERROR_UNSUPPORTED;
  // The CPU allocator, the CUDA runtime and cuBLAS report exhausted memory only in the message.
  for (const char* words : {"DefaultCPUAllocator", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED"}) {
    if (message.find(words) != std::string::npos) return PL_ERROR_OUT_OF_MEMORY;
  }
  return PL_ERROR_FAILED;
}

inline std::optional<Error> translate_torch_error(std::exception_ptr exception) {
  try {
    std::rethrow_exception(std::move(exception));
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    return Error(torch_error_code(error, message), message);
  } catch (...) {
    return std::nullopt;
  }
}

inline const bool kTorchErrorsInstalled = (library_translator = translate_torch_error, true);

PIPELINE_SDK_END
