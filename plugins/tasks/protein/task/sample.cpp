#include "plugins/tasks/protein/task/sample.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "plugins/tasks/protein/task/random.hpp"

namespace pipeline::protein {
namespace {

constexpr float kFar = std::numeric_limits<float>::max();

float squared_distance(const Vec3& a, const Vec3& b) {
  const float x = a.x - b.x, y = a.y - b.y, z = a.z - b.z;
  return x * x + y * y + z * z;
}

}  // namespace

std::vector<uint8_t> Sample::amino_acids() const {
  std::vector<uint8_t> result(residues.size());
  std::transform(residues.begin(), residues.end(), result.begin(), [](const Residue& r) { return r.amino_acid; });
  return result;
}

Sample Sample::part(std::span<const int64_t> rows) const {
  Sample result;
  std::vector<int64_t> first(residues.size(), -1);  // by the original's row: the first of it and its copies that is kept
  for (const int64_t row : rows) {
    const auto at = static_cast<size_t>(row);
    int64_t& original = first[static_cast<size_t>(copy_of[at])];
    if (original < 0) original = static_cast<int64_t>(result.residues.size());
    result.residues.push_back(residues[at]);
    result.chains.push_back(chains[at]);
    result.copy_of.push_back(original);
  }
  return result;
}

Sample make_sample(std::span<const std::span<const Residue>> chains) {
  Sample sample;
  std::map<std::vector<uint8_t>, int64_t> first_with;  // a sequence to where its first chain begins
  for (size_t c = 0; c < chains.size(); ++c) {
    const auto begin = static_cast<int64_t>(sample.residues.size());
    std::vector<uint8_t> sequence;
    for (const Residue& residue : chains[c]) sequence.push_back(residue.amino_acid);
    const int64_t original = first_with.try_emplace(std::move(sequence), begin).first->second;
    for (size_t i = 0; i < chains[c].size(); ++i) {
      sample.residues.push_back(chains[c][i]);
      sample.chains.push_back(static_cast<int64_t>(c));
      sample.copy_of.push_back(original + static_cast<int64_t>(i));
    }
  }
  return sample;
}

std::vector<int64_t> crop_contiguous(int64_t residues, int64_t most, uint64_t seed) {
  const int64_t count = std::min(residues, most);
  const int64_t first = residues > most ? static_cast<int64_t>(Random(seed).below(static_cast<uint64_t>(residues - most + 1))) : 0;
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
  const Residue& center = sample.residues[static_cast<size_t>(rows[Random(seed).below(rows.size())])];
  std::vector<float> distance(sample.residues.size(), kFar);
  for (const int64_t row : rows) distance[static_cast<size_t>(row)] = squared_distance(sample.residues[static_cast<size_t>(row)].ca, center.ca);
  rows.resize(sample.residues.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::stable_sort(rows.begin(), rows.end(), [&](int64_t a, int64_t b) { return distance[static_cast<size_t>(a)] < distance[static_cast<size_t>(b)]; });
  rows.resize(static_cast<size_t>(most));
  std::sort(rows.begin(), rows.end());
  return rows;
}

void add_noise(std::span<Residue> residues, double deviation, uint64_t seed) {
  if (deviation == 0) return;
  Random random(seed);
  const auto move = [&](Vec3& v) {
    v.x += static_cast<float>(deviation * random.normal());
    v.y += static_cast<float>(deviation * random.normal());
    v.z += static_cast<float>(deviation * random.normal());
  };
  for (Residue& residue : residues) move(residue.n), move(residue.ca), move(residue.c);
}

}  // namespace pipeline::protein
