// `pipeline export` as a user runs it: the type of the weights, shards, and the card.
#include <filesystem>

#include <gmock/gmock.h>

#include "core/safetensors/file.hpp"
#include "tests/e2e/small_job.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Export : public testing::Test, public SmallJob {
 protected:
  // Of 1.8 million parameters.
  static Words larger() { return {"task.language.hidden_size=256", "train.max_steps=1", "run.dir=large"}; }
};

TEST_F(Export, WeightsAreRoundedOnceAndTold) {
  call("run").ended(0);
  call("evaluate", {"--split", "val"}).ended(0);
  call("export", {"--output", "whole"}).ended(0);
  const Result result = call("export", {"export.dtype=bf16", "--output", "narrow"}).ended(0);
  EXPECT_THAT(result.out,
              testing::ContainsRegex("the weights are written in bfloat16: of [0-9,]+ values [0-9,]+ are "
                                     "rounded, by [0-9.e-]+ at most"));
  EXPECT_EQ(read_json(path("narrow/config.json"))["torch_dtype"], "bfloat16");
  const auto whole = safetensors::Folder::open(path("whole")),
             narrow = safetensors::Folder::open(path("narrow"));
  ASSERT_EQ(whole.names(), narrow.names());
  for (const std::string& name : whole.names())
    EXPECT_EQ(narrow.at(name).dtype, safetensors::Dtype::kBF16) << name;

  // What begins with it and is exported follows it; in float32, if that is asked for, no value is lost.
  const Words begins{"run.dir=next", "train.init_from=narrow", "task.tokenizer.path=narrow",
                     "train.max_steps=1"};
  call("run", begins).ended(0);
  call("export", begins + Words{"--output", "follows"}).ended(0);
  EXPECT_EQ(safetensors::Folder::open(path("follows")).at("transformer.wte.weight").dtype,
            safetensors::Dtype::kBF16);
  const Result wide = call("export", begins + Words{"export.dtype=fp32", "--output", "wide"}).ended(0);
  EXPECT_THAT(wide.out, HasSubstr("the weights are written in float32, none of them rounded"));
  EXPECT_EQ(read_json(path("wide/config.json"))["torch_dtype"], "float32");
  EXPECT_NE(safetensors::Folder::open(path("wide")).at("transformer.wte.weight").data.size(), 0U);
  call("export", begins + Words{"export.dtype=bf16", "--output", "again"}).ended(0);
  EXPECT_EQ(read_text(path("again/model.safetensors")), read_text(path("follows/model.safetensors")))
      << "rounded by the core as by the task";

  const std::string card = read_text(path("whole/README.md"));
  for (const char* part :
       {"library_name: transformers\npipeline_tag: text-generation\n", "GPT2LMHeadModel",
        "Split `val`, 6 samples", "| perplexity |", "max_steps = ", "`data.train = \"train.jsonl\"`"})
    EXPECT_THAT(card, HasSubstr(part));
}

TEST_F(Export, ShardsAreReadAgain) {
  call("run", larger()).ended(0);
  call("export", larger() + Words{"--output", "one"}).ended(0);
  const Result result =
      call("export", larger() + Words{"export.shard_size=2", "--output", "shards"}).ended(0);
  EXPECT_THAT(result.out, HasSubstr("files of at most 2 MB (export.shard_size)"));
  EXPECT_FALSE(fs::exists(path("shards/model.safetensors")));
  const auto one = safetensors::Folder::open(path("one")), shards = safetensors::Folder::open(path("shards"));
  EXPECT_GT(shards.files().size(), 2U);
  ASSERT_EQ(one.names(), shards.names());
  for (const std::string& name : one.names())
    EXPECT_TRUE(std::ranges::equal(one.at(name).data, shards.at(name).data)) << name;
  EXPECT_EQ(call("evaluate", larger() + Words{"--checkpoint", "shards", "--split", "val"}).code, 0);
}

TEST_F(Export, AnUnknownTypeIsRefused) {
  EXPECT_THAT(call("export", {"export.dtype=int8"}).ended(2).err,
              HasSubstr("export.dtype=int8: is not one of auto, fp32, bf16 or fp16"));
}

TEST_F(Export, OfSamplesTheFirstArePredicted) {
  call("run").ended(0);
  const Result result =
      call("predict", {"--samples", "2", "--output", "few.csv", "task.ask.show=logits"}).ended(0);
  EXPECT_THAT(result.out, HasSubstr("2 samples in "));
  const std::string table = read_text(path("few.csv"));
  EXPECT_THAT(table,
              testing::StartsWith("id,prompt,prompt_tokens,messages,tokens,likeliest,written,ended\n"));
  EXPECT_THAT(table, HasSubstr("\nx2,"));
  EXPECT_THAT(table, testing::Not(HasSubstr("\nx3,")));
}

}  // namespace
}  // namespace pipeline::tests
