#include "plugins/tasks/protein/task/copies.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "plugins/tasks/protein/clusters/local_alignment.hpp"
#include "plugins/tasks/protein/task/residue_pairing.hpp"

namespace pipeline::protein {
namespace {

constexpr double kLeastIdentity = 0.9;
constexpr uint32_t kLeastIdentities = 10;
// Ten residues of which nine are the same, or more of which as many are, have this many the same in a row.
constexpr size_t kWord = 5;

struct Distinct {
  Letters letters;
  std::span<const Residue> residues;  // of the first chain with this sequence
  int64_t begin = 0;                  // where that lies
  std::vector<uint32_t> words;        // all stretches of kWord known residues, ascending
};

std::vector<uint32_t> words_of(const Letters& letters) {
  std::vector<uint32_t> words;
  for (size_t i = 0; i + kWord <= letters.size(); ++i) {
    uint32_t word = 0;
    bool known = true;
    for (size_t k = i; k < i + kWord; ++k) {
      known = known && letters[k] < kAminoAcidCount;
      word = word * kAminoAcidCount + letters[k];
    }
    if (known) words.push_back(word);
  }
  std::sort(words.begin(), words.end());
  return words;
}

bool share_a_word(const Distinct& a, const Distinct& b) {
  for (auto i = a.words.begin(), j = b.words.begin(); i != a.words.end() && j != b.words.end();) {
    if (*i == *j) return true;
    ++(*i < *j ? i : j);
  }
  return false;
}

bool are_copies(const Distinct& a, const Distinct& b) {
  if (!share_a_word(a, b)) return false;
  const LocalAlignment alignment = align_locally(a.letters, b.letters);
  return alignment.identities >= kLeastIdentities &&
         alignment.identities >= kLeastIdentity * alignment.columns;
}

// Residues that are joined, each set with the number that stands for it.
class Groups {
 public:
  explicit Groups(std::vector<uint8_t> known) : parent_(known.size()), known_(std::move(known)) {
    std::iota(parent_.begin(), parent_.end(), int64_t{0});
  }

  int64_t first(int64_t i) {
    while (at(i) != i) i = at(i) = at(at(i));
    return i;
  }
  void join(int64_t a, int64_t b) {
    a = first(a), b = first(b);
    if (std::pair(is_unknown(b), b) < std::pair(is_unknown(a), a)) std::swap(a, b);
    at(b) = a;
  }

 private:
  int64_t& at(int64_t i) { return parent_[static_cast<size_t>(i)]; }
  bool is_unknown(int64_t i) const { return known_[static_cast<size_t>(i)] == 0; }

  std::vector<int64_t> parent_;
  std::vector<uint8_t> known_;
};

}  // namespace

std::vector<int64_t> find_copies(std::span<const std::span<const Residue>> chains) {
  std::map<Letters, Distinct> by_letters;
  std::vector<uint8_t> known;
  std::vector<std::pair<int64_t, const Distinct*>> places;  // of each chain: where it lies, and its sequence
  for (const std::span<const Residue>& chain : chains) {
    const auto begin = static_cast<int64_t>(known.size());
    Letters letters;
    for (const Residue& residue : chain) {
      letters.push_back(residue.amino_acid);
      known.push_back(residue.amino_acid < kAminoAcidCount ? 1 : 0);
    }
    const auto [place, is_new] = by_letters.try_emplace(letters);
    if (is_new) place->second = {.letters = letters, .residues = chain, .begin = begin, .words = {}};
    places.emplace_back(begin, &place->second);
  }

  Groups groups(std::move(known));
  for (const auto& [begin, distinct] : places)
    for (int64_t i = 0; i < static_cast<int64_t>(distinct->letters.size()); ++i)
      groups.join(distinct->begin + i, begin + i);
  std::vector<Distinct*> order;  // the longest first: they have what others lack
  for (auto& [letters, distinct] : by_letters) order.push_back(&distinct);
  if (order.size() > 1)
    for (Distinct* distinct : order) distinct->words = words_of(distinct->letters);
  std::sort(order.begin(), order.end(), [](const Distinct* a, const Distinct* b) {
    return std::pair(b->letters.size(), a->begin) < std::pair(a->letters.size(), b->begin);
  });
  for (size_t n = 1; n < order.size(); ++n) {
    const Distinct& chain = *order[n];
    std::vector<uint8_t> paired(chain.letters.size(), 0);
    size_t left = paired.size();
    for (size_t m = 0; m < n && left > 0; ++m) {
      if (!are_copies(*order[m], chain)) continue;
      for (const auto& [theirs, ours] : pair_residues(order[m]->residues, chain.residues)) {
        groups.join(order[m]->begin + theirs, chain.begin + ours);
        left -= paired[ours] == 0 ? 1 : 0;
        paired[ours] = 1;
      }
    }
  }

  std::vector<int64_t> result;
  for (const auto& [begin, distinct] : places)
    for (int64_t i = 0; i < static_cast<int64_t>(distinct->letters.size()); ++i)
      result.push_back(groups.first(begin + i));
  return result;
}

}  // namespace pipeline::protein
