# `cmake --install build/release --prefix DIR` makes a folder that can be moved: bin/, lib/ with the plugins and the libraries
# that tasks share, include/, and the CMake package whose pipeline_plugin() builds plugins outside this project.
include(CMakePackageConfigHelpers)
set(package_dir lib/cmake/pipeline)

install(DIRECTORY core/sdk/include/ DESTINATION include FILES_MATCHING PATTERN "*.hpp")
install(FILES core/abi/pipeline.h DESTINATION include)
install(TARGETS pipeline_abi pipeline_sdk EXPORT pipeline-targets)
if(TARGET pipeline)
  install(TARGETS pipeline EXPORT pipeline-targets RUNTIME DESTINATION bin)
  install(TARGETS pipeline_program LIBRARY DESTINATION lib/pipeline)
endif()
install(EXPORT pipeline-targets NAMESPACE pipeline:: DESTINATION ${package_dir})
install(EXPORT pipeline-tasks NAMESPACE pipeline:: DESTINATION ${package_dir})

configure_package_config_file(cmake/pipelineConfig.cmake.in ${CMAKE_BINARY_DIR}/pipelineConfig.cmake INSTALL_DESTINATION ${package_dir})
# The ABI's major version decides: a newer minor loads older plugins and the other way round.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/pipelineConfigVersion.cmake COMPATIBILITY SameMajorVersion)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/TorchVersion.cmake
     CONTENT "set(PIPELINE_TORCH_VERSION ${PIPELINE_TORCH_VERSION})\nset(PIPELINE_TORCH_VARIANT ${PIPELINE_TORCH_VARIANT})\n")
install(FILES ${CMAKE_BINARY_DIR}/pipelineConfig.cmake ${CMAKE_BINARY_DIR}/pipelineConfigVersion.cmake
              cmake/Plugin.cmake cmake/plugin.map cmake/TorchWheel.cmake ${CMAKE_BINARY_DIR}/TorchVersion.cmake
        DESTINATION ${package_dir})

# `cpack --config build/release/CPackConfig.cmake -B DIR` makes packages of what `cmake --install` installs (scripts/package builds it
# first). LibTorch is not inside: AssemblePackage.cmake puts in a command that fetches it.
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_CONTACT "the pipeline developers")
set(CPACK_PACKAGE_DESCRIPTION "A task defines data, model and loss; a strategy, such as ddp or sharded, where parameters and optimizer state are
stored; a backend moves bytes between processes. Any task runs under any strategy, with the same results.
LibTorch ${PIPELINE_TORCH_VERSION} is not part of this package: the first command that needs it downloads it into
the user's cache.")
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/AssemblePackage.cmake)
set(CPACK_PIPELINE_SOURCE ${PROJECT_SOURCE_DIR})
set(CPACK_PIPELINE_TORCH_DIR ${PIPELINE_TORCH_DIR})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "ca-certificates, python3, python3-pip, libsentencepiece0 | libsentencepiece0t64")
# The first three fetch LibTorch and data; the last one no file links, since it is loaded where it is needed.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "cmake, g++, ninja-build") # for plugins of one's own
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
if(TARGET torch::cpu)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PIPELINE_TORCH_DIR}/torch/lib ${PIPELINE_TORCH_DIR}/pyarrow) # no package's
endif()
include(CPack)
