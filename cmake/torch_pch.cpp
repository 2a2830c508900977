// Carries the precompiled LibTorch headers that TorchPch.cmake lists; holds no code.
