#pragma once

// The texts of this folder's .cu files, of which device_code.cpp is made.
namespace pipeline::transformer::cuda {

extern const char* const kColumnSum;
extern const char* const kCrossEntropy;
extern const char* const kDecode;
extern const char* const kGatedUnit;
extern const char* const kGelu;
extern const char* const kHeads;
extern const char* const kLayerNorm;

}  // namespace pipeline::transformer::cuda
