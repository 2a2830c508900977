#include "tokenizer/bpe_model.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <unordered_set>

namespace pipeline::tokenizer {
namespace {

// Up to here a scan over all pairs for each merge is faster than a heap, and everything is on the stack.
constexpr size_t kShortBytes = 64;

constexpr int32_t kNoToken = -1;

}  // namespace

BpeModel::BpeModel(const Vocabulary& vocabulary)
    : pairs_(vocabulary.merges), ends_words_(vocabulary.ends_words()) {
  byte_ids_.fill(kNoToken);
  last_ids_.fill(kNoToken);
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string& token = vocabulary.tokens[i];
    const auto id = static_cast<int32_t>(i);
    const bool added = is_added(vocabulary, i);
    if (token.size() == 1)
      if (int32_t& known = byte_ids_[static_cast<uint8_t>(token[0])]; !added || known == kNoToken) known = id;
    if (ends_words_ && !added && token.size() == 2 && token[1] == ' ')
      last_ids_[static_cast<uint8_t>(token[0])] = id;
    if (vocabulary.ignore_merges && !added) wholes_.emplace(token, id);
  }
  std::unordered_set<int32_t> special;
  for (const Added& token : vocabulary.added)
    if (token.how.is_special) special.insert(token.id);
  for (const Merge& merge : vocabulary.merges)
    if (special.contains(merge.result)) special_.emplace(merge.result, merge);
}

void BpeModel::encode_append(std::string_view piece, std::vector<int32_t>& ids) const {
  const auto before = static_cast<ptrdiff_t>(ids.size());
  encode_any(piece, ids);
  if (special_.empty()) return;
  std::vector<int32_t> rest(ids.rbegin(), ids.rend() - before);  // from its end
  ids.resize(static_cast<size_t>(before));
  while (!rest.empty()) {
    const int32_t id = rest.back();
    rest.pop_back();
    if (const auto made = special_.find(id); made == special_.end())
      ids.push_back(id);
    else
      rest.insert(rest.end(), {made->second.right, made->second.left});
  }
}

void BpeModel::encode_any(std::string_view piece, std::vector<int32_t>& ids) const {
  if (!wholes_.empty()) {
    if (const auto whole = wholes_.find(piece); whole != wholes_.end()) {
      ids.push_back(whole->second);
      return;
    }
  }
  if (ends_words_) return encode_word(piece, ids);
  piece.size() <= kShortBytes ? encode_short(piece, ids) : encode_long(piece, ids);
}

void BpeModel::encode_short(std::string_view piece, std::vector<int32_t>& ids) const {
  struct Part {
    int32_t token;
    int32_t merged;  // what it becomes together with the next one
    uint32_t rank;   // of that merge
  };
  Part parts[kShortBytes];
  Part* end = parts;
  for (const char byte : piece) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(byte)];
    if (id != kNoToken) *end++ = {id, 0, kNoRank};
  }
  if (end == parts) return;
  const auto look_up = [&](Part* part) {
    part->rank = kNoRank;
    if (part + 1 == end) return;
    const PairTable::Entry& entry = pairs_.find(part[0].token, part[1].token);
    part->merged = entry.result;
    part->rank = entry.rank;
  };
  for (Part* part = parts; part != end; ++part) look_up(part);

  while (true) {
    Part* best = parts;
    for (Part* part = parts + 1; part < end; ++part) {
      if (part->rank < best->rank) best = part;
    }
    if (best->rank == kNoRank) break;
    best->token = best->merged;
    std::copy(best + 2, end, best + 1);
    --end;
    look_up(best);
    if (best != parts) look_up(best - 1);
  }
  for (const Part* part = parts; part != end; ++part) ids.push_back(part->token);
}

void BpeModel::encode_long(std::string_view piece, std::vector<int32_t>& ids) const {
  std::vector<int32_t> tokens;
  tokens.reserve(piece.size());
  for (const char byte : piece) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(byte)];
    if (id != kNoToken) tokens.push_back(id);
  }
  merge_all(pairs_, tokens, ids);
}

void BpeModel::encode_word(std::string_view piece, std::vector<int32_t>& ids) const {
  std::vector<int32_t> tokens;
  for (const char byte : piece) tokens.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
  tokens.back() = last_ids_[static_cast<uint8_t>(piece.back())];
  merge_all(pairs_, tokens, ids);
}

void merge_all(const PairTable& pairs, std::span<const int32_t> tokens, std::vector<int32_t>& ids) {
  constexpr size_t kEnd = ~size_t{0};
  struct Node {  // of a list of the tokens that are left, from left to right
    int32_t token;
    size_t previous;
    size_t next;
  };
  struct Candidate {
    uint32_t rank;
    size_t at;  // the left token
    int32_t result;
    bool operator>(const Candidate& other) const {
      return std::tie(rank, at) > std::tie(other.rank, other.at);
    }
  };
  if (tokens.empty()) return;
  std::vector<Node> nodes;
  nodes.reserve(tokens.size());
  for (const int32_t token : tokens) nodes.push_back({token, nodes.size() - 1, nodes.size() + 1});
  nodes.front().previous = nodes.back().next = kEnd;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto look_up = [&](size_t at) {
    const size_t next = nodes[at].next;
    if (next == kEnd) return;
    const PairTable::Entry& entry = pairs.find(nodes[at].token, nodes[next].token);
    if (entry.rank != kNoRank) candidates.push({entry.rank, at, entry.result});
  };
  for (size_t i = 0; i < nodes.size(); ++i) look_up(i);

  constexpr int32_t kGone = -1;
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Node& left = nodes[best.at];
    // Merges next to it may have overtaken a candidate. As in Hugging Face's, it stands as long as the pair
    // there makes the same token.
    if (left.token == kGone || left.next == kEnd) continue;
    const PairTable::Entry& now = pairs.find(left.token, nodes[left.next].token);
    if (now.rank == kNoRank || now.result != best.result) continue;
    Node& right = nodes[left.next];
    left.token = best.result;
    right.token = kGone;
    left.next = right.next;
    if (left.next != kEnd) nodes[left.next].previous = best.at;
    look_up(best.at);
    if (left.previous != kEnd) look_up(left.previous);
  }
  for (size_t at = 0; at != kEnd; at = nodes[at].next) ids.push_back(nodes[at].token);
}

}  // namespace pipeline::tokenizer
