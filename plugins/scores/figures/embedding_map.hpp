#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace pipeline::figures {

// Points of a map, and what is said of them.
struct EmbeddingMap {
  std::string title;
  at::Tensor embeddings;            // (n, C) fp32, n >= 3
  std::vector<std::string> names;   // of each, shown where the mouse is
  std::vector<std::string> groups;  // of each, which gives its colour; empty: all are alike
};

// The points along the two directions in which they vary most (principal components: Pearson 1901), as SVG.
std::string draw(const EmbeddingMap& map);

}  // namespace pipeline::figures
