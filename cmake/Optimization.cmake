# How far a target is optimized where the build type alone would waste time, of the compiler or of the tests.

# pipeline_hot_loops(TARGET...): these are optimized under the sanitizers, too. All else is not: it compiles in less than half the
# time so, and its tests take little longer.
function(pipeline_hot_loops)
  if(PIPELINE_SANITIZE)
    foreach(target ${ARGN})
      target_compile_options(${target} PRIVATE -O1)
    endforeach()
  endif()
endfunction()

# pipeline_cold(TARGET...): what these do takes a small part of a step. A Release build optimizes them less: they compile in half the time.
function(pipeline_cold)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endforeach()
endfunction()
