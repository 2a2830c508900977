# From nothing to a training run: the commands of README.md, "A task of your own", in a home of their own; then the plugins of the other
# kinds, by the commands of their READMEs.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(REMOVE_RECURSE ${WORK})
set(ENV{HOME} ${WORK})
file(MAKE_DIRECTORY ${WORK}/checkout/build)
file(CREATE_LINK ${BUILD} ${WORK}/checkout/build/release SYMBOLIC)
run(${CMAKE_COMMAND} -E chdir ${WORK}/checkout ${CMAKE_CURRENT_LIST_DIR}/transcript ${ROOT}/README.md "## A task of your own")
if(NOT EXISTS ${WORK}/my_task/runs/my_task/summary.json)
  message(FATAL_ERROR "my_task has not trained")
endif()

set(ENV{PATH} ${WORK}/pipeline/bin:$ENV{PATH})
foreach(kind strategy backend)
  run(pipeline new ${kind} my_${kind} --output ${WORK})
  run(${CMAKE_COMMAND} -E chdir ${WORK}/my_${kind} ${CMAKE_CURRENT_LIST_DIR}/transcript README.md)
  run(${CMAKE_COMMAND} -E chdir ${WORK}/my_${kind} pipeline run my_${kind}.toml --fresh)
  file(STRINGS ${WORK}/my_${kind}/runs/my_${kind}/train.log said REGEX "^.*task .*${kind} my_${kind}")
  if(NOT said)
    message(FATAL_ERROR "the run in ${WORK}/my_${kind} was not of my_${kind}")
  endif()
endforeach()
