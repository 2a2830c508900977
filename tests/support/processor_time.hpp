// The processor's time that something takes: on a machine with other work it stays what it is.
#pragma once

#include <ctime>

namespace pipeline::tests {

template <class Work>
double processor_seconds(const Work& work) {
  const std::clock_t begin = std::clock();
  work();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

}  // namespace pipeline::tests
