# Warnings are errors on our own code. Libraries' headers are SYSTEM and stay silent.
set(PIPELINE_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wundef -Wformat=2 -Wcast-align -Wvla -Wfloat-conversion -Werror)
# Designated initializers name the fields that matter; the standard gives the rest their defaults.
set(PIPELINE_WARNINGS_CXX -Wno-missing-field-initializers -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 and 13 report these in correct code that inlines std::string, std::vector and std::optional (GCC bugs 105329, 105562,
  # 107852, 110498), and whether they appear depends on inlining: kept as warnings, not as errors.
  if(PIPELINE_UNITY)
    # GCC reports types of an unnamed namespace that a class uses whose own file is included by another one: here that is all files.
    list(APPEND PIPELINE_WARNINGS_CXX -Wno-subobject-linkage)
  endif()
  list(APPEND PIPELINE_WARNINGS -Wno-error=maybe-uninitialized -Wno-error=array-bounds -Wno-error=stringop-overflow
       -Wno-error=stringop-overread -Wno-restrict)
endif()
add_compile_options(${PIPELINE_WARNINGS} "$<$<COMPILE_LANGUAGE:CXX>:${PIPELINE_WARNINGS_CXX}>")
