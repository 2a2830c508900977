function(pipeline_torch_pch name)
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/cmake/torch_pch.cpp)
  target_compile_options(${name} PRIVATE ${ARGN})
  target_link_libraries(${name} PRIVATE torch::cpu)
  target_precompile_headers(${name} PRIVATE
    <algorithm> <atomic> <cmath> <cstdint> <functional> <map> <memory> <mutex> <optional> <span> <string> <string_view> <unordered_map>
    <utility> <vector>
    <ATen/ATen.h>
    <ATen/Parallel.h>
    <torch/csrc/autograd/custom_function.h>
    <torch/csrc/autograd/function_hook.h>
    <torch/nn/cloneable.h>
    <torch/nn/module.h>)
endfunction()

if(TARGET torch::cpu)
  pipeline_torch_pch(torch_pch)
  pipeline_torch_pch(torch_pch_unoptimized -O0)
endif()

# pipeline_use_torch(TARGET [UNOPTIMIZED]): links LibTorch and reuses one precompiled header for all targets that do; without it a source
# file spends most of its compile time in these headers. A target that needs no LibTorch never sees it.
#
# UNOPTIMIZED: for tests, which take less than half as long to compile so. GCC takes a precompiled header only where it optimizes alike: they
# have one of their own. What they link is optimized all the same.
function(pipeline_use_torch target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "UNOPTIMIZED" "" "")
  target_link_libraries(${target} PRIVATE torch::cpu)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    # The header is compiled with -fPIC; GCC refuses it in a file compiled with -fPIE, which CMake passes for executables.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  if(arg_UNOPTIMIZED)
    target_compile_options(${target} PRIVATE -O0)
    target_precompile_headers(${target} REUSE_FROM torch_pch_unoptimized)
  else()
    target_precompile_headers(${target} REUSE_FROM torch_pch)
  endif()
endfunction()
