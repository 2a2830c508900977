#include "plugins/tasks/text/data.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "files/data_errors.hpp"
#include "plugins/tasks/common/language_task.hpp"
#include "plugins/tasks/text/documents.hpp"

namespace pipeline::tasks::text {

records::PairSource DocumentOptions::source_of(const sources::SourceFiles& files,
                                               const files::SplitPart& part) const {
  return {.files = files,
          .columns = {.first = text_column,
                      .second = "",
                      .id = id_column.empty() ? "id" : id_column,
                      .second_required = false,
                      .id_required = !id_column.empty()},
          .max_record_bytes = static_cast<uint64_t>(max_record_bytes),
          .quotes = records::quotes_named(quotes),
          .text_unit = document == "line"        ? records::TextUnit::kLine
                       : document == "paragraph" ? records::TextUnit::kParagraph
                                                 : records::TextUnit::kFile,
          .part = part};
}

tokenizer::TrainingTexts Corpus::training_texts(const SourceOf& source_of, int64_t size) const {
  std::vector<records::PairSource> all;
  for (const sources::SourceFiles& files : sources_of(Split::kTrain))
    all.push_back(source_of(files, data_.of(Split::kTrain).part));
  if (all.empty()) errors_("data.train", "is needed to train a tokenizer on");
  std::string key = "trained/3 " + std::to_string(size);
  tokenizer::TrainingTexts result;
  for (const records::PairSource& source : all) {
    key += "\n" + source.options() + " " + source.part.key() + " " + source.files.hash.hex();
    result.what += (result.what.empty() ? "" : ", ") + source.files.name();
    result.bytes += source.files.bytes;
  }
  result.key = files::hash128(key).hex();
  result.each = [all = std::move(all)](const auto& text, const auto& read) {
    uint64_t before = 0;
    for (const records::PairSource& source : all) {
      source.each_text(text, [&](uint64_t done) { read(before + done); });
      before += source.files.bytes;
    }
  };
  return result;
}

files::Hooks Corpus::hooks(const std::string& what) const {
  return files::hooks_of(context_, what, context_.run().threads);
}

std::vector<sources::SourceFiles> Corpus::sources_of(Split split) const {
  const sources::SplitOptions::Sources wanted = data_.of(split);
  const bool may_be_missing = !trains() && tokenizer_.is_open();
  std::vector<sources::SourceFiles> all;
  for (const std::string& named : wanted.named) {
    if (const std::string problem = sources::problem_of(named, data_.content); !problem.empty()) {
      if (!may_be_missing) errors_(wanted.key, wanted.named.size() > 1 ? named + ": " + problem : problem);
      context_.warn(named, " is not there: going on without it");
      return {};
    }
    const std::string name = std::filesystem::path(named).filename().string();
    all.push_back(sources::find_and_hash(named, cache_folder(), hooks("reading " + name), data_.content));
  }
  return all;
}

files::Hash128 Corpus::key(const Reading& reading, const sources::SourceFiles& files,
                           const files::SplitPart& part) const {
  files::Hasher128 hasher;
  for (const std::string& text : {reading.options, part.key(), std::to_string(tokenizer_->fingerprint()),
                                  std::to_string(tokenizer_->vocab_size()), files.hash.hex()})
    hasher.update_text(text);
  return hasher.finish();
}

void Corpus::open(Split split) const {
  const auto at = static_cast<size_t>(split);
  if (std::exchange(is_open_[at], true)) return;
  const sources::SplitOptions::Sources wanted = data_.of(split);
  // What training has said of its files is not said again.
  const bool is_known = split == Split::kTrain ? !trains() : wanted.part.is_validation;
  std::vector<stores::TokenStore> stores;
  for (const sources::SourceFiles& files : sources_of(split)) {
    const Reading reading = reading_(files, split, wanted.part);
    const files::Hooks tokenizing = hooks("tokenizing " + files.name());
    stores.push_back(stores::open_or_fill_tokens(
        {.folder = cache_folder(),
         .name = files.stem(),
         .key = key(reading, files, wanted.part),
         .what = "tokenizing " + files.named},
        tokenizing, [&](const stores::TokenSink& add) { return reading.read(add, tokenizing); }));
    if (is_known) continue;
    files::for_each_line(stores.back().report().drops, [&](const std::string& line) { context_.warn(line); });
    files::for_each_line(stores.back().report().notes, [&](const std::string& line) { context_.info(line); });
  }
  stores_[at] = Stores(std::move(stores), wanted.names, wanted.shares, context_.seed("mixture"));
}

const Corpus::Stores& Corpus::store(Split split) const {
  const auto at = static_cast<size_t>(split);
  if (!is_open_[at] && asked_.empty()) files::with_data_errors([&] { open(split); });
  return stores_[at];
}

void Corpus::leave_out_unanswered(const char* lacks) {
  const Stores& all = store(Split::kTest);
  if (all.stores().empty()) return;
  const stores::TokenStore& test = all.stores().front();
  if (test.targets() == 0 || test.targets() == test.size()) return;
  files::with_data_errors([&] {
    for (uint64_t i = 0; i < test.size(); ++i)
      if (test[i].has_target()) answered_.push_back(i);
  });
  const uint64_t records = test.report().records, dropped = records - test.report().used;
  context_.info("evaluated  ", answered_.size(), " of the ", records,
                " records of the test file: ", test.size() - answered_.size(), " ", lacks, ", and ", dropped,
                dropped == 1 ? " was dropped" : " were dropped");
}

void Corpus::prepare() const {
  if (!trains()) return;
  for (const Split split : {Split::kTrain, Split::kVal, Split::kTest}) open(split);
}

void Corpus::log_held_out(const char* noun) const {
  const double share = data_.validation_share;
  if (share > 0 && size(Split::kTrain) > 0)
    files::with_data_errors([&] {
      context_.info(files::held_out_text(data_.named_for_training(), share, store(Split::kTrain).records(),
                                         store(Split::kVal).records(), noun));
    });
}

void Corpus::log_sizes(const char* noun) const {
  const uint64_t train = size(Split::kTrain), validation = size(Split::kVal), test = size(Split::kTest);
  context_.info("data       ", train, " training, ", validation, " validation, ", test, " test ", noun, "; ",
                tokenizer_.size_text());
  for (const std::string& line : training().lines()) context_.info(line);
}

uint64_t Corpus::size(Split split) const {
  if (is_asked(split)) return 1;
  if (split == Split::kTest && !answered_.empty()) return answered_.size();
  return store(split).size();
}

uint64_t Corpus::targets(Split split) const {
  uint64_t count = 0;
  if (!is_asked(split))
    for (const stores::TokenStore& one : store(split).stores()) count += one.targets();
  return count;
}

stores::TokenSample Corpus::sample(Split split, uint64_t id, uint64_t epoch) const {
  if (is_asked(split)) return stores::unpack_tokens(asked_).value();
  const bool is_listed = split == Split::kTest && !answered_.empty();
  return files::with_data_errors([&] {
    return store(split).with(epoch, is_listed ? answered_[id] : id,
                             [](const stores::TokenStore& one, uint64_t i) { return one[i]; });
  });
}

std::string Corpus::fingerprint() const {
  std::string result = std::to_string(tokenizer_->fingerprint());
  for (const Split split : {Split::kTrain, Split::kVal, Split::kTest}) {
    if (trains() && split == Split::kTest) continue;
    const bool is_needed = is_open_[static_cast<size_t>(split)] ||
                           (context_.run().world_size > 1 && (trains() || split != Split::kTrain));
    result += " " + (is_needed ? store(split).fingerprint() : "-");
  }
  return result;
}

}  // namespace pipeline::tasks::text
