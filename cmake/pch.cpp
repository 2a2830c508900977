// Carries the headers that pipeline_precompile() lists; holds no code.
