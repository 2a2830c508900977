# How far a target is optimized. Most of the product's code runs a few times a step: optimized less, it compiles in two thirds of the time.
# A target that is not named below is compiled with -Og in a Release build and not optimized at all under the sanitizers.
add_compile_options($<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-Og>)
# A file takes some 500 MB anyway: collecting garbage below that costs GCC a twelfth of its time.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("SHELL:$<$<COMPILE_LANGUAGE:CXX>:--param ggc-min-heapsize=600000>")
endif()

# pipeline_hot(TARGET...): for targets whose own loops go over data, weights or text.
function(pipeline_hot)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O3>)
  endforeach()
endfunction()

# pipeline_hot_in_tests(TARGET...): for targets whose tests under the sanitizers would take longer than -O1 takes to compile.
function(pipeline_hot_in_tests)
  if(PIPELINE_SANITIZE)
    foreach(target ${ARGN})
      target_compile_options(${target} PRIVATE -O1)
    endforeach()
  endif()
endfunction()

# pipeline_warm(TARGET): for a target that uses LibTorch, which does most of the work, and has a few loops over floats. It gets from -O2 and
# -O3 what makes those fast, which compiles in four fifths of the time of -O2. All such targets are the same: GCC 12 crashes where a
# precompiled header and the file that uses it differ in their optimization.
function(pipeline_warm target)
  set(flags -O1 -ftree-vectorize -finline-functions -finline-small-functions -fstrict-aliasing)
  target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:${flags}>")
endfunction()
