# Run by CPack when it has installed everything into a folder, before it packs it: makes of the prefix that belongs to this machine one for
# any. bin/pipeline becomes scripts/setup/packaged-pipeline, the program itself moves to libexec/, and share/ gets what the former
# needs, the configurations, and the texts that the program prints: completions, the manual page and the options of the plugins.
cmake_minimum_required(VERSION 3.25)
set(prefix "${CPACK_TEMPORARY_INSTALL_DIRECTORY}${CPACK_PACKAGING_INSTALL_PREFIX}")
set(share ${prefix}/share/pipeline)
set(source ${CPACK_PIPELINE_SOURCE})
set(program ${prefix}/libexec/pipeline)

file(MAKE_DIRECTORY ${prefix}/libexec)
file(RENAME ${prefix}/bin/pipeline ${program})
file(COPY ${source}/scripts/setup/packaged-pipeline DESTINATION ${prefix}/bin)
file(RENAME ${prefix}/bin/packaged-pipeline ${prefix}/bin/pipeline)

file(COPY ${source}/scripts/data DESTINATION ${share}/scripts PATTERN __pycache__ EXCLUDE)
file(COPY ${source}/scripts/setup/data.sh ${source}/scripts/setup/lib.sh ${source}/scripts/setup/torch ${source}/scripts/setup/unpack.py
          ${source}/scripts/setup/wheels
     DESTINATION ${share}/scripts/setup)
file(COPY ${source}/cmake/TorchVersion.cmake DESTINATION ${share}/cmake)
file(COPY ${source}/configs DESTINATION ${share})

# The LibTorch of an installed package is in its user's cache.
set(config ${prefix}/lib/cmake/pipeline/pipelineConfig.cmake)
file(READ ${config} text)
string(REPLACE "${CPACK_PIPELINE_TORCH_DIR}" "" text "${text}")
file(WRITE ${config} "${text}")

# print(FILE ARGUMENT...): what the program prints. The plugins still find the LibTorch that they were built with.
function(print file)
  cmake_path(GET file PARENT_PATH folder)
  file(MAKE_DIRECTORY ${folder})
  execute_process(COMMAND ${program} ${ARGN} OUTPUT_FILE ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
print(${prefix}/share/bash-completion/completions/pipeline completion bash)
print(${prefix}/share/zsh/vendor-completions/_pipeline completion zsh)
print(${prefix}/share/fish/vendor_completions.d/pipeline.fish completion fish)
set(page ${prefix}/share/man/man1/pipeline.1)
print(${page} man)
execute_process(COMMAND gzip -9n ${page} COMMAND_ERROR_IS_FATAL ANY)

file(GLOB_RECURSE libraries ${prefix}/lib/pipeline/*.so)
foreach(library IN LISTS libraries)
  cmake_path(GET library STEM name)
  if(library MATCHES "/plugins/")
    print(${share}/explain/${name}.txt explain ${name})
  endif()
endforeach()
# From here on plugins find LibTorch where bin/pipeline says, or in lib/torch, and readers pyarrow: in no folder of this machine.
foreach(library IN LISTS libraries)
  unset(runpath) # READ_ELF sets it only if there is one
  file(READ_ELF ${library} RUNPATH runpath)
  if(library MATCHES "/plugins/" AND runpath)
    file(RPATH_SET FILE ${library} NEW_RPATH "\$ORIGIN/../../../torch/lib:\$ORIGIN/../../libraries")
  elseif(library MATCHES "/readers/" AND runpath)
    file(RPATH_SET FILE ${library} NEW_RPATH "\$ORIGIN/../../torch/pyarrow")
  endif()
endforeach()
