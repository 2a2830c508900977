# What the losses of a few steps are held against:
#   single  it updates as the optimizer's options say, so the losses are those of `single`;
#   itself  it updates otherwise on purpose: the losses fall, and are the same on one and on two processes and after a stop.
set(losses_are_those_of single)
if(losses_are_those_of STREQUAL "single")
  add_test(NAME trains_alike
    COMMAND pipeline::pipeline compare ${config} @COMPARED@ --rounds 1 --dir ${CMAKE_BINARY_DIR}/runs
            --set train.max_steps=6 --set plugins.paths=["${CMAKE_BINARY_DIR}/plugins"])
else()
  add_test(NAME trains_alike
    COMMAND ${CMAKE_COMMAND} -DPIPELINE=$<TARGET_FILE:pipeline::pipeline> -DCONFIG=${config} -DBUILD=${CMAKE_BINARY_DIR}
            -P ${CMAKE_CURRENT_SOURCE_DIR}/own_losses.cmake)
endif()
