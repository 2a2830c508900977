# PIPELINE_SANITIZE: our code is instrumented, and every executable carries the sanitizers' defaults and suppressions, so that it
# behaves the same under CTest and by hand. Code that a sanitizer does not allow asks for PIPELINE_SANITIZED, or for one of them:
# PIPELINE_SANITIZES_ADDRESS, PIPELINE_SANITIZES_THREAD.
if(PIPELINE_SANITIZE)
  add_compile_options(-fsanitize=${PIPELINE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PIPELINE_SANITIZE})
  string(TOUPPER ${PIPELINE_SANITIZE} sanitizers)
  string(REPLACE "," ";" sanitizers ${sanitizers})
  list(TRANSFORM sanitizers PREPEND PIPELINE_SANITIZES_)
  add_compile_definitions(PIPELINE_SANITIZED ${sanitizers})
  if(PIPELINE_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      # This check compares type descriptions, of which each library has its own: every call through the ABI would be an error.
      add_compile_options(-fno-sanitize=function)
      # A unit compiles in a sixth less time without such checks of inline functions of the system and of LibTorch.
      add_compile_options(-fsanitize-ignorelist=${CMAKE_CURRENT_LIST_DIR}/sanitizer_ignores.txt)
    endif()
  endif()
  add_library(sanitizer_defaults OBJECT cmake/sanitizer_defaults.cpp)
  link_libraries("$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:$<TARGET_OBJECTS:sanitizer_defaults>>")
endif()
