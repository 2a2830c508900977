// Made-up sequences for the tests: drawn from amino acids' usual frequencies, and changed copies of them.
#pragma once

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/clusters/clusters.hpp"

namespace pipeline::clusters {

// std's distributions differ between libraries; these draws do not.
class Maker {
 public:
  explicit Maker(uint64_t seed) : engine_(seed) {}

  size_t below(size_t bound) { return engine_() % bound; }
  bool happens(double probability) { return static_cast<double>(engine_() >> 11) * 0x1p-53 < probability; }

  std::string sequence(size_t length) {
    // Each amino acid as often as in proteins, in percent.
    static constexpr std::string_view kBag =
        "AAAAAAAARRRRRNNNNDDDDDCCQQQQEEEEEEGGGGGGGHHIIIIILLLLLLLLLLKKKKKKMMFFFFPPPPPSSSSSSSTTTTTTWYYYVVVVVV";
    std::string made;
    while (made.size() < length) made += kBag[below(kBag.size())];
    return made;
  }

  // Keeps a residue with probability `identity`, else draws any of the twenty (it too). At 3% of the places
  // are gaps of one to three.
  std::string changed(const std::string& original, double identity) {
    std::string made;
    for (size_t i = 0; i < original.size(); ++i) {
      if (happens(0.015)) {
        i += below(3);
        continue;
      }
      if (happens(0.015)) made += sequence(1 + below(3));
      made += happens(identity) ? original[i] : kLetters20[below(20)];
    }
    return made;
  }

 private:
  static constexpr std::string_view kLetters20 = "ACDEFGHIKLMNPQRSTVWY";
  std::mt19937_64 engine_;
};

inline std::vector<uint32_t> clusters_of(const std::vector<std::string>& sequences,
                                         const ClusterOptions& options = {}, const files::Hooks& hooks = {}) {
  const std::vector<std::string_view> views(sequences.begin(), sequences.end());
  return cluster_sequences(views, options, hooks);
}

}  // namespace pipeline::clusters
