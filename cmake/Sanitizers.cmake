# PIPELINE_SANITIZE: our code is instrumented, and every executable carries the sanitizers' defaults and suppressions, so that it
# behaves the same under CTest and by hand.
if(PIPELINE_SANITIZE)
  add_compile_options(-fsanitize=${PIPELINE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PIPELINE_SANITIZE})
  if(PIPELINE_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
  add_library(sanitizer_defaults OBJECT cmake/sanitizer_defaults.cpp)
  link_libraries("$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:$<TARGET_OBJECTS:sanitizer_defaults>>")
endif()
