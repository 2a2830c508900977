#include "plugins/data/clusters/local_alignment.hpp"

#include <algorithm>
#include <limits>
#include <memory>

namespace pipeline::clusters {

namespace {

constexpr size_t kLanes = ScoreBatch::kLanes;
// Beside a missing residue of a target: so low that no alignment goes on there.
constexpr std::array<int8_t, kLetters> kPastTheEnd = [] {
  std::array<int8_t, kLetters> row{};
  row.fill(-100);
  return row;
}();

// GCC's and Clang's vectors: each operation is one on all lanes, in as many instructions as the machine needs
// for it. The alignment is stated since GCC takes it for that of the smallest registers here, and for that of
// the largest where it uses them.
template <typename Score>
struct alignas(kLanes * sizeof(Score)) Vector {
  typedef Score Type __attribute__((vector_size(kLanes * sizeof(Score))));
  Type lanes;
};

// The state at one residue of the query, as far as the targets have been read.
template <typename Score>
struct BatchState {
  Vector<Score> best, gap;  // H and E of the recurrences, as in align_locally
};

template <typename Score>
using Profile =
    std::vector<Vector<Score>>;  // (target position, letter): what that letter scores in each lane

// Always inlined, so that it is compiled for the instructions of its caller.
template <typename Score>
[[gnu::always_inline]] inline void align(const Profile<Score>& profile, LetterView query,
                                         std::vector<BatchState<Score>>& states, Vector<Score>& result) {
  using V = typename Vector<Score>::Type;
  const V zero{};
  constexpr Score kOpen = kGapOpen + kGapExtend, kExtend = kGapExtend;
  V highest{};
  for (size_t at = 0; at < profile.size(); at += kLetters) {
    const Vector<Score>* const scores = &profile[at];
    V diagonal{}, gap{};  // gap: along the query (F)
    BatchState<Score>* state = states.data();
    for (const uint8_t letter : query) {
      const V before = state->best.lanes, open = state->gap.lanes;
      V cell = diagonal + scores[letter].lanes;
      cell = cell > open ? cell : open;
      cell = cell > zero ? cell : zero;
      const V best = cell > gap ? cell : gap;
      state->best.lanes = best;
      diagonal = before;
      const V opened = best - kOpen, longer = open - kExtend;
      state->gap.lanes = opened > longer ? opened : longer;
      // From `cell`, not `best`: opening a gap where a gap won never beats going on with it, and the chain
      // along the query is shorter.
      const V next_opened = cell - kOpen, next_longer = gap - kExtend;
      gap = next_opened > next_longer ? next_opened : next_longer;
      highest = highest > best ? highest : best;
      ++state;
    }
  }
  result.lanes = highest;
}

template <typename Score>
using Align = void (*)(const Profile<Score>&, LetterView, std::vector<BatchState<Score>>&, Vector<Score>&);

template <typename Score>
void align_anywhere(const Profile<Score>& profile, LetterView query, std::vector<BatchState<Score>>& states,
                    Vector<Score>& result) {
  align(profile, query, states, result);
}

#if defined(__x86_64__)
template <typename Score>
[[gnu::target("avx2")]] void align_avx2(const Profile<Score>& profile, LetterView query,
                                        std::vector<BatchState<Score>>& states, Vector<Score>& result) {
  align(profile, query, states, result);
}
#endif

template <typename Score>
Align<Score> fastest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return align_avx2<Score>;
#endif
  return align_anywhere<Score>;
}

}  // namespace

template <typename Score>
struct ScoreBatch::Lanes {
  Profile<Score> profile;
  std::vector<BatchState<Score>> states;
  Align<Score> align = fastest<Score>();

  void set_targets(std::span<const LetterView> targets, size_t longest) {
    profile.resize(longest * kLetters);
    std::array<const int8_t*, kLanes> rows;  // of the substitution matrix, for the residue in each lane
    for (size_t position = 0; position < longest; ++position) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const bool inside = lane < targets.size() && position < targets[lane].size();
        rows[lane] = inside ? kSubstitution[targets[lane][position]].data() : kPastTheEnd.data();
      }
      Vector<Score>* const scores = &profile[position * kLetters];
      for (size_t letter = 0; letter < kLetters; ++letter) {
        for (size_t lane = 0; lane < kLanes; ++lane) scores[letter].lanes[lane] = rows[lane][letter];
      }
    }
  }

  Scores scores(LetterView query) {
    states.assign(query.size(), BatchState<Score>{});
    Vector<Score> result;
    align(profile, query, states, result);
    Scores found;
    for (size_t lane = 0; lane < kLanes; ++lane) found[lane] = result.lanes[lane];
    return found;
  }
};

ScoreBatch::ScoreBatch()
    : narrow_(std::make_unique<Lanes<int16_t>>()), wide_(std::make_unique<Lanes<int32_t>>()) {}
ScoreBatch::~ScoreBatch() = default;

void ScoreBatch::set_targets(std::span<const LetterView> targets) {
  size_t longest = 0;
  for (const LetterView& target : targets) longest = std::max(longest, target.size());
  // No alignment has more columns than the shorter sequence has residues, so these numbers cannot overflow.
  use_wide_ = longest * kMaxSubstitution > static_cast<size_t>(std::numeric_limits<int16_t>::max());
  if (use_wide_) {
    wide_->set_targets(targets, longest);
  } else {
    narrow_->set_targets(targets, longest);
  }
}

ScoreBatch::Scores ScoreBatch::scores(LetterView query) {
  return use_wide_ ? wide_->scores(query) : narrow_->scores(query);
}

}  // namespace pipeline::clusters
