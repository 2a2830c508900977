#include "plugins/data/clusters/sequence_set.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_map>

#include "plugins/data/clusters/local_alignment.hpp"
#include "plugins/data/files/error.hpp"

namespace pipeline::clusters {
namespace {

std::string_view text_of(const Letters& letters) {
  return {reinterpret_cast<const char*>(letters.data()), letters.size()};
}

}  // namespace

void check_options(const ClusterOptions& options) {
  const auto share = [](const char* name, double value) {
    if (!(value >= 0 && value <= 1)) {
      throw files::DataError(std::string("similarity of sequences: ") + name + " is " +
                             std::to_string(value) + ", must be from 0 to 1");
    }
  };
  share("identity", options.identity);
  share("coverage", options.coverage);
  if (!(options.evalue > 0)) {
    throw files::DataError("similarity of sequences: evalue is " + std::to_string(options.evalue) +
                           ", must be above 0");
  }
}

SequenceSet::SequenceSet(std::span<const std::string_view> sequences) : number_of(sequences.size()) {
  std::unordered_map<std::string, uint32_t> seen;
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (sequences[i].size() > kMaxAlignedLength) {
      throw files::DataError("sequence " + std::to_string(i) + " has " + std::to_string(sequences[i].size()) +
                             " residues, at most " + std::to_string(kMaxAlignedLength) +
                             " can be compared: leave it out");
    }
    Letters letters = encode_letters(sequences[i]);
    const auto [place, is_new] =
        seen.emplace(std::string(letters.begin(), letters.end()), static_cast<uint32_t>(distinct.size()));
    number_of[i] = place->second;
    if (is_new) distinct.push_back(std::move(letters));
  }
}

std::vector<uint32_t> SequenceSet::by_length() const {
  std::vector<uint32_t> order(distinct.size());
  std::iota(order.begin(), order.end(), uint32_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return distinct[a].size() < distinct[b].size(); });
  return order;
}

std::vector<std::optional<uint32_t>> find_containing(const std::vector<Letters>& sequences,
                                                     const std::vector<bool>& is_short) {
  // Looked up by their text, one length after the other: the short lengths are few, the sequences may be
  // many.
  std::map<size_t, std::unordered_multimap<std::string_view, uint32_t>> by_length;
  for (uint32_t i = 0; i < sequences.size(); ++i) {
    if (is_short[i] && !sequences[i].empty())
      by_length[sequences[i].size()].emplace(text_of(sequences[i]), i);
  }
  std::vector<std::optional<uint32_t>> containing(sequences.size());
  for (auto& [length, wanted] : by_length) {
    for (uint32_t i = 0; i < sequences.size() && !wanted.empty(); ++i) {
      const std::string_view text = text_of(sequences[i]);
      for (size_t at = 0; text.size() > length && at + length <= text.size(); ++at) {
        const auto [first, last] = wanted.equal_range(text.substr(at, length));
        for (auto found = first; found != last; ++found) containing[found->second] = i;
        wanted.erase(first, last);
      }
    }
  }
  return containing;
}

}  // namespace pipeline::clusters
