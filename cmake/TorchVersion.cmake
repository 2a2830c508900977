# The one place that says which LibTorch the project uses; its wheels' hashes are in scripts/setup/wheels/.
set(PIPELINE_TORCH_VERSION 2.11.0)
set(PIPELINE_TORCH_VARIANT cu130) # of that wheel; its headers do not tell, and plugins compare it at run time
