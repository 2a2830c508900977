#include "plugins/data/proteins/sample.hpp"
#include "plugins/data/residues/residue.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "plugins/data/clusters/clusters.hpp"
#include "plugins/data/clusters/local_alignment.hpp"

namespace pipeline::proteins {
namespace {

constexpr int32_t kIdentical = 4, kSameNumber = 2;
constexpr int32_t kJump = 4;  // so that even one residue behind a loop is paired, if its number is the same
constexpr int32_t kNeither = -5;                // residues with nothing in common are rather passed over
constexpr size_t kMostCells = size_t{1} << 27;  // a byte each

bool same_number(const residues::Residue& a, const residues::Residue& b) {
  return a.number == b.number && a.insertion == b.insertion;
}

int32_t score_of(const residues::Residue& a, const residues::Residue& b) {
  const bool identical = a.amino_acid == b.amino_acid && a.amino_acid < residues::kAminoAcidCount,
             same = same_number(a, b);
  return identical || same ? (identical ? kIdentical : 0) + (same ? kSameNumber : 0) : kNeither;
}

ResiduePairs pair_by_number(std::span<const residues::Residue> a, std::span<const residues::Residue> b) {
  ResiduePairs pairs;
  for (uint32_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (same_number(a[i], b[j])) {
      pairs.emplace_back(i++, j++);
    } else {
      ++(a[i].number <= b[j].number ? i : j);
    }
  }
  return pairs;
}

// What a cell (i, j) remembers: what the best pairing that ends with the pair (i, j) had before it, and where
// among the cells up to (i, j) the best pairing ends.
enum Cell : uint8_t { kNext = 1, kJumped = 2, kEndsHere = 4, kEndsAbove = 8 };

constexpr double kLeastIdentity = 0.9;
constexpr uint32_t kLeastIdentities = 10;
// Ten residues of which nine are the same, or more of which as many are, have this many the same in a row.
constexpr size_t kWord = 5;

struct Distinct {
  clusters::Letters letters;
  std::span<const residues::Residue> residues;  // of the first chain with this sequence
  int64_t begin = 0;                            // where that chain begins
  std::vector<uint32_t> words;                  // all stretches of kWord known residues, ascending
};

std::vector<uint32_t> words_of(const clusters::Letters& letters) {
  std::vector<uint32_t> words;
  for (size_t i = 0; i + kWord <= letters.size(); ++i) {
    uint32_t word = 0;
    bool known = true;
    for (size_t k = i; k < i + kWord; ++k) {
      known = known && letters[k] < residues::kAminoAcidCount;
      word = word * residues::kAminoAcidCount + letters[k];
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
  const clusters::LocalAlignment alignment = clusters::align_locally(a.letters, b.letters);
  return alignment.identities >= kLeastIdentities &&
         alignment.identities >= kLeastIdentity * alignment.columns;
}

}  // namespace

ResiduePairs pair_residues(std::span<const residues::Residue> a, std::span<const residues::Residue> b) {
  if (a.empty() || b.empty()) return {};
  if (a.size() > kMostCells / b.size()) return pair_by_number(a, b);
  const size_t columns = b.size();
  std::vector<uint8_t> cells(a.size() * columns);
  // For the row above, shifted by one: the best pairing that ends in a cell, and the best up to the cell.
  std::vector<int32_t> ends(columns + 1), best(columns + 1);
  for (size_t i = 0; i < a.size(); ++i) {
    int32_t diagonal = 0, corner = 0, left = 0;
    for (size_t j = 0; j < columns; ++j) {
      uint8_t& cell = cells[i * columns + j];
      const int32_t before = std::max({diagonal, corner - kJump, 0});
      cell = before == 0 ? 0 : before == diagonal ? kNext : kJumped;
      const int32_t here = before + score_of(a[i], b[j]), above = best[j + 1];
      diagonal = ends[j + 1], corner = above;
      ends[j + 1] = here;
      cell |= here >= std::max(above, left) ? kEndsHere : above >= left ? kEndsAbove : 0;
      left = best[j + 1] = std::max({here, above, left});
    }
  }
  ResiduePairs pairs;
  size_t i = a.size(), j = columns;  // one more than the places
  for (bool jumped = true; i > 0 && j > 0;) {
    const uint8_t cell = cells[(i - 1) * columns + j - 1];
    if (jumped && (cell & kEndsHere) == 0) {
      --((cell & kEndsAbove) != 0 ? i : j);
      continue;
    }
    pairs.emplace_back(static_cast<uint32_t>(--i), static_cast<uint32_t>(--j));
    if ((cell & (kNext | kJumped)) == 0) break;
    jumped = (cell & kJumped) != 0;
  }
  std::reverse(pairs.begin(), pairs.end());
  return pairs;
}

std::vector<int64_t> find_copies(std::span<const std::span<const residues::Residue>> chains) {
  if (chains.size() == 1) {
    std::vector<int64_t> each_its_own(chains.front().size());
    std::iota(each_its_own.begin(), each_its_own.end(), 0);
    return each_its_own;
  }
  std::map<clusters::Letters, Distinct> by_letters;
  std::vector<uint8_t> known;
  std::vector<std::pair<int64_t, const Distinct*>> places;  // of each chain: where it lies, and its sequence
  for (const std::span<const residues::Residue>& chain : chains) {
    const auto begin = static_cast<int64_t>(known.size());
    clusters::Letters letters;
    for (const residues::Residue& residue : chain) {
      letters.push_back(residue.amino_acid);
      known.push_back(residue.amino_acid < residues::kAminoAcidCount ? 1 : 0);
    }
    const auto [place, is_new] = by_letters.try_emplace(letters);
    if (is_new) place->second = {.letters = letters, .residues = chain, .begin = begin, .words = {}};
    places.emplace_back(begin, &place->second);
  }

  clusters::DisjointSets groups(known.size());
  const auto join = [&](int64_t a, int64_t b) {
    groups.join(static_cast<uint32_t>(a), static_cast<uint32_t>(b));
  };
  for (const auto& [begin, distinct] : places)
    for (int64_t i = 0; i < static_cast<int64_t>(distinct->letters.size()); ++i)
      join(distinct->begin + i, begin + i);
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
        join(order[m]->begin + theirs, chain.begin + ours);
        left -= paired[ours] == 0 ? 1 : 0;
        paired[ours] = 1;
      }
    }
  }

  std::vector<int64_t> stands_for(known.size(), -1), result;  // by the first residue of a set
  for (uint32_t i = 0; i < known.size(); ++i) {
    int64_t& first_known = stands_for[groups.first(i)];
    if (known[i] != 0 && first_known < 0) first_known = i;
  }
  for (uint32_t i = 0; i < known.size(); ++i) {
    const uint32_t first = groups.first(i);
    result.push_back(stands_for[first] < 0 ? first : stands_for[first]);
  }
  return result;
}

}  // namespace pipeline::proteins
