find_package(GTest REQUIRED)

# Tests are not optimized: GoogleTest's macros would take more than twice as long to compile. What a test links is optimized all the same.
set(test_headers <chrono> <cmath> <cstdint> <cstdlib> <filesystem> <fstream> <functional> <map> <memory> <set> <sstream> <string>
    <string_view> <thread> <utility> <vector> <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp>)
set(test_libraries GTest::gmock nlohmann_json::nlohmann_json)
pipeline_precompile(test_pch LIBS ${test_libraries} OPTIONS -O0 HEADERS ${test_headers})
if(TARGET torch::cpu)
  pipeline_precompile(torch_test_pch LIBS ${test_libraries} torch::cpu OPTIONS -O0
    HEADERS ${test_headers} <ATen/ATen.h> <ATen/Parallel.h> <torch/csrc/autograd/custom_function.h> <torch/nn/cloneable.h>)
endif()

# pipeline_compile_quickly(TARGET [TORCH]): TARGET is a test or a program for one. TORCH links LibTorch.
function(pipeline_compile_quickly target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH" "" "")
  target_compile_options(${target} PRIVATE -O0)
  if(arg_TORCH)
    target_link_libraries(${target} PRIVATE torch::cpu)
    pipeline_reuse(${target} torch_test_pch)
  else()
    pipeline_reuse(${target} test_pch)
  endif()
endfunction()

# pipeline_test(NAME source... [LIBS target...] [TORCH] [LONG] [TIMEOUT seconds] [PURE | RELEASE | THREADS] [SANITIZED filter])
#
# In the long run of the tests each is compiled and run once, in the strictest build where it can fail (PIPELINE_TEST_SET):
#   PURE      what optimization cannot change, as it can sums of floats: under the address sanitizer alone
#   RELEASE   what only the optimized build can get wrong, such as bits, or what takes long: there alone
#   THREADS   has threads or processes of our own: under both sanitizers
#   SANITIZED tests of whole runs: in the release build, and those that this gtest filter names under the sanitizers, too
# The others are run in the release build and under the address sanitizer.
#
# A GoogleTest binary. Without LibTorch every TEST is a test of CTest's; with it (TORCH) the binary is one test, because loading
# LibTorch takes longer than most tests. LONG: label `long`, which only `scripts/test --all` runs.
include(GoogleTest)
set(PIPELINE_TEST_SET all CACHE STRING "all: every test that this build can run; quick: not the long ones, nor what they need; once: those that no stricter build runs")
set_property(CACHE PIPELINE_TEST_SET PROPERTY STRINGS all quick once)

# pipeline_runs_here(OUT argument...): whether this build runs a test of pipeline_test() with these arguments.
function(pipeline_runs_here out)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LONG;PURE;RELEASE;THREADS" "SANITIZED" "")
  set(here ON)
  if(PIPELINE_TEST_SET STREQUAL "quick" AND arg_LONG)
    set(here OFF)
  elseif(PIPELINE_TEST_SET STREQUAL "once")
    if((PIPELINE_SANITIZE MATCHES "thread" AND NOT arg_THREADS) OR
       (PIPELINE_SANITIZE MATCHES "address" AND (arg_RELEASE OR arg_LONG)) OR
       (NOT PIPELINE_SANITIZE AND (arg_PURE OR (arg_THREADS AND NOT arg_SANITIZED))))
      set(here OFF)
    endif()
  endif()
  set(${out} ${here} PARENT_SCOPE)
endfunction()

# pipeline_timeout(OUT SECONDS): a test's time limit in this build, as sanitizers are slow; "": that of most tests.
function(pipeline_timeout out seconds)
  if(NOT seconds)
    set(seconds 120)
  endif()
  if(PIPELINE_SANITIZE)
    math(EXPR seconds "${seconds} * 5")
  endif()
  set(${out} ${seconds} PARENT_SCOPE)
endfunction()

function(pipeline_discover)
  gtest_discover_tests(${ARGN} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60)
endfunction()

# <test_paths.hpp>: PIPELINE_SOURCE_DIR, PIPELINE_BUILD_DIR and PIPELINE_EXECUTABLE as strings. A header, since the compiler's cache
# cannot serve a clone in another folder where every file has these on its command line.
add_library(test_paths INTERFACE)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/tests/include/test_paths.hpp CONTENT [[#pragma once
#define PIPELINE_SOURCE_DIR "@CMAKE_SOURCE_DIR@"
#define PIPELINE_BUILD_DIR "@CMAKE_BINARY_DIR@"
#define PIPELINE_EXECUTABLE PIPELINE_BUILD_DIR "/bin/pipeline"
]] @ONLY)
target_include_directories(test_paths INTERFACE ${CMAKE_BINARY_DIR}/tests/include)

# pipeline_parity(NAME [TIMEOUT seconds] argument...): tests/parity/NAME_parity.py with these arguments, a live comparison with a peer in Python.
function(pipeline_parity name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "")
  if(PIPELINE_TEST_SET STREQUAL "quick")
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  find_package(Python3 COMPONENTS Interpreter)
  if(Python3_FOUND)
    add_test(NAME ${name}_parity COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/parity/${name}_parity.py ${arg_UNPARSED_ARGUMENTS})
    set_tests_properties(${name}_parity PROPERTIES LABELS "parity;long" SKIP_RETURN_CODE 77 TIMEOUT ${arg_TIMEOUT})
  endif()
endfunction()

function(pipeline_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH;LONG;PURE;RELEASE;THREADS" "TIMEOUT;SANITIZED" "LIBS")
  if(arg_TORCH AND NOT TARGET torch::cpu)
    return()
  endif()
  pipeline_runs_here(here ${ARGN})
  set(elsewhere)  # another build runs it: here it is a target, and no more
  if(NOT here)
    set(elsewhere EXCLUDE_FROM_ALL)
  endif()
  set(filter)
  if(PIPELINE_SANITIZE AND arg_SANITIZED)
    set(filter TEST_FILTER ${arg_SANITIZED})
  endif()
  pipeline_timeout(timeout "${arg_TIMEOUT}")
  set(label)
  if(arg_LONG)
    set(label LABELS long COST 1000)  # first, or the last one runs alone
  endif()

  add_executable(${name} ${elsewhere} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} pipeline_sdk test_paths GTest::gtest_main GTest::gmock)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/bin)
  if(arg_TORCH)
    pipeline_compile_quickly(${name} TORCH)
  else()
    pipeline_compile_quickly(${name})
  endif()
  if(elsewhere)
    return()
  endif()
  if(arg_TORCH)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} ${label})
  else()
    pipeline_discover(${name} TEST_PREFIX ${name}. ${filter}
      PROPERTIES TIMEOUT ${timeout} ${label})
  endif()
endfunction()

# pipeline_fuzz(NAME source... CORPUS folder [RUNS n] [LIBS target...])
#
# A fuzz target (LLVMFuzzerTestOneInput) run over RUNS (default 5000) mutations of the corpus's files; in the long run of the tests under
# the address sanitizer alone. The seed is fixed, so what finds new defects is a run by hand with another `--seed` and many more `--runs`.
function(pipeline_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "CORPUS;RUNS" "LIBS")
  if(NOT arg_RUNS)
    set(arg_RUNS 5000)
  endif()
  cmake_path(ABSOLUTE_PATH arg_CORPUS)
  set(elsewhere)
  if(PIPELINE_TEST_SET STREQUAL "once" AND NOT PIPELINE_SANITIZE MATCHES "address")
    set(elsewhere EXCLUDE_FROM_ALL)
  endif()
  add_executable(${name} ${elsewhere} ${arg_UNPARSED_ARGUMENTS} ${PROJECT_SOURCE_DIR}/tests/support/fuzz_main.cpp)
  target_link_libraries(${name} PRIVATE ${arg_LIBS} pipeline_sdk)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/bin)
  if(elsewhere)
    return()
  endif()
  add_test(NAME ${name} COMMAND ${name} --runs ${arg_RUNS} ${arg_CORPUS})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600)
endfunction()

# pipeline_probe(NAME source... [LIBS target...] [TORCH]): a program that parity tests talk to.
function(pipeline_probe name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH" "" "LIBS")
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} GTest::gmock)
  if(arg_TORCH)
    pipeline_compile_quickly(${name} TORCH)
  else()
    pipeline_compile_quickly(${name})
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/bin)
  if(PIPELINE_TEST_SET STREQUAL "quick")
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()
