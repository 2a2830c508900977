# pipeline_use_torch(TARGET): links LibTorch and reuses one precompiled header for all targets that do; without it a source file
# spends most of its compile time in these headers. A target that needs no LibTorch never sees it.
if(TARGET torch::cpu)
  add_library(torch_pch OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/torch_pch.cpp)
  target_link_libraries(torch_pch PRIVATE torch::cpu)
  target_precompile_headers(torch_pch PRIVATE
    <algorithm> <atomic> <cmath> <cstdint> <functional> <map> <memory> <mutex> <optional> <span> <string> <string_view> <unordered_map>
    <utility> <vector>
    <ATen/ATen.h>
    <ATen/Parallel.h>
    <torch/csrc/autograd/custom_function.h>
    <torch/csrc/autograd/function_hook.h>
    <torch/nn/cloneable.h>
    <torch/nn/module.h>)
endif()

function(pipeline_use_torch target)
  target_link_libraries(${target} PRIVATE torch::cpu)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    # The header is compiled with -fPIC; GCC refuses it in a file compiled with -fPIE, which CMake passes for executables.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_precompile_headers(${target} REUSE_FROM torch_pch)
endfunction()
