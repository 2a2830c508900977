#include "initial_values.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

namespace pipeline::transformer {
namespace {

uint64_t mix(uint64_t seed, uint64_t index) {  // splitmix64
  uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

void fill_normal(at::Tensor& out, double deviation, uint64_t seed, uint64_t index) {
  out.normal_(0, deviation, at::make_generator<at::CPUGeneratorImpl>(mix(seed, index)));
}

}  // namespace pipeline::transformer
