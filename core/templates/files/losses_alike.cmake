add_test(NAME trains_alike
  COMMAND pipeline::pipeline compare ${config} @COMPARED@ --rounds 1 --dir ${CMAKE_BINARY_DIR}/runs
          --set train.max_steps=6 --set plugins.paths=["${CMAKE_BINARY_DIR}/plugins"])
