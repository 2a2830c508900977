#include "plugins/models/encoder/sequences.hpp"

#include <algorithm>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "transformer/packed_batch.hpp"

namespace pipeline::encoder {
namespace {

constexpr int64_t number_of(std::string_view token) {
  return std::find(kVocabulary.begin(), kVocabulary.end(), token) - kVocabulary.begin();
}
static_assert(number_of("<cls>") == kCls && number_of("<pad>") == kPad && number_of("<eos>") == kEos &&
              number_of("<mask>") == kMask);

constexpr TokenTable make_table() {
  TokenTable table{};
  for (size_t i = 0; i < residues::kAminoAcids.size(); ++i)
    table[i] = number_of(residues::kAminoAcids.substr(i, 1));
  table[residues::kUnknown] = number_of("X");
  table[residues::kMaskToken] = kMask;
  for (size_t i = 0; i < residues::kRareLetters.size(); ++i)
    table[static_cast<size_t>(residues::kFirstRare) + i] = number_of(residues::kRareLetters.substr(i, 1));
  return table;
}
constexpr TokenTable kTable = make_table();
static_assert(*std::max_element(kTable.begin(), kTable.end()) == kMask);

}  // namespace

const TokenTable& token_table() { return kTable; }

Sequences::Sequences(const protein::PackedProteins& batch, bool token_dropout) {
  batch.check("ESM-2");
  TORCH_CHECK(batch.chain_rows.rows() == batch.sequences.rows(), "ESM-2: samples of ", batch.sequences.rows(),
              " residues in all with chains of ", batch.chain_rows.rows(), " (see index())");
  const at::NoGradGuard no_grad;
  const std::vector<int64_t>& starts = batch.chain_rows.starts;
  // For each row: the residue it stands for or beside, the first one of its sequence, that sequence, and
  // whether it comes before (-1) or after (1) the residues.
  std::vector<int64_t> residue, first, sequence, side;
  size_t next = 0;  // target
  for (size_t s = 0; s + 1 < starts.size(); ++s) {
    const int64_t begin = starts[s], end = starts[s + 1], shift = 2 * static_cast<int64_t>(s) + 1;
    for (int64_t n = begin - 1; n <= end; ++n) {
      residue.push_back(std::clamp(n, begin, end - 1));
      first.push_back(begin);
      sequence.push_back(static_cast<int64_t>(s));
      side.push_back(n < begin ? -1 : n == end ? 1 : 0);
    }
    for (; next < batch.target_rows.size() && batch.target_rows[next] < end; ++next)
      targets.push_back(batch.target_rows[next] + shift);
    rows.append(end - begin + 2);
  }
  TORCH_CHECK_INDEX(next == batch.target_rows.size(), "ESM-2: target row ", batch.target_rows[next], " of ",
                    batch.sequences.rows(), " residues");

  const at::Device device = batch.tokens.device();
  const auto there = [&](at::IntArrayRef values) { return transformer::to_device(values, device); };
  const at::Tensor of = there(residue), beside = there(side);
  tokens = there(token_table()).index_select(0, batch.tokens.index_select(0, of));
  tokens.masked_fill_(beside.lt(0), kCls).masked_fill_(beside.gt(0), kEos);
  positions =
      batch.positions.index_select(0, of) - batch.positions.index_select(0, there(first)) + beside + 1;
  if (!token_dropout) return;
  const at::Tensor masked = tokens.eq(kMask), in = there(sequence);
  std::vector<int64_t> lengths;
  for (int64_t s = 0; s < rows.sequences(); ++s) lengths.push_back(rows.length(s));
  const at::Tensor masks = at::zeros({rows.sequences()}, masked.options().dtype(at::kFloat))
                               .index_add_(0, in, masked.to(at::kFloat));
  const at::Tensor factor = (1 - masks / there(lengths)).reciprocal_().mul_(1 - kTrainedMaskRatio);
  scale = factor.index_select(0, in).masked_fill_(masked, 0);
}

}  // namespace pipeline::encoder
