# ccache as the launcher when it is there. Precompiled headers need the two sloppiness settings; the base directory lets clones of the
# project in different folders share results.
if(PIPELINE_CCACHE AND NOT EXISTS ${PIPELINE_CCACHE})
  unset(PIPELINE_CCACHE CACHE)  # it was removed since
endif()
find_program(PIPELINE_CCACHE ccache)
if(PIPELINE_CCACHE)
  set(launcher env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${PIPELINE_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endif()
