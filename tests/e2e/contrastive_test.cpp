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

const std::vector<std::string> kSiglip{"--set", "task.kind=siglip", "--set", "task.vision.hidden_size=16"};

TEST_F(Contrastive, TrainsEvaluatesAndExports) {
  const Result run = call("run", {"--set", "train.max_steps=40"});
  ASSERT_EQ(run.code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("43 training, 12 validation, 12 test pairs; 4 patches a picture"));
  EXPECT_THAT(run.out + run.err, HasSubstr("drawings/17.png"));
  EXPECT_THAT(run.out, HasSubstr("retrieval"));
  const std::vector<double> losses = this->losses("run");
  EXPECT_GT(losses[0], std::log(8.0) - 0.5) << "of eight pairs, with little known";
  EXPECT_LT(losses[2 * 38], losses[0]);

  const Result evaluated = call("evaluate", {"--split", "test"});
  ASSERT_EQ(evaluated.code, 0) << evaluated.out << evaluated.err;
  const auto figures = nlohmann::json::parse(read_text(path("run/evaluation-test.json")))["figures"];
  for (const char* name : {"text_recall_1", "text_recall_5", "text_recall_10", "picture_recall_1"})
    EXPECT_TRUE(figures.contains(name)) << name << " in " << figures;
  EXPECT_LE(figures["text_recall_1"], figures["text_recall_10"]);

  // The exported folder is a start like any other: nothing is lost on the way.
  ASSERT_EQ(call("export", {"--checkpoint", "last"}).code, 0);
  const auto written = nlohmann::json::parse(read_text(path("run/export/config.json")));
  EXPECT_EQ(written["model_type"], "clip");
  EXPECT_EQ(written["text_config"]["eos_token_id"], written["text_config"]["vocab_size"].get<int>() - 1);
  EXPECT_EQ(
      nlohmann::json::parse(read_text(path("run/export/preprocessor_config.json")))["image_processor_type"],
      "LlavaImageProcessor");  // pads
  ASSERT_EQ(call("evaluate", {"--split", "val", "--checkpoint", "last"}).code, 0);
  const double loss = nlohmann::json::parse(read_text(path("run/evaluation-val.json")))["figures"]["loss"];
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
  const Result again = pipeline({"run", "from.toml", "--set", "run.dir=again"}, folder());
  ASSERT_EQ(again.code, 0) << again.out << again.err;
  EXPECT_NEAR(nlohmann::json::parse(read_lines(path("again/eval.jsonl")).back())["loss"].get<double>(), loss,
              1e-5);
  ASSERT_EQ(
      pipeline({"export", "from.toml", "--set", "run.dir=again", "--checkpoint", "last"}, folder()).code, 0);
  for (const char* file : {"config.json", "preprocessor_config.json"})
    EXPECT_EQ(read_text(path("again/export") / file), read_text(path("run/export") / file)) << file;
  // A scale that is given replaces the folder's, and counts up to its limit.
  const auto first_loss = [&](const std::string& dir, std::vector<std::string> more) {
    more.insert(more.begin(), {"run", "from.toml", "--set", "run.dir=" + dir});
    const Result result = pipeline(more, folder());
    EXPECT_EQ(result.code, 0) << result.out << result.err;
    return this->losses(dir).at(0);
  };
  const double given = first_loss("given", {"--set", "task.logit_scale=0.5"});
  EXPECT_NE(given, this->losses("again").at(0));
  EXPECT_EQ(first_loss("most", {"--set", "task.logit_scale=3", "--set", "task.max_logit_scale=0.5"}), given);
  EXPECT_NE(first_loss("more", {"--set", "task.logit_scale=3"}), given);
  EXPECT_EQ(first_loss("below", {"--set", "task.logit_scale=0.5", "--set", "task.max_logit_scale=3"}), given);
  ASSERT_EQ(pipeline({"export", "from.toml", "--set", "run.dir=most", "--set", "task.logit_scale=3", "--set",
                      "task.max_logit_scale=0.5", "--checkpoint", "last"},
                     folder())
                .code,
            0);
  const std::string from_export = "train.init_from=most/export";
  EXPECT_EQ(first_loss("exported", {"--set", from_export}), given) << "as it counted";
  const Result other =
      pipeline({"run", "from.toml", "--set", "run.dir=other", "--set", "task.kind=siglip"}, folder());
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("kind"));
}

TEST_F(Contrastive, HasTheSameBitsUnderEveryStrategy) {
  for (const bool siglip : {false, true}) {
    const std::vector<std::string> more = siglip ? kSiglip : std::vector<std::string>{};
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
    return std::vector<std::string>{"--set", "optimizer.lr=1e-4", "--set",
                                    "train.micro_batch=" + micro_batch};
  };
  train({"single", 1}, with("8"), "whole");
  for (const std::string size : {"4", "1"}) {
    train({"single", 1}, with(size), "cut" + size);
    expect_close("cut" + size, losses("whole"), 1e-5);
  }
}

TEST_F(Contrastive, UnusableInputIsNamed) {
  const Result few = call("run", {"--set", "task.data.max_broken_share=0.0"});
  EXPECT_NE(few.code, 0);
  EXPECT_THAT(few.err, HasSubstr("drawings/17.png"));
  const Result width = call("run", {"--set", "task.kind=siglip", "--set", "task.projection_dim=32"});
  EXPECT_EQ(width.code, 2);
  EXPECT_THAT(width.err, HasSubstr("task.projection_dim=32: of siglip it is that of pictures"));
  write_text(
      path("turns.json"),
      R"([{"id":"t1","image":"drawings/1.png","conversations":[{"from":"human","value":"<image>\nWhat?"},)"
      R"({"from":"gpt","value":"red"}]}])");
  const Result turns = call("run", {"--set", "task.data.train=turns.json"});
  EXPECT_EQ(turns.code, 2);
  EXPECT_THAT(turns.err,
              HasSubstr("record t1 is a conversation: this task takes pictures with captions alone"));
  const Result freeze = call("run", {"--set", "task.freeze=[\"towers.*\"]"});
  EXPECT_EQ(freeze.code, 2);
  EXPECT_THAT(freeze.err, HasSubstr("matches no parameter"));
}

}  // namespace
}  // namespace pipeline::tests
