#include "tokenizer/bpe_trainer.hpp"

#include <array>
#include <queue>
#include <span>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "tokenizer/pre_tokenizer.hpp"
#include "tokenizer/vocabulary_builder.hpp"

namespace pipeline::tokenizer {
namespace {

// Longer pieces are cut for counting. A merge looks through every piece that has its pair, so one of
// megabytes (a text without spaces or of one character) would be read thousands of times. Words are far
// shorter.
constexpr size_t kLongestPiece = 512;

// The bytes of `piece` that are counted as one: up to kLongestPiece of them, and no cut inside a character.
size_t counted_bytes(std::string_view piece) {
  if (piece.size() <= kLongestPiece) return piece.size();
  size_t end = kLongestPiece;
  while (end > kLongestPiece - 4 && (piece[end] & 0xc0) == 0x80) --end;
  return end;
}

struct Word {
  std::span<int32_t> tokens;  // shrinks as they merge
  int64_t count;
};

// How often a pair stands side by side in all words, and in which: a word stays listed when the pair has left
// it.
struct PairUse {
  int64_t count = 0;
  std::vector<uint32_t> words;
};

struct Candidate {
  int64_t count;
  int32_t left;
  int32_t right;
  // Last in the queue's order is the best: most frequent, then smallest ids.
  bool operator<(const Candidate& other) const {
    return std::tie(count, other.left, other.right) < std::tie(other.count, left, right);
  }
};

uint64_t key_of(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

class MergeLearner {
 public:
  explicit MergeLearner(size_t piece_bytes) { pool_.reserve(piece_bytes); }

  void add_byte_tokens() {
    for (const uint8_t byte : alphabet_order()) {
      byte_ids_[byte] = add_token(std::string(1, static_cast<char>(byte)));
    }
  }

  void add_word(std::string_view piece, int64_t count) {
    const size_t begin = pool_.size();  // within what was reserved: spans stay valid
    for (const char byte : piece) pool_.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
    const auto tokens = std::span(pool_).subspan(begin);
    const auto word = static_cast<uint32_t>(words_.size());
    words_.push_back({tokens, count});
    for (size_t i = 0; i + 1 < tokens.size(); ++i) change(tokens[i], tokens[i + 1], count, word);
  }

  Vocabulary learn(const TrainerOptions& options) {
    const size_t token_count = static_cast<size_t>(options.vocab_size) - 1;  // without the end of text
    for (const auto& [key, use] : uses_) push(key, use.count);
    while (vocabulary_.tokens.size() < token_count && !candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      const uint64_t key = key_of(best.left, best.right);
      const int64_t count = uses_.at(key).count;
      if (count != best.count) {  // merges of its neighbours have changed it since
        push(key, count);
        continue;
      }
      if (count < options.min_frequency) break;
      merge(best.left, best.right);
      if (options.on_token) options.on_token(static_cast<int32_t>(vocabulary_.tokens.size()));
    }
    return std::move(vocabulary_);
  }

 private:
  int32_t add_token(std::string bytes) {
    vocabulary_.tokens.push_back(std::move(bytes));
    return static_cast<int32_t>(vocabulary_.tokens.size()) - 1;
  }

  void push(uint64_t key, int64_t count) {
    if (count > 0)
      candidates_.push({count, static_cast<int32_t>(key >> 32), static_cast<int32_t>(key & 0xffffffff)});
  }

  void change(int32_t left, int32_t right, int64_t difference, uint32_t word) {
    PairUse& use = uses_[key_of(left, right)];
    use.count += difference;
    if (difference > 0 && (use.words.empty() || use.words.back() != word)) use.words.push_back(word);
  }

  // The result is always a new token: between two ends of tokens, what has been merged depends on the bytes
  // there alone.
  void merge(int32_t left, int32_t right) {
    const int32_t result = add_token(vocabulary_.tokens[static_cast<size_t>(left)] +
                                     vocabulary_.tokens[static_cast<size_t>(right)]);
    vocabulary_.merges.push_back({left, right, result});
    const std::vector<uint32_t> words = std::move(uses_.at(key_of(left, right)).words);
    touched_.clear();
    for (const uint32_t word : words) merge_in_word(left, right, result, word);
    uses_.at(key_of(left, right)) = {};
    for (const uint64_t touched : touched_) push(touched, uses_.at(touched).count);
  }

  void merge_in_word(int32_t left, int32_t right, int32_t result, uint32_t word) {
    auto& [tokens, count] = words_[word];
    size_t kept = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i + 1 == tokens.size() || tokens[i] != left || tokens[i + 1] != right) {
        tokens[kept++] = tokens[i];
        continue;
      }
      if (kept > 0) {
        change(tokens[kept - 1], left, -count, word);
        change(tokens[kept - 1], result, count, word);
        touched_.insert(key_of(tokens[kept - 1], result));
      }
      if (i + 2 < tokens.size()) {
        change(right, tokens[i + 2], -count, word);
        change(result, tokens[i + 2], count, word);
        touched_.insert(key_of(result, tokens[i + 2]));
      }
      tokens[kept++] = result;
      ++i;
    }
    tokens = tokens.first(kept);
  }

  Vocabulary vocabulary_;
  std::array<int32_t, 256> byte_ids_{};
  std::vector<int32_t> pool_;
  std::vector<Word> words_;
  std::unordered_map<uint64_t, PairUse> uses_;
  std::priority_queue<Candidate> candidates_;
  std::unordered_set<uint64_t> touched_;
};

}  // namespace

void BpeTrainer::add(std::string_view text) {
  for (PieceScanner scanner(text); scanner.next();) {
    for (std::string_view rest = scanner.piece(); !rest.empty();) {
      const std::string_view piece = rest.substr(0, counted_bytes(rest));
      count(piece);
      rest.remove_prefix(piece.size());
    }
  }
}

void BpeTrainer::count(std::string_view piece) {
  const auto found = piece_counts_.find(piece);
  if (found != piece_counts_.end()) {
    ++found->second;
  } else {
    piece_counts_.emplace(piece, 1);
  }
}

ByteLevelBpe BpeTrainer::train(const TrainerOptions& options) const {
  if (options.vocab_size < 257) {
    throw TokenizerError("vocab_size = " + std::to_string(options.vocab_size) +
                         ": must be at least 257: 256 bytes and " + kEndOfText);
  }
  if (piece_counts_.empty()) throw TokenizerError("a tokenizer cannot be trained without text");
  size_t piece_bytes = 0;
  for (const auto& entry : piece_counts_) piece_bytes += entry.first.size();

  MergeLearner learner(piece_bytes);
  learner.add_byte_tokens();
  size_t words = 0;
  for (const auto& [piece, count] : piece_counts_) {
    learner.add_word(piece, count);
    if (options.on_token && ++words % 4096 == 0) options.on_token(256);
  }
  Vocabulary vocabulary = learner.learn(options);
  vocabulary.added.push_back({static_cast<int32_t>(vocabulary.tokens.size()), kEndOfText});
  vocabulary.tokens.push_back(kEndOfText);
  return ByteLevelBpe(std::move(vocabulary));
}

}  // namespace pipeline::tokenizer
