# LibTorch from the unpacked torch wheel, as the imported target torch::cpu. The wheel's own find_package(Torch) insists on a CUDA
# toolkit; the CPU half needs none. What libtorch_cpu needs beside it (libcudart, libcupti) is found by its own RPATH, relative to it.
#
#   PIPELINE_TORCH_DIR  folder that holds torch/ and nvidia/; default: where scripts/setup unpacked the wheels
#   torch::cpu          libtorch_cpu, libc10 and the headers
#   torch::openmp       the OpenMP runtime that LibTorch uses
#   torch::cuda         libtorch_cuda, libc10_cuda as well; only where the wheels' CUDA half is unpacked
if(TARGET torch::cpu)
  return()
endif()
if(DEFINED PIPELINE_WITH_TORCH AND NOT PIPELINE_WITH_TORCH)
  return()
endif()

include(${CMAKE_CURRENT_LIST_DIR}/TorchVersion.cmake)
if(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(_pipeline_cache "$ENV{XDG_CACHE_HOME}/pipeline")
else()
  set(_pipeline_cache "$ENV{HOME}/.cache/pipeline")
endif()
set(PIPELINE_TORCH_DIR "${_pipeline_cache}/torch-${PIPELINE_TORCH_VERSION}" CACHE PATH
    "Folder with the unpacked torch and nvidia wheels")

set(_torch_include "${PIPELINE_TORCH_DIR}/torch/include")
set(_torch_lib "${PIPELINE_TORCH_DIR}/torch/lib")
if(NOT EXISTS "${_torch_include}/ATen/ATen.h" OR NOT EXISTS "${_torch_lib}/libtorch_cpu.so")
  message(FATAL_ERROR
    "LibTorch ${PIPELINE_TORCH_VERSION} is not in PIPELINE_TORCH_DIR = ${PIPELINE_TORCH_DIR}.\n"
    "Run scripts/setup/torch (of an installed package: pipeline devices), which unpacks it there, or give the folder "
    "that holds torch/ and nvidia/: "
    "-DPIPELINE_TORCH_DIR=FOLDER (FOLDER/torch/lib/libtorch_cpu.so). Without LibTorch: -DPIPELINE_WITH_TORCH=OFF.")
endif()

file(STRINGS "${_torch_include}/torch/headeronly/version.h" _torch_version REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
list(TRANSFORM _torch_version REPLACE "[^0-9]" "")
list(JOIN _torch_version "." _torch_version)
if(NOT _torch_version STREQUAL PIPELINE_TORCH_VERSION)
  message(FATAL_ERROR "PIPELINE_TORCH_DIR = ${PIPELINE_TORCH_DIR} holds torch ${_torch_version}; "
                      "this project is built and tested with ${PIPELINE_TORCH_VERSION}: run scripts/setup/torch.")
endif()

add_library(torch::c10 SHARED IMPORTED)
set_target_properties(torch::c10 PROPERTIES IMPORTED_LOCATION "${_torch_lib}/libc10.so")

add_library(torch::cpu SHARED IMPORTED)
set_target_properties(torch::cpu PROPERTIES
  IMPORTED_LOCATION "${_torch_lib}/libtorch_cpu.so"
  INTERFACE_INCLUDE_DIRECTORIES "${_torch_include};${_torch_include}/torch/csrc/api/include"
  INTERFACE_COMPILE_DEFINITIONS "_GLIBCXX_USE_CXX11_ABI=1;PIPELINE_TORCH_VARIANT=\"${PIPELINE_TORCH_VARIANT}\""
  INTERFACE_LINK_LIBRARIES torch::c10)

# LibTorch's own OpenMP runtime: a second one in a process would bring threads of its own.
add_library(torch::openmp SHARED IMPORTED)
set_target_properties(torch::openmp PROPERTIES IMPORTED_LOCATION "${_torch_lib}/libgomp.so.1")

if(EXISTS "${_torch_lib}/libtorch_cuda.so")
  add_library(torch::cuda SHARED IMPORTED)
  set_target_properties(torch::cuda PROPERTIES
    IMPORTED_LOCATION "${_torch_lib}/libtorch_cuda.so"
    INTERFACE_INCLUDE_DIRECTORIES "${PIPELINE_TORCH_DIR}/nvidia/cu13/include"
    INTERFACE_LINK_LIBRARIES "torch::cpu;${_torch_lib}/libc10_cuda.so")
endif()
