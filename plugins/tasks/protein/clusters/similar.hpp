#pragma once

#include "plugins/tasks/protein/clusters/clusters.hpp"
#include "plugins/tasks/protein/clusters/local_alignment.hpp"

namespace pipeline::protein {

// Two sequences are similar if both hold. The first is of the score of their best local alignment, where
// `set_size` distinct sequences are compared with each other; the second aligns them again.
bool is_significant(LetterView a, LetterView b, int score, size_t set_size, const ClusterOptions& options);
bool is_alike(LetterView a, LetterView b, const ClusterOptions& options);

struct SimilarOptions {
  ClusterOptions similar;    // as there; but exact_up_to plays no part
  size_t set_size = 1;       // distinct sequences of the set that the two lists are parts of
  bool prefiltered = false;  // align those pairs alone that share seeds (prefilter.hpp), not every one
};

// Nonzero for each query that is equal to one of `references` or similar to it. Throws as
// cluster_sequences().
std::vector<uint8_t> find_similar(std::span<const std::string_view> queries,
                                  std::span<const std::string_view> references, const SimilarOptions& options,
                                  const files::Hooks& hooks = {});

}  // namespace pipeline::protein
