# The one place that says which LibTorch the project uses; its wheels' hashes are in scripts/setup/wheels/.
set(PIPELINE_TORCH_VERSION 2.11.0)
set(PIPELINE_TORCH_VARIANT cu130) # the wheel's; LibTorch's headers do not tell, and plugins compare it at run time
# Another version that works: `scripts/setup/torch --from FOLDER` takes it, and `scripts/test-other-torch` tests it.
set(PIPELINE_TORCH_OTHER 2.15.0+cu132)
if(PIPELINE_TORCH_WHEEL) # which of them, from scripts/setup/build
  string(REGEX MATCH "^([0-9.]+)[+](.+)$" _torch_wheel "${PIPELINE_TORCH_WHEEL}")
  set(PIPELINE_TORCH_VERSION ${CMAKE_MATCH_1})
  set(PIPELINE_TORCH_VARIANT ${CMAKE_MATCH_2})
endif()
# The CUDA version as drivers count: cu132 is 13020.
string(REGEX REPLACE "^cu([0-9]+)([0-9])$" "\\10\\20" PIPELINE_TORCH_CUDA "${PIPELINE_TORCH_VARIANT}")
