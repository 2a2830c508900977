# pipeline_plugin(NAME KIND task|strategy|backend|optimizer SOURCES file... [TARGET target] [LIBS target...] [TORCH] [TEST_ONLY])
#
# Makes NAME.so, which exports pl_plugin_entry and nothing else, where `pipeline` looks for plugins of that kind: in this project
# <build>/lib/pipeline/plugins/, with find_package(pipeline) the calling project's <build>/plugins/. TORCH links LibTorch; where it is
# switched off (PIPELINE_WITH_TORCH=OFF) such a plugin is left out. TEST_ONLY: not installed. TARGET: what CMake calls it, where a
# library has the plugin's name; else NAME.
set(PIPELINE_PLUGIN_MAP ${CMAKE_CURRENT_LIST_DIR}/plugin.map)

function(pipeline_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH;TEST_ONLY" "KIND;TARGET" "SOURCES;LIBS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "pipeline_plugin(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(folder_task tasks)
  set(folder_strategy strategies)
  set(folder_backend backends)
  set(folder_optimizer optimizers)
  if(NOT arg_KIND OR NOT DEFINED folder_${arg_KIND})
    message(FATAL_ERROR "pipeline_plugin(${name}): KIND is '${arg_KIND}', must be task, strategy, backend or optimizer")
  endif()
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "pipeline_plugin(${name}): no SOURCES")
  endif()
  if(arg_TORCH AND NOT TARGET torch::cpu)
    if(DEFINED PIPELINE_WITH_TORCH AND NOT PIPELINE_WITH_TORCH)
      return()
    endif()
    message(FATAL_ERROR "pipeline_plugin(${name}): TORCH needs LibTorch, which nobody has looked for: write "
                        "find_package(pipeline REQUIRED COMPONENTS torch), or leave the plugin out with -DPIPELINE_WITH_TORCH=OFF.")
  endif()
  set(target ${name})
  if(arg_TARGET)
    set(target ${arg_TARGET})
  endif()

  add_library(${target} MODULE ${arg_SOURCES})
  set_target_properties(${target} PROPERTIES
    PREFIX ""
    OUTPUT_NAME ${name}
    DEFINE_SYMBOL ""
    C_VISIBILITY_PRESET hidden
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    LINK_DEPENDS ${PIPELINE_PLUGIN_MAP})
  target_link_options(${target} PRIVATE -Wl,--version-script=${PIPELINE_PLUGIN_MAP})
  # Clang links the sanitizers' runtime into the executable only, so there a module may leave their symbols open.
  if(NOT (PIPELINE_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES "Clang"))
    target_link_options(${target} PRIVATE -Wl,-z,defs -Wl,--no-undefined)
  endif()

  if(TARGET pipeline_sdk)
    target_link_libraries(${target} PRIVATE pipeline_sdk ${arg_LIBS})
    set(root ${CMAKE_BINARY_DIR}/lib/pipeline/plugins)
  else()
    target_link_libraries(${target} PRIVATE pipeline::sdk ${arg_LIBS})
    set(root ${CMAKE_BINARY_DIR}/plugins)
  endif()
  if(arg_TORCH)
    if(COMMAND pipeline_use_torch)
      pipeline_use_torch(${target})
    else()
      target_link_libraries(${target} PRIVATE torch::cpu)
    endif()
    # An installed plugin finds LibTorch where it was built with it, or in lib/torch of its own prefix.
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/../../../torch/lib;${PIPELINE_TORCH_DIR}/torch/lib")
  endif()
  if(arg_TEST_ONLY)
    set(root ${CMAKE_BINARY_DIR}/tests/plugins)
  else()
    install(TARGETS ${target} LIBRARY DESTINATION lib/pipeline/plugins/${folder_${arg_KIND}})
    if(TARGET product)
      add_dependencies(product ${target})
      add_dependencies(${folder_${arg_KIND}} ${target})
      set_property(GLOBAL APPEND PROPERTY PIPELINE_PLUGINS ${folder_${arg_KIND}}/${name})
    endif()
  endif()
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${root}/${folder_${arg_KIND}})
endfunction()
