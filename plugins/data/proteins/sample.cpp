#include "plugins/data/proteins/sample.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "plugins/data/residues/residue.hpp"

namespace pipeline::proteins {
std::vector<uint8_t> Sample::amino_acids() const {
  std::vector<uint8_t> result(residues.size());
  std::transform(residues.begin(), residues.end(), result.begin(),
                 [](const residues::Residue& r) { return r.amino_acid; });
  return result;
}

Sample Sample::part(std::span<const int64_t> rows) const {
  Sample result;
  // By what stood for a group: what does so now, of those that are kept.
  std::vector<int64_t> stands(residues.size(), -1);
  for (const int64_t row : rows) {
    const auto at = static_cast<size_t>(row);
    int64_t& first = stands[static_cast<size_t>(copy_of[at])];
    const auto is_unknown = [](const residues::Residue& residue) {
      return residue.amino_acid >= residues::kAminoAcidCount;
    };
    if (first < 0 || (is_unknown(result.residues[static_cast<size_t>(first)]) && !is_unknown(residues[at])))
      first = static_cast<int64_t>(result.residues.size());
    result.residues.push_back(residues[at]);
    result.chains.push_back(chains[at]);
  }
  for (const int64_t row : rows)
    result.copy_of.push_back(stands[static_cast<size_t>(copy_of[static_cast<size_t>(row)])]);
  return result;
}

Sample make_sample(std::span<const std::span<const residues::Residue>> chains) {
  Sample sample{.residues = {}, .chains = {}, .copy_of = find_copies(chains)};
  for (size_t c = 0; c < chains.size(); ++c) {
    sample.residues.insert(sample.residues.end(), chains[c].begin(), chains[c].end());
    sample.chains.insert(sample.chains.end(), chains[c].size(), static_cast<int64_t>(c));
  }
  return sample;
}

std::vector<int64_t> crop_contiguous(int64_t residues, int64_t most, uint64_t seed) {
  const int64_t count = std::min(residues, most);
  const int64_t first =
      residues > most ? static_cast<int64_t>(Random(seed).below(static_cast<uint64_t>(residues - most + 1)))
                      : 0;
  std::vector<int64_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

std::vector<int64_t> crop_spatial(const Sample& sample, int64_t most, uint64_t seed) {
  const auto residues = static_cast<int64_t>(sample.residues.size());
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < residues; ++i)
    if (sample.residues[static_cast<size_t>(i)].has_ca()) rows.push_back(i);
  if (residues <= most || rows.empty()) return crop_contiguous(residues, most, seed);
  const residues::Residue& center =
      sample.residues[static_cast<size_t>(rows[Random(seed).below(rows.size())])];
  std::vector<float> distance(sample.residues.size(), std::numeric_limits<float>::max());
  for (const int64_t row : rows) {
    const residues::Vec3 apart = sample.residues[static_cast<size_t>(row)].ca - center.ca;
    distance[static_cast<size_t>(row)] = dot(apart, apart);
  }
  rows.resize(sample.residues.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::stable_sort(rows.begin(), rows.end(), [&](int64_t a, int64_t b) {
    return distance[static_cast<size_t>(a)] < distance[static_cast<size_t>(b)];
  });
  rows.resize(static_cast<size_t>(most));
  std::sort(rows.begin(), rows.end());
  return rows;
}

void add_noise(std::span<residues::Residue> residues, double deviation, uint64_t seed) {
  if (deviation == 0) return;
  Random random(seed);
  const auto move = [&](residues::Vec3& v) {
    v.x += static_cast<float>(deviation * random.normal());
    v.y += static_cast<float>(deviation * random.normal());
    v.z += static_cast<float>(deviation * random.normal());
  };
  for (residues::Residue& residue : residues) move(residue.n), move(residue.ca), move(residue.c);
}

}  // namespace pipeline::proteins
