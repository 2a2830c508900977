// How texts of a SigLIP are made, by what its tokenizer's files say. Against transformers:
// tests/parity/contrastive_parity.py.
#include "plugins/tasks/contrastive/text_rules.hpp"

#include <gmock/gmock.h>

#include "plugins/models/tokenizer/bpe_trainer.hpp"
#include "plugins/models/tokenizer/byte_level_bpe.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::tasks::contrastive {
namespace {

using testing::HasSubstr;

TEST(TextRules, AreThoseOfTheTokenizersClass) {
  const tests::FilesFolder folder;
  tokenizer::BpeTrainer trainer;
  trainer.add("a");
  trainer.train({.vocab_size = 257}).save(folder.path());
  std::string form = tests::read_all(folder / "tokenizer.json");
  const std::string first = R"("added_tokens": [)";
  form.insert(form.find(first) + first.size(), R"({"id": 257, "content": "<pad>", "special": true},)");
  folder.write("tokenizer.json", form);
  const auto rules = [&](const std::string& more) {
    folder.write("tokenizer_config.json", R"({"eos_token": "<|endoftext|>")" + more + "}");
    return text_rules(*tokenizer::load_tokenizer(folder.path()));
  };
  const TextRules plain = rules("");
  EXPECT_FALSE(plain.is_lowered);
  EXPECT_FALSE(plain.is_padded_left);
  EXPECT_EQ(plain.padding, 256) << "the token that ends a text";
  const TextRules gemma =
      rules(R"(, "tokenizer_class": "GemmaTokenizer", "do_lower_case": true, "pad_token": "<pad>")");
  EXPECT_TRUE(gemma.is_lowered);
  EXPECT_FALSE(gemma.is_padded_left);
  EXPECT_EQ(gemma.padding, 257);
  EXPECT_FALSE(rules(R"(, "do_lower_case": false)").is_lowered);
  EXPECT_EQ(rules(R"(, "pad_token": {"content": "<pad>"})").padding, 257);
  const TextRules siglip2 = rules(R"(, "tokenizer_class": "Siglip2Tokenizer")");
  EXPECT_TRUE(siglip2.is_lowered);
  EXPECT_TRUE(siglip2.is_padded_left) << "the class's own side";
  EXPECT_EQ(siglip2.padding, 257);
  EXPECT_FALSE(rules(R"(, "tokenizer_class": "Siglip2Tokenizer", "padding_side": "right")").is_padded_left);
  EXPECT_EQ(siglip2.problem, "");
  const TextRules siglip = rules(R"(, "tokenizer_class": "SiglipTokenizer")");
  EXPECT_TRUE(siglip.is_lowered) << "the class's own way";
  EXPECT_TRUE(siglip.is_canonical);
  EXPECT_EQ(siglip.padding, 256);
  EXPECT_EQ(siglip.problem, "");
  EXPECT_FALSE(rules(R"(, "tokenizer_class": "SiglipTokenizer", "do_lower_case": false)").is_lowered);
  EXPECT_THAT(rules(R"(, "pad_token": "[PAD]")").problem,
              HasSubstr("pad_token = \"[PAD]\", which is not among"));
}

}  // namespace
}  // namespace pipeline::tasks::contrastive
