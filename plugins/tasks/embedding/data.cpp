#include "plugins/tasks/embedding/data.hpp"

#include <pipeline/error.hpp>

#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "plugins/data/files/texts.hpp"
#include "plugins/data/records/json_records.hpp"
#include "plugins/data/records/label_scale.hpp"

namespace pipeline::tasks::embedding {
namespace {

// A sample is the tokens of its first text, a mark where it has something to be judged by, and the tokens of
// the others.
enum Part : size_t { kFirst, kIsJudged, kOthers };

template <class T>
void put_list(std::string& out, const std::vector<T>& values) {
  files::put_text(out, files::bytes_of(values));
}
template <class T>
bool take_list(std::string_view& bytes, std::vector<T>& values) {
  std::string text;
  if (!files::take_text(bytes, text) || text.size() % sizeof(T) != 0) return false;
  values.resize(text.size() / sizeof(T));
  if (!text.empty()) std::memcpy(values.data(), text.data(), text.size());
  return true;
}

}  // namespace

std::string pack(const Facts& facts, const std::vector<int32_t>& first,
                 const std::vector<std::vector<int32_t>>& others, uint32_t vocabulary_size, bool is_judged) {
  std::string beside;
  files::put_text(beside, facts.name);
  files::put_text(beside, facts.text);
  put_list(beside, facts.positives);
  put_list(beside, facts.negatives);
  put_list(beside, facts.score ? std::vector{*facts.score} : std::vector<float>());
  put_list(beside, facts.keys);
  put_list(beside, facts.judgements);
  beside.append(files::bytes_of(facts.documents));
  std::vector<int32_t> all, mark(is_judged ? 1 : 0);
  for (const auto& one : others) all.insert(all.end(), one.begin(), one.end());
  return stores::pack_tokens({first, mark, all}, beside, vocabulary_size);
}

Facts facts_of(const TokenSample& sample) {
  std::string_view beside = sample.beside;
  Facts facts;
  std::vector<float> score;
  const bool is_whole = files::take_text(beside, facts.name) && files::take_text(beside, facts.text) &&
                        take_list(beside, facts.positives) && take_list(beside, facts.negatives) &&
                        take_list(beside, score) && take_list(beside, facts.keys) &&
                        take_list(beside, facts.judgements) && files::take(beside, facts.documents);
  uint64_t size = 0;
  for (const auto* list : {&facts.positives, &facts.negatives})
    for (const uint32_t count : *list) size += count;
  if (!is_whole || size != sample.parts.at(kOthers).size()) fail("a sample of the cache is damaged");
  if (!score.empty()) facts.score = score.front();
  return facts;
}

std::vector<int64_t> tokens_of(const TokenSample& sample, const Facts& facts, size_t text) {
  if (text == 0) return sample.parts.at(kFirst).all<int64_t>();
  uint32_t at = 0, size = 0;
  for (size_t i = 0; i < text; ++i) {
    at += size;
    size = i < facts.positives.size() ? facts.positives[i] : facts.negatives.at(i - facts.positives.size());
  }
  std::vector<int64_t> tokens;
  const stores::TokenView& all = sample.parts.at(kOthers);
  for (uint32_t i = at; i < at + size; ++i) tokens.push_back(all[i]);
  return tokens;
}

stores::TokenReport read_pairs(const records::PairSource& source, bool is_scored, const Encoder& encoder,
                               const files::Hooks& hooks, const stores::TokenSink& add) {
  uint64_t left_out = 0;
  std::string example;
  struct Read {
    std::string sample;  // empty: nothing belongs to its text
    std::string name;    // then
    bool has_negatives = false;
  };
  bool has_negatives = false;
  stores::TokenReport report = source.read_on_threads<Read>(
      hooks,
      [&](const records::Pair& record) -> Read {
        Facts facts{.name = record.id, .text = record.first};
        std::vector<std::vector<int32_t>> others;
        const auto take = [&](const std::string& field, std::vector<uint32_t>& sizes) {
          if (field.empty()) return;
          for (const std::string& text : records::items_of(field)) {
            if (records::is_blank(text)) continue;
            sizes.push_back(static_cast<uint32_t>(others.emplace_back(encoder.of_passage(text)).size()));
          }
        };
        take(record.second, facts.positives);
        const std::string score(files::trimmed(record.extra));
        const bool has_score = !score.empty() && !records::is_word_for_none(score);
        if (is_scored && has_score) {
          const auto number = records::label_number(score);
          if (!number)
            throw files::DataError(concat(source.files.named, ": record ", record.id, ": \"",
                                          score.substr(0, 60), "\" in column \"", source.columns.extra,
                                          "\" is no number, or too large a one"));
          facts.score = static_cast<float>(*number);
        } else if (!is_scored) {
          take(record.extra, facts.negatives);
        }
        const bool is_judged = !facts.positives.empty() && (!is_scored || facts.score);
        if (!is_judged && source.columns.second_required) return {.sample = {}, .name = record.id};
        return {
            .sample = pack(facts, encoder.of_query(record.first), others, encoder.vocabulary_size, is_judged),
            .name = {},
            .has_negatives = !facts.negatives.empty()};
      },
      [&](Read&& one) {
        has_negatives = has_negatives || one.has_negatives;
        if (!one.sample.empty()) return add(std::move(one.sample));
        if (left_out++ == 0) example = one.name;
      });
  if (!is_scored && !has_negatives && source.columns.second_required && !source.columns.extra.empty())
    throw files::DataError(concat(source.files.named, ": no record has a text in column \"",
                                  source.columns.extra,
                                  "\": name that of negatives in task.data.negative_column"));
  if (left_out == 0) return report;
  report.used -= left_out;
  report.notes += concat(left_out, left_out == 1 ? " record" : " records", " of ", source.files.name(),
                         " left out, without a text in column \"", source.columns.second, "\"",
                         is_scored ? concat(" or a score in column \"", source.columns.extra, "\"") : "",
                         ": the first is ", example, "\n");
  return report;
}

}  // namespace pipeline::tasks::embedding
