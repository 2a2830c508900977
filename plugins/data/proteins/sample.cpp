#include "plugins/data/proteins/sample.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace pipeline::proteins {

Sample Sample::part(std::span<const int64_t> rows) const {
  Sample result;
  // For each residue that stood for its group: the one that does so now, among those that are kept.
  std::vector<int64_t> stands(size(), -1);
  for (const int64_t row : rows) {
    const auto at = static_cast<size_t>(row);
    int64_t& first = stands[static_cast<size_t>(copy_of[at])];
    if (first < 0 || (!result.is_known(static_cast<size_t>(first)) && is_known(at)))
      first = static_cast<int64_t>(result.size());
    result.codes.push_back(codes[at]);
    result.chains.push_back(chains[at]);
    if (has_backbone()) result.backbone.push_back(backbone[at]);
  }
  for (const int64_t row : rows)
    result.copy_of.push_back(stands[static_cast<size_t>(copy_of[static_cast<size_t>(row)])]);
  return result;
}

Sample make_sample(std::span<const std::span<const residues::Residue>> chains) {
  Sample sample{.codes = {}, .chains = {}, .copy_of = find_copies(chains)};
  for (size_t c = 0; c < chains.size(); ++c) {
    for (const residues::Residue& residue : chains[c]) sample.codes.push_back(residue.amino_acid);
    sample.backbone.insert(sample.backbone.end(), chains[c].begin(), chains[c].end());
    sample.chains.insert(sample.chains.end(), chains[c].size(), static_cast<int64_t>(c));
  }
  return sample;
}

Sample make_sample(std::span<const uint8_t> codes) {
  Sample sample{.codes = {codes.begin(), codes.end()},
                .chains = std::vector<int64_t>(codes.size(), 0),
                .copy_of = std::vector<int64_t>(codes.size())};
  std::iota(sample.copy_of.begin(), sample.copy_of.end(), int64_t{0});
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
  const auto residues = static_cast<int64_t>(sample.size());
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < residues; ++i)
    if (sample.has_ca(static_cast<size_t>(i))) rows.push_back(i);
  if (residues <= most || rows.empty()) return crop_contiguous(residues, most, seed);
  const residues::Residue& center =
      sample.backbone[static_cast<size_t>(rows[Random(seed).below(rows.size())])];
  std::vector<float> distance(sample.size(), std::numeric_limits<float>::max());
  for (const int64_t row : rows) {
    const residues::Vec3 apart = sample.backbone[static_cast<size_t>(row)].ca - center.ca;
    distance[static_cast<size_t>(row)] = dot(apart, apart);
  }
  rows.resize(sample.size());
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
