#include "tokenizer/byte_level_bpe.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <thread>

#include <gmock/gmock.h>

#include "core/base/utf8.hpp"
#include "tests/models/tokenizer/fixtures.hpp"
#include "tokenizer/bpe_model.hpp"
#include "tokenizer/bpe_trainer.hpp"

namespace pipeline::tokenizer {
namespace {

using tests::message_of;
using tests::trained_tokenizer;
using Ids = std::vector<int32_t>;

TEST(ByteLevelBpe, EncodesAsHuggingFaceDoes) {
  ASSERT_FALSE(tests::encode_cases().empty());
  for (const auto& expected : tests::encode_cases()) {
    EXPECT_EQ(trained_tokenizer().encode(expected.text), expected.ids) << expected.text;
    EXPECT_EQ(trained_tokenizer().encode(expected.text), expected.ids) << "from the cache: " << expected.text;
    EXPECT_EQ(trained_tokenizer().decode(expected.ids), expected.text);
  }
}

TEST(ByteLevelBpe, DecodesAsHuggingFaceDoes) {
  ASSERT_FALSE(tests::decode_cases().empty());
  for (const auto& expected : tests::decode_cases())
    EXPECT_EQ(trained_tokenizer().decode(expected.ids), expected.text);
}

class OtherKinds : public ::testing::TestWithParam<const char*> {
 protected:
  std::string folder() const { return tests::fixture(std::string("kinds/") + GetParam()); }
};

TEST_P(OtherKinds, EncodeAsHuggingFaceDoes) {
  const auto tokenizer = ByteLevelBpe::load(folder());
  const auto again = ByteLevelBpe::from_state(tokenizer.state(), "state");
  EXPECT_EQ(again.fingerprint(), tokenizer.fingerprint());
  const auto ids = nlohmann::json::parse(tests::read_all(folder() + "/ids.json"));
  const std::vector<tests::EncodeCase> texts = tests::encode_cases();
  ASSERT_EQ(ids.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const Ids expected = ids[i];
    EXPECT_EQ(tokenizer.encode(texts[i].text, SpecialTokens::kRecognize), expected) << texts[i].text;
    EXPECT_EQ(again.encode(texts[i].text, SpecialTokens::kRecognize), expected) << texts[i].text;
  }
}

INSTANTIATE_TEST_SUITE_P(ByteLevelBpe, OtherKinds, ::testing::Values("smol_lm", "llama3"));

TEST(ByteLevelBpe, BytesWithoutATokenAreLeftOut) {
  const auto tokenizer = ByteLevelBpe::load(tests::fixture("kinds/smol_lm"));
  EXPECT_EQ(tokenizer.decode_bytes(tokenizer.encode("a\x01"
                                                    "b\xff")),
            "ab");
  EXPECT_EQ(tokenizer.encode("\xff"), Ids{});
  std::string longer(100, '\xff');
  EXPECT_EQ(tokenizer.encode(longer), Ids{});
  longer[50] = '.';
  EXPECT_EQ(tokenizer.decode_bytes(tokenizer.encode(longer)), ".");
}

// Applies one merge after the other, over all of the piece: OpenAI's way of saying it.
Ids encode_by_definition(const Vocabulary& vocabulary, const std::string& piece) {
  std::map<std::pair<int32_t, int32_t>, std::pair<size_t, int32_t>> rules;
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const Merge& merge = vocabulary.merges[rank];
    rules[{merge.left, merge.right}] = {rank, merge.result};
  }
  Ids ids;
  for (const char byte : piece) {
    const auto found = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), std::string(1, byte));
    ids.push_back(static_cast<int32_t>(found - vocabulary.tokens.begin()));
  }
  while (true) {
    auto best = rules.end();
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto rule = rules.find({ids[i], ids[i + 1]});
      if (rule != rules.end() && (best == rules.end() || rule->second.first < best->second.first))
        best = rule;
    }
    if (best == rules.end()) return ids;
    Ids merged;
    for (size_t i = 0; i < ids.size(); ++i) {
      const bool pair = i + 1 < ids.size() && ids[i] == best->first.first && ids[i + 1] == best->first.second;
      merged.push_back(pair ? best->second.second : ids[i]);
      i += pair;
    }
    ids = merged;
  }
}

TEST(BpeModel, ShortAndLongPiecesFollowTheDefinition) {
  // Merges of two letters only: dense, with equal ranks all along a piece.
  Vocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary.tokens.push_back(std::string(1, static_cast<char>(byte)));
  const auto add = [&](int32_t left, int32_t right) {
    const auto result = static_cast<int32_t>(vocabulary.tokens.size());
    vocabulary.tokens.push_back(vocabulary.tokens[static_cast<size_t>(left)] +
                                vocabulary.tokens[static_cast<size_t>(right)]);
    vocabulary.merges.push_back({left, right, result});
    return result;
  };
  const int32_t aa = add('a', 'a');
  const int32_t ab = add('a', 'b');
  const int32_t aaaa = add(aa, aa);
  add('b', ab);
  add(aaaa, 'b');
  add(ab, ab);
  add('b', 'a');
  const BpeModel model(vocabulary);
  std::mt19937 random(3);
  for (size_t size = 1; size < 200; ++size) {
    for (int i = 0; i < 20; ++i) {
      std::string piece;
      while (piece.size() < size) piece += random() % 3 == 0 ? 'b' : 'a';
      Ids ids;
      model.encode_append(piece, ids);
      ASSERT_EQ(ids, encode_by_definition(vocabulary, piece)) << piece;
    }
  }
}

TEST(ByteLevelBpe, RandomTextFollowsTheDefinition) {
  std::mt19937 random(4);
  const Vocabulary& vocabulary = trained_tokenizer().vocabulary();
  for (int i = 0; i < 300; ++i) {
    std::string piece;  // learned tokens in a row, so that many merges apply
    while (piece.size() < random() % 100 + 1) piece += vocabulary.tokens[random() % 511];
    piece.erase(std::remove_if(piece.begin(), piece.end(),
                               [](char c) { return (c & 0x80) != 0 || !std::isalpha(c); }),
                piece.end());
    if (piece.empty()) continue;
    ASSERT_EQ(trained_tokenizer().encode(piece), encode_by_definition(vocabulary, piece)) << piece;
  }
}

TEST(ByteLevelBpe, EveryByteSurvives) {
  std::mt19937 random(5);
  for (int i = 0; i < 5'000; ++i) {
    std::string text;
    for (size_t n = random() % 60; n > 0; --n) text += static_cast<char>(random());
    const Ids ids = trained_tokenizer().encode(text);
    ASSERT_EQ(trained_tokenizer().decode_bytes(ids), text);
    ASSERT_EQ(trained_tokenizer().decode(ids), replace_invalid_utf8(text));
  }
}

TEST(ByteLevelBpe, HugePiecesTakeNoTimeToSpeakOf) {
  const std::string letters(2'000'000, 'e');  // one piece: quadratic work would take hours
  const Ids ids = trained_tokenizer().encode(letters);
  EXPECT_EQ(trained_tokenizer().decode(ids), letters);
}

TEST(ByteLevelBpe, SpecialTokensAreTextUnlessRecognized) {
  const ByteLevelBpe& tokenizer = trained_tokenizer();
  const std::string text = "the<|endoftext|>the<|endoftext|><|endoftext";
  EXPECT_EQ(tokenizer.eot(), 511);
  EXPECT_EQ(std::ranges::count(tokenizer.encode(text), 511), 0);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);

  Ids expected = tokenizer.encode("the");
  expected.push_back(511);
  tokenizer.encode_append("the", expected);
  expected.push_back(511);
  tokenizer.encode_append("<|endoftext", expected);
  EXPECT_EQ(tokenizer.encode(text, SpecialTokens::kRecognize), expected);
  EXPECT_EQ(tokenizer.decode(expected), text);
}

// tests/parity/tokenizer_parity.py compares with tokenizers.
TEST(ByteLevelBpe, AddedTokensThatAreNotSpecialAreWordsOfTheVocabulary) {
  Vocabulary vocabulary = trained_tokenizer().vocabulary();
  const auto add = [&](const char* text, const Matching& how) {
    vocabulary.added.push_back({static_cast<int32_t>(vocabulary.tokens.size()), text, how});
    vocabulary.tokens.emplace_back(text);
  };
  add("Acme", {.is_special = false, .is_normalized = true});                    // 512
  add("eC", {.is_special = false});                                             // looked for before
  add("Both", {.is_special = false, .takes_left = true, .takes_right = true});  // 514
  add("[PAD]", {});
  const ByteLevelBpe tokenizer(vocabulary);
  const auto ids = [&](const std::vector<std::pair<std::string, int32_t>>& parts) {
    Ids all;
    for (const auto& [text, id] : parts) {
      tokenizer.encode_append(text, all);
      if (id >= 0) all.push_back(id);
    }
    return all;
  };
  EXPECT_EQ(tokenizer.encode("an Acme\u00a0 Both \n BothAcmeCorp"),
            ids({{"an ", 512}, {"", 514}, {"", 514}, {"Acm", 513}, {"orp", -1}}));
  EXPECT_EQ(tokenizer.encode("[PAD]Acme").back(), 512);
  EXPECT_NE(tokenizer.encode("[PAD]Acme").front(), 515) << "a special one is letters";
  EXPECT_EQ(tokenizer.encode("[PAD]Acme", SpecialTokens::kRecognize), (Ids{515, 512}));
  EXPECT_NE(ByteLevelBpe(trained_tokenizer().vocabulary()).fingerprint(), tokenizer.fingerprint());
  Vocabulary special = vocabulary;
  for (Added& token : special.added) token.how.is_special = true;
  EXPECT_NE(ByteLevelBpe(special).fingerprint(), tokenizer.fingerprint()) << "for caches of ids";
}

TEST(ByteLevelBpe, OfSpecialTokensTheFirstThenTheLongestWins) {
  Vocabulary vocabulary = trained_tokenizer().vocabulary();
  for (const char* token : {"<s>", "<s><s>", "s><"}) {
    vocabulary.added.push_back({static_cast<int32_t>(vocabulary.tokens.size()), token});
    vocabulary.tokens.emplace_back(token);
  }
  const ByteLevelBpe tokenizer(vocabulary);
  EXPECT_EQ(tokenizer.encode("<s><s><s>", SpecialTokens::kRecognize), (Ids{513, 512}));
  EXPECT_EQ(tokenizer.encode("<|endoftext|><s>", SpecialTokens::kRecognize), (Ids{511, 512}));
}

TEST(ByteLevelBpe, IdsOutsideOfTheVocabularyAreErrors) {
  EXPECT_EQ(message_of<TokenizerError>([] {
              trained_tokenizer().decode(Ids{0, 512});
            }),
            "token id = 512: must be from 0 to 511");
  EXPECT_EQ(message_of<TokenizerError>([] { trained_tokenizer().decode(Ids{-1}); }),
            "token id = -1: must be from 0 to 511");
}

TEST(ByteLevelBpe, FingerprintsTellVocabulariesApart) {
  const Vocabulary& original = trained_tokenizer().vocabulary();
  EXPECT_EQ(ByteLevelBpe(original).fingerprint(), trained_tokenizer().fingerprint());
  Vocabulary merges = original;
  std::swap(merges.merges[0], merges.merges[1]);
  EXPECT_NE(ByteLevelBpe(merges).fingerprint(), trained_tokenizer().fingerprint());
  Vocabulary tokens = original;
  std::swap(tokens.tokens[300], tokens.tokens[301]);
  EXPECT_NE(ByteLevelBpe(tokens).fingerprint(), trained_tokenizer().fingerprint());
  Vocabulary kind = original;
  kind.pre_tokenizer = PreTokenizer::kSmolLm;
  EXPECT_NE(ByteLevelBpe(kind).fingerprint(), trained_tokenizer().fingerprint());
  Vocabulary ignoring = original;
  ignoring.ignore_merges = true;
  EXPECT_NE(ByteLevelBpe(ignoring).fingerprint(), trained_tokenizer().fingerprint());
  Vocabulary ending = original;
  ending.end_of_text = 511;  // what it is where no name is given
  EXPECT_EQ(ByteLevelBpe(ending).fingerprint(), trained_tokenizer().fingerprint());
  ending.added = {{510, "<end>"}, original.added[0]};
  ending.end_of_text = 510;
  Vocabulary with_another = original;
  with_another.added = ending.added;
  EXPECT_NE(ByteLevelBpe(ending).fingerprint(), ByteLevelBpe(with_another).fingerprint());
  Vocabulary special = original;
  special.added.clear();
  EXPECT_NE(ByteLevelBpe(special).fingerprint(), trained_tokenizer().fingerprint());
  EXPECT_FALSE(ByteLevelBpe(special).has_eot());
  EXPECT_EQ(message_of<TokenizerError>([&] { ByteLevelBpe(special).eot(); }),
            "the tokenizer has no end of text: tokenizer_config.json names no eos_token, and there is no "
            "special token <|endoftext|> or <|end_of_text|>");
}

TEST(ByteLevelBpe, TokenizersOfOneThreadDoNotMixInTheCache) {
  Vocabulary without_merges = trained_tokenizer().vocabulary();
  without_merges.merges.clear();
  const ByteLevelBpe bytes(without_merges);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(bytes.encode(" the").size(), 4u);
    EXPECT_EQ(trained_tokenizer().encode(" the").size(), 1u);
  }
}

TEST(ByteLevelBpe, PiecesThatFillACacheEntryComeOutWhole) {
  const std::string letters = "abcdefghijklmnopqrstuvwxyz";
  for (size_t size = 1; size <= letters.size(); ++size) {
    const std::string piece = letters.substr(0, size);
    const Ids expected = encode_by_definition(trained_tokenizer().vocabulary(), piece);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(trained_tokenizer().encode(piece), expected);
  }
  // Zeros at the end are part of a piece, not padding.
  const std::string zeros(3, '\0');
  for (int i = 0; i < 2; ++i) {
    for (size_t size = 1; size <= 3; ++size) {
      EXPECT_EQ(trained_tokenizer().decode_bytes(trained_tokenizer().encode(zeros.substr(0, size))),
                zeros.substr(0, size));
    }
  }
}

TEST(ByteLevelBpe, ThreadsShareATokenizer) {
  std::string text;
  for (const auto& entry : tests::encode_cases()) text += entry.text + "\n";
  const Ids expected = trained_tokenizer().encode(text);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) wrong[t] += trained_tokenizer().encode(text) != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(Utf8, IllFormedPartsAreReplacedAsPythonDoes) {
  // bytes.decode("utf-8", "replace") of CPython.
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"plain é 😀", "plain é 😀"},
      {"\xff", "�"},
      {"a\x80"
       "b",
       "a�b"},
      {"\xe4\xb8", "�"},
      {"\xe4\xb8z", "�z"},
      {"\xf0\x9f\x98", "�"},
      {"\xf0\x9f\x98\xf0\x9f\x98\x80", "�😀"},
      {"\xc0\xaf", "��"},
      {"\xe0\x80\x80", "���"},
      {"\xed\xa0\x80", "���"},
      {"\xf4\x90\x80\x80", "����"},
      {"\xf5\x80", "��"},
      {"\xc3(", "�("},
  };
  for (const auto& [bytes, expected] : cases) EXPECT_EQ(replace_invalid_utf8(bytes), expected);
}

// Where a folder's files name a word as what ends a text, transformers still has the longer ones.
TEST(ByteLevelBpe, AWordThatEndsATextIsInLongerWordsAsBefore) {
  BpeTrainer trainer;
  trainer.add("end end end end ends ends");
  const tests::FilesFolder folder;
  trainer.train({.vocab_size = 261}).save(folder.path());
  const Ids before = ByteLevelBpe::load(folder.path()).encode("end ends");
  ASSERT_EQ(before.size(), 2U);
  for (const char* named : {"end", "absent"}) {
    folder.write("tokenizer_config.json", "{}");
    folder.write("special_tokens_map.json", nlohmann::json({{"eos_token", named}}).dump());
    const auto tokenizer = ByteLevelBpe::load(folder.path());
    if (named == std::string_view("absent")) {
      EXPECT_EQ(tokenizer.encode("end ends"), before);
      continue;
    }
    EXPECT_EQ(tokenizer.eot(), before[0]);
    const Ids ids = tokenizer.encode("end ends");
    ASSERT_EQ(ids.size(), 3U) << "two parts of the first";
    EXPECT_EQ(ids.back(), before.back());
    EXPECT_THAT(ids, testing::Not(testing::Contains(before[0])));
    EXPECT_EQ(tokenizer.decode(ids), "end ends");
    EXPECT_EQ(tokenizer.encode("end", SpecialTokens::kRecognize), Ids{before[0]});
    EXPECT_EQ(ByteLevelBpe::from_state(tokenizer.state(), "x").encode("end ends"), ids);
  }
}

}  // namespace
}  // namespace pipeline::tokenizer
