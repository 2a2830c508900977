// Texts that belong together, as samples of tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/files/hash128.hpp"
#include "plugins/data/records/pair_source.hpp"
#include "plugins/data/stores/token_store.hpp"

namespace pipeline::tasks::embedding {

using files::Hash128;
using stores::TokenSample;

// How texts become tokens.
struct Encoder {
  std::function<std::vector<int32_t>(std::string_view text)> encode;
  std::string query_prompt, passage_prompt;
  uint32_t vocabulary_size;

  std::vector<int32_t> of_query(std::string_view text) const {
    return encode(query_prompt + std::string(text));
  }
  std::vector<int32_t> of_passage(std::string_view text) const {
    return encode(passage_prompt + std::string(text));
  }
};

// A document that a query is judged with: it answers it, the more the higher the grade.
struct Judgement {
  Hash128 document;
  double grade;
};

// What a sample is about, beside its tokens. Its first text may stand alone; others belong to it, or seem to.
struct Facts {
  std::string name, text;                      // the first text, as it is written
  std::vector<uint32_t> positives, negatives;  // tokens of each
  std::optional<float> score;                  // of similarity
  // Of collections with judgements: the names of the first text and of its positive, and what all judge.
  std::vector<Hash128> keys;
  std::vector<Judgement> judgements;

  uint64_t documents = 0;  // of the collection, with a query
};
Facts facts_of(const TokenSample& sample);

// A sample of a text and those that belong to it or not. is_judged: it is a part of figures.
std::string pack(const Facts& facts, const std::vector<int32_t>& first,
                 const std::vector<std::vector<int32_t>>& others, uint32_t vocabulary_size, bool is_judged);

// The tokens of a sample's text 0 (the first), 1 ... (positives, then negatives).
std::vector<int64_t> tokens_of(const TokenSample& sample, const Facts& facts, size_t text);

// Reads the samples of a source: first texts; as second ones positives, lists of them, or, with is_scored,
// the other text; as extra ones negatives or the score. Throws DataError. [any-thread]
stores::TokenReport read_pairs(const records::PairSource& source, bool is_scored, const Encoder& encoder,
                               const files::Hooks& hooks, const stores::TokenSink& add);

// A collection as BEIR has them (Thakur et al., arXiv:2104.08663): corpus.jsonl, queries.jsonl, and in qrels/
// what is judged, test.tsv of the split "test".
bool is_collection(const std::string& folder);
struct Collection {
  std::string folder, split;
  std::string state;  // equal where the judgements are

  Collection(std::string folder, std::string split);  // throws DataError
  std::string judgements() const;                     // path
};
// Queries with a document that answers them, then all documents. files: of the folder; they must not change.
stores::TokenReport read_collection(const Collection& collection, const sources::SourceFiles& files,
                                    uint64_t max_record_bytes, const Encoder& encoder,
                                    const files::Hooks& hooks, const stores::TokenSink& add);

}  // namespace pipeline::tasks::embedding
