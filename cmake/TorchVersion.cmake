# The one place that says which LibTorch the project uses; its wheels' hashes are in scripts/setup/wheels.txt.
set(PIPELINE_TORCH_VERSION 2.11.0)
