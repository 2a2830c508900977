// The contrastive task as a user runs it, on a few drawings.
#include <cmath>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/e2e/contrastive_job.hpp"
#include "tests/e2e/same_run.hpp"

namespace pipeline::tests {
namespace {

using testing::HasSubstr;

using Contrastive = SameRunOf<SmallContrastiveJob>;

const Words kSiglip{"task.kind=siglip", "task.vision.hidden_size=16"};

TEST_F(Contrastive, TrainsEvaluatesAndExports) {
  const Result run = call("run", {"train.max_steps=40"}).ended(0);
  EXPECT_THAT(run.out, HasSubstr("43 training, 12 validation, 12 test pairs; 4 patches a picture"));
  EXPECT_THAT(run.out + run.err, HasSubstr("drawings/17.png"));
  EXPECT_THAT(run.out, HasSubstr("retrieval"));
  const std::vector<double> losses = this->losses("run");
  EXPECT_GT(losses[0], std::log(8.0) - 0.5) << "of eight pairs, with little known";
  EXPECT_LT(losses[2 * 38], losses[0]);

  call("evaluate", {"--split", "test"}).ended(0);
  const auto figures = read_json(path("run/evaluation-test.json"))["figures"];
  for (const char* name : {"text_recall_1", "text_recall_5", "text_recall_10", "picture_recall_1"})
    EXPECT_TRUE(figures.contains(name)) << name << " in " << figures;
  EXPECT_LE(figures["text_recall_1"], figures["text_recall_10"]);

  // The exported folder is a start like any other: nothing is lost on the way.
  call("export", {"--checkpoint", "last"}).ended(0);
  const auto written = read_json(path("run/export/config.json"));
  EXPECT_EQ(written["model_type"], "clip");
  EXPECT_EQ(written["text_config"]["eos_token_id"], written["text_config"]["vocab_size"].get<int>() - 1);
  EXPECT_EQ(read_json(path("run/export/preprocessor_config.json"))["image_processor_type"],
            "LlavaImageProcessor");  // pads
  call("evaluate", {"--split", "val", "--checkpoint", "last"}).ended(0);
  const double loss = read_json(path("run/evaluation-val.json"))["figures"]["loss"];
  // The sizes of the model follow the folder.
  write_text(path("from.toml"), R"([run]
cache_dir = "cache"
device = "cpu"
[task]
plugin = "contrastive"
data = { train = "train.jsonl", val = "val.jsonl", max_broken_share = 0.1 }
[train]
init_from = "run/export"
global_batch = 8
micro_batch = 2
max_steps = 1
[optimizer]
lr = 0.0
)");
  const Result again = pipeline({"run", "from.toml", "run.dir=again"}).ended(0);
  EXPECT_NEAR(read_json_lines(path("again/eval.jsonl")).back()["loss"].get<double>(), loss, 1e-5);
  pipeline({"export", "from.toml", "run.dir=again", "--checkpoint", "last"}).ended(0);
  for (const char* file : {"config.json", "preprocessor_config.json"})
    EXPECT_EQ(read_text(path("again/export") / file), read_text(path("run/export") / file)) << file;
  // A scale that is given replaces the folder's, and counts up to its limit.
  const auto first_loss = [&](const std::string& dir, const Words& more) {
    pipeline(Words{"run", "from.toml", "run.dir=" + dir} + more).ended(0);
    return this->losses(dir).at(0);
  };
  const double given = first_loss("given", {"task.logit_scale=0.5"});
  EXPECT_NE(given, this->losses("again").at(0));
  EXPECT_EQ(first_loss("most", {"task.logit_scale=3", "task.max_logit_scale=0.5"}), given);
  EXPECT_NE(first_loss("more", {"task.logit_scale=3"}), given);
  EXPECT_EQ(first_loss("below", {"task.logit_scale=0.5", "task.max_logit_scale=3"}), given);
  ASSERT_EQ(pipeline({"export", "from.toml", "run.dir=most", "task.logit_scale=3", "task.max_logit_scale=0.5",
                      "--checkpoint", "last"})
                .code,
            0);
  const std::string from_export = "train.init_from=most/export";
  EXPECT_EQ(first_loss("exported", {from_export}), given) << "as it counted";
  const Result other = pipeline({"run", "from.toml", "run.dir=other", "task.kind=siglip"}).ended(2);
  EXPECT_THAT(other.err, HasSubstr("kind"));
}

TEST_F(Contrastive, HasTheSameBitsUnderEveryStrategy) {
  for (const bool siglip : {false, true}) {
    const Words more = siglip ? kSiglip : Words{};
    const std::string of = siglip ? "siglip_" : "clip_";
    train({"single", 1}, more, of + "single");
    const auto curve = this->curve(of + "single");
    ASSERT_EQ(curve.size(), 12u);
    for (const Arrangement& arrangement :
         {Arrangement{"ddp", 2}, Arrangement{"sharded2", 4}, Arrangement{"sharded3", 2}}) {
      train(arrangement, more, of + arrangement.name());
      EXPECT_EQ(this->curve(of + arrangement.name()), curve) << of << arrangement.name();
    }
  }
}

TEST_F(Contrastive, IsThatOfTheWholeBatchInAnyMicroBatches) {
  const auto with = [](const std::string& micro_batch) {
    return Words{"optimizer.lr=1e-4", "train.micro_batch=" + micro_batch};
  };
  train({"single", 1}, with("8"), "whole");
  for (const std::string size : {"4", "1"}) {
    train({"single", 1}, with(size), "cut" + size);
    expect_close("cut" + size, losses("whole"), 1e-5);
  }
}

TEST_F(Contrastive, UnusableInputIsNamed) {
  const Result few = call("run", {"task.data.max_broken_share=0.0"});
  EXPECT_NE(few.code, 0);
  EXPECT_THAT(few.err, HasSubstr("drawings/17.png"));
  EXPECT_THAT(call("run", {"task.kind=siglip", "task.projection_dim=32"}).ended(2).err,
              HasSubstr("task.projection_dim=32: of siglip it is that of pictures"));
  write_text(
      path("turns.json"),
      R"([{"id":"t1","image":"drawings/1.png","conversations":[{"from":"human","value":"<image>\nWhat?"},)"
      R"({"from":"gpt","value":"red"}]}])");
  EXPECT_THAT(call("run", {"task.data.train=turns.json"}).ended(2).err,
              HasSubstr("record t1 is a conversation: this task takes pictures with captions alone"));
  EXPECT_THAT(call("run", {"task.freeze=[\"towers.*\"]"}).ended(2).err, HasSubstr("matches no parameter"));
}

}  // namespace
}  // namespace pipeline::tests
