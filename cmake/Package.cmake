# `cmake --install build/release --prefix DIR` makes a folder that can be moved: bin/, lib/ with the plugins and the libraries
# that tasks share, include/, and the CMake package whose pipeline_plugin() builds plugins outside this project.
include(CMakePackageConfigHelpers)
set(package_dir lib/cmake/pipeline)

install(DIRECTORY core/sdk/include/ DESTINATION include FILES_MATCHING PATTERN "*.hpp")
install(FILES core/abi/pipeline.h DESTINATION include)
install(TARGETS pipeline_abi pipeline_sdk EXPORT pipeline-targets)
if(TARGET pipeline)
  install(TARGETS pipeline EXPORT pipeline-targets RUNTIME DESTINATION bin)
endif()
install(EXPORT pipeline-targets NAMESPACE pipeline:: DESTINATION ${package_dir})
install(EXPORT pipeline-tasks NAMESPACE pipeline:: DESTINATION ${package_dir})

configure_package_config_file(cmake/pipelineConfig.cmake.in ${CMAKE_BINARY_DIR}/pipelineConfig.cmake INSTALL_DESTINATION ${package_dir})
# The ABI's major version decides: a newer minor loads older plugins and the other way round.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/pipelineConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/pipelineConfig.cmake ${CMAKE_BINARY_DIR}/pipelineConfigVersion.cmake
              cmake/Plugin.cmake cmake/plugin.map cmake/TorchWheel.cmake cmake/TorchVersion.cmake
        DESTINATION ${package_dir})
