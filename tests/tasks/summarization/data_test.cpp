// Pairs of a source as samples of tokens.
#include "plugins/tasks/summarization/data.hpp"

#include <filesystem>
#include <set>
#include <stdexcept>

#include <gtest/gtest.h>

#include "tests/support/test_files.hpp"

namespace pipeline::tasks::summarization {
namespace {

using files::DataError;

const std::string kThreePairs =
    "{\"id\":\"a\",\"document\":\"first document\",\"summary\":\"one\"}\n"
    "not json\n"
    "{\"id\":\"ü\",\"document\":\"второй\",\"summary\":\"2\"}\n"
    "{\"id\":\"c\",\"document\":\"third\",\"summary\":\"three\"}\n";

// One token a byte.
std::vector<int32_t> encode_bytes(std::string_view text) {
  std::vector<int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

class SummarizationData : public testing::Test {
 protected:
  PairSource source_of(const std::string& path) const {
    PairSource source;
    source.files =
        sources::find_and_hash(path, std::filesystem::path(path).parent_path() / "known", files::Hooks());
    return source;
  }
  // "document|summary|id" of each sample.
  std::vector<std::string> read(const PairSource& source, const files::Hooks& hooks = {}) {
    std::vector<std::string> all;
    report_ = read_samples(source, encoder_, hooks, [&](std::string&& bytes) {
      const stores::TokenSample sample = stores::unpack_tokens(bytes).value();
      std::string text;
      for (const stores::TokenView& part : sample.parts) {
        for (const int32_t token : part.all<int32_t>()) text += static_cast<char>(token);
        text += '|';
      }
      all.push_back(text + std::string(sample.beside));
    });
    return all;
  }

  tests::FilesFolder folder_;
  std::string path_ = folder_.write("train.jsonl", kThreePairs);
  Encoder encoder_{.encode = encode_bytes, .vocabulary_size = 256};
  stores::TokenReport report_;
};

TEST_F(SummarizationData, AreTheTokensOfEveryPairInOrder) {
  EXPECT_EQ(read(source_of(path_)),
            (std::vector<std::string>{"first document|one|a", "второй|2|ü", "third|three|c"}));
  EXPECT_EQ(report_.records, 4u);
  EXPECT_EQ(report_.used, 3u);
  EXPECT_NE(report_.drops.find("1 of 4 records of " + path_ + " was dropped"), std::string::npos);
  PairSource source = source_of(folder_.write("documents.csv", "document,summary\na,\nb,c\n"));
  source.columns.second_required = false;
  EXPECT_EQ(read(source), (std::vector<std::string>{"a||1", "b|c|2"}));
}

TEST_F(SummarizationData, AnythingThatMattersGivesOtherOptions) {
  const PairSource source = source_of(path_);
  const auto differs = [&](auto&& change) {
    PairSource other = source;
    change(other);
    return other.options() != source.options();
  };
  EXPECT_FALSE(differs([](auto&) {}));
  EXPECT_TRUE(differs([](auto& s) { s.columns.first = "text"; }));
  EXPECT_TRUE(differs([](auto& s) { s.columns.second = "title"; }));
  EXPECT_TRUE(differs([](auto& s) { s.columns.id = "name"; }));
  EXPECT_TRUE(differs([](auto& s) { s.columns.id_required = true; }));
  EXPECT_TRUE(differs([](auto& s) { s.columns.second_required = false; }));
  EXPECT_TRUE(differs([](auto& s) { s.max_record_bytes = 100; }));
  EXPECT_TRUE(differs([](auto& s) { s.quotes = records::Quotes::kText; }));
  EXPECT_NE((files::SplitPart{0.5, false}).key(), (files::SplitPart{0.5, true}).key());
}

TEST_F(SummarizationData, APartHasItsRecordsOfTheFileInAnyOrder) {
  std::string ascending, descending;
  for (int i = 0; i < 1000; ++i) {
    const std::string pair = "{\"id\":\"" + std::to_string(i) + "\",\"document\":\"d" +
                             std::to_string(i / 2) + "\",\"summary\":\"s\"}\n";
    ascending += pair;
    descending = pair + descending;
  }
  const auto documents = [&](const std::string& text, bool validation) {
    PairSource source = source_of(folder_.write("many.jsonl", text));
    source.part = {.held_out = 0.1, .is_validation = validation};
    std::multiset<std::string> all;
    for (const std::string& sample : read(source)) all.insert(sample.substr(0, sample.find('|')));
    EXPECT_EQ(report_.records, 1000u) << "of the file";
    return all;
  };
  const auto training = documents(ascending, false), validation = documents(ascending, true);
  EXPECT_EQ(training.size() + validation.size(), 1000u);
  EXPECT_EQ(validation.size(), 108u) << "another hash deals out otherwise, and old runs with it";
  for (const std::string& document : validation) {
    EXPECT_EQ(validation.count(document), 2u) << "equal documents stay together";
    EXPECT_FALSE(training.contains(document));
  }
  EXPECT_EQ(documents(descending, true), validation);
}

TEST_F(SummarizationData, ThreadsDoNotChangeTheResult) {
  std::string text;
  for (int i = 0; i < 5000; ++i)
    text += "{\"document\":\"d" + std::string(static_cast<size_t>(i % 300), 'x') + std::to_string(i) +
            "\",\"summary\":\"s\"}\n";
  const PairSource source = source_of(folder_.write("many.jsonl", text));
  const std::vector<std::string> one = read(source);
  EXPECT_EQ(one.size(), 5000u);
  EXPECT_EQ(read(source, {.threads = 4}), one);
}

TEST_F(SummarizationData, AnErrorOfTheTokenizerGoesThroughFromAnyThread) {
  encoder_.encode = [](std::string_view text) {
    if (text == "three") throw std::runtime_error("no such token");
    return encode_bytes(text);
  };
  EXPECT_EQ(tests::message_of<std::runtime_error>([&] { read(source_of(path_), {.threads = 3}); }),
            "no such token");
}

TEST_F(SummarizationData, ProgressIsReportedAndReadingCanBeCancelled) {
  uint64_t done = 0, total = 0;
  files::Hooks hooks;
  hooks.progress = [&](uint64_t bytes_done, uint64_t bytes_total) { done = bytes_done, total = bytes_total; };
  hooks.cancelled = [] { return true; };
  EXPECT_THROW(read(source_of(path_), hooks), files::Cancelled);
  hooks.cancelled = [] { return false; };
  read(source_of(path_), hooks);
  EXPECT_EQ(done, kThreePairs.size());
  EXPECT_EQ(total, kThreePairs.size());
}

TEST_F(SummarizationData, AFileThatChangesIsRefused) {
  const auto message = [&] {
    const PairSource source = source_of(path_);
    folder_.write("train.jsonl", kThreePairs + "\n");  // after the hashing
    return tests::message_of<DataError>([&] { read(source); });
  }();
  EXPECT_NE(message.find("changed while it was being read"), std::string::npos) << message;
  EXPECT_THROW(read(source_of(folder_.write("bad.jsonl", "x\n"))), DataError);
}

TEST_F(SummarizationData, ATokenizerIsTrainedOnAllTexts) {
  std::string all;
  uint64_t done = 0;
  source_of(path_).each_text([&](std::string_view text) { all += std::string(text) + "|"; },
                             [&](uint64_t bytes) { done = bytes; });
  EXPECT_EQ(all, "first document|one|второй|2|third|three|");
  EXPECT_EQ(done, kThreePairs.size());
}

}  // namespace
}  // namespace pipeline::tasks::summarization
