include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/moved)
run(${WORK}/moved/bin/pipeline --help)
run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE} -B ${WORK}/build -DCMAKE_BUILD_TYPE=Debug -DCMAKE_PREFIX_PATH=${WORK}/moved
    -DPIPELINE_TORCH_DIR=${TORCH_DIR})
run(${CMAKE_COMMAND} --build ${WORK}/build)

foreach(plugin backends/outside_c tasks/linear_regression tasks/outside_model tasks/outside_torch)
  execute_process(COMMAND ${NM} -D --defined-only ${WORK}/build/plugins/${plugin}.so OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "[^\n]* [A-Za-z] ([^\n]*)\n" "\\1;" symbols "${symbols}")
  if(NOT symbols STREQUAL "pl_plugin_entry;")
    message(FATAL_ERROR "${plugin}.so exports ${symbols} and must export pl_plugin_entry alone")
  endif()
endforeach()

# The tasks built there train, one in C and one in C++; what the second exports, training may begin with, and it writes on.
file(WRITE ${WORK}/c.toml "[task]\nplugin = \"linear_regression\"\n[run]\ndevice = \"cpu\"\n[train]\nglobal_batch = 8\nmax_steps = 5\n")
file(WRITE ${WORK}/cpp.toml "[task]\nplugin = \"outside_model\"\ntext = \"${CMAKE_CURRENT_LIST_DIR}/outside/model_task.cpp\"\n[run]\ndevice = \"cpu\"\ncache_dir = \"${WORK}/cache\"\n"
  "[train]\nglobal_batch = 8\nmicro_batch = 4\nmax_steps = 5\nactivation_checkpointing = true\n")
function(pipeline verb)
  run(${WORK}/moved/bin/pipeline ${verb} --plugin-path ${WORK}/build/plugins ${ARGN})
endfunction()
run(${WORK}/moved/bin/pipeline check-plugin ${WORK}/build/plugins/tasks/outside_model.so --config ${WORK}/cpp.toml)
pipeline(run ${WORK}/c.toml --set run.dir=${WORK}/runs/c)
pipeline(run ${WORK}/cpp.toml --set run.dir=${WORK}/runs/first)
pipeline(export ${WORK}/cpp.toml --set run.dir=${WORK}/runs/first --output ${WORK}/exported)
pipeline(run ${WORK}/cpp.toml --set run.dir=${WORK}/runs/second --set train.init_from=${WORK}/exported)
pipeline(predict ${WORK}/cpp.toml --set run.dir=${WORK}/runs/second)
file(STRINGS ${WORK}/runs/second/logs/rank-0.log said REGEX "tokens from ${WORK}/cache/outside.tokens")
if(NOT said)
  message(FATAL_ERROR "the second run did not read the tokens that the first one had kept in ${WORK}/cache")
endif()

# A new task trains by the commands of its README; new.cmake does the others.
run(${WORK}/moved/bin/pipeline new task c_task --language c --output ${WORK})
run(${CMAKE_COMMAND} -E env PATH=${WORK}/moved/bin:$ENV{PATH} ${CMAKE_COMMAND} -E chdir ${WORK}/c_task
    ${CMAKE_CURRENT_LIST_DIR}/transcript README.md)

# Nothing in the prefix may name the folder it was built from or first installed to, but the LibTorch that it needs.
file(GLOB_RECURSE texts ${WORK}/moved/lib/cmake/*)
foreach(file ${texts})
  file(READ ${file} text)
  if(text MATCHES "${BUILD}" OR text MATCHES "${WORK}/first")
    message(FATAL_ERROR "${file} names the build folder or the first prefix: the prefix cannot be moved")
  endif()
endforeach()
