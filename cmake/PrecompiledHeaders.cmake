# Headers in which a source file would spend most of its compile time are compiled once for all targets that use them.

# pipeline_precompile(NAME [LIBS target...] [OPTIONS option...] HEADERS header...): NAME is what pipeline_reuse() takes.
function(pipeline_precompile name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBS;OPTIONS;HEADERS")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/cmake/pch.cpp)
  target_compile_options(${name} PRIVATE ${arg_OPTIONS})
  target_link_libraries(${name} PRIVATE ${arg_LIBS})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()

# pipeline_reuse(TARGET NAME): TARGET must be compiled with the options of NAME; GCC refuses a header that was optimized otherwise.
function(pipeline_reuse target name)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    # The header is compiled with -fPIC; GCC refuses it in a file compiled with -fPIE, which CMake passes for executables.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${name})
endfunction()

# What most sources that use LibTorch include. Not <ATen/ATen.h>: with every operator it takes twice as long, here and in each file that
# reuses it. A source includes the operators that it calls.
set(torch_operators arange cat empty empty_like from_blob full layer_norm log_softmax mm ones sigmoid stack tensor where zeros)
list(TRANSFORM torch_operators REPLACE "(.+)" "<ATen/ops/\\1.h>")
set(torch_headers <algorithm> <atomic> <cmath> <cstdint> <functional> <map> <memory> <mutex> <optional> <span> <string> <string_view>
    <unordered_map> <utility> <vector>
    <ATen/core/Tensor.h> ${torch_operators} <ATen/Parallel.h> <ATen/TensorOperators.h>
    <torch/csrc/autograd/custom_function.h> <torch/csrc/autograd/function_hook.h>)
if(TARGET torch::cpu)
  pipeline_precompile(torch_pch LIBS torch::cpu HEADERS ${torch_headers})
  target_compile_definitions(torch_pch PRIVATE AT_PER_OPERATOR_HEADERS)
  pipeline_warm(torch_pch)
endif()

# pipeline_use_torch(TARGET): links LibTorch and reuses its precompiled headers. A target that needs no LibTorch never sees it.
function(pipeline_use_torch target)
  target_link_libraries(${target} PRIVATE torch::cpu)
  target_compile_definitions(${target} PRIVATE AT_PER_OPERATOR_HEADERS) # ATen's own headers include few operators, too
  pipeline_reuse(${target} torch_pch)
  pipeline_warm(${target})
endfunction()

# Compiles a source of `target` with OpenMP, apart, because the precompiled header is made without. LibTorch brings the runtime.
function(pipeline_use_openmp target source)
  add_library(${target}_parallel OBJECT ${source})
  target_include_directories(${target}_parallel PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target}_parallel PRIVATE torch::cpu)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_parallel>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target}_parallel PRIVATE -fopenmp)
    target_link_libraries(${target} PRIVATE torch::openmp)
  endif()
endfunction()
