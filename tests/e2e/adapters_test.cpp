// Low-rank additions as a user has them: learnt from a folder, exported as PEFT's, and begun with again.
#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/safetensors/file.hpp"
#include "tests/e2e/job.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kModel = R"([run]
dir = "base"
cache_dir = "cache"
device = "cpu"
reproducible = true
[task]
plugin = "chat"
data = { train = "train.jsonl", val = "train.jsonl", test = "train.jsonl" }
language = { architecture = "qwen3", hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2, max_position_embeddings = 160 }
tokenizer.vocab_size = 300
chat.max_tokens = 120
generate = { max_tokens = 6, validate_samples = 4 }
)";

constexpr const char* kAdapter = R"([run]
dir = "run"
cache_dir = "cache"
device = "cpu"
reproducible = true
[task]
plugin = "chat"
data = { train = "train.jsonl", val = "train.jsonl", test = "train.jsonl" }
chat.max_tokens = 120
generate = { max_tokens = 6, validate_samples = 4 }
[task.language.lora]
rank = 4
use_rslora = true
dropout = 0.1
targets = ["q_proj", "layers.1.mlp.*"]
)";

class Adapters : public testing::Test, public Job {
 protected:
  Adapters() {
    std::string text;
    for (int i = 0; i < 40; ++i)
      text +=
          json{{"prompt", "What follows " + std::to_string(i) + "?"}, {"completion", std::to_string(i + 1)}}
              .dump() +
          "\n";
    write_text(path("train.jsonl"), text);
    write_text(path("base.toml"), std::string(kModel) + kShortTraining);
    // [train] is what kShortTraining ends with but two tables.
    std::string training = kShortTraining;
    training.insert(training.find("global_batch"), "init_from = \"base/export\"\n");
    write_text(path("train.toml"), kAdapter + training);
    EXPECT_EQ(pipeline({"run", "base.toml"}, folder()).code, 0);
    EXPECT_EQ(pipeline({"export", "base.toml"}, folder()).code, 0);
  }
  double loss_of(const std::string& run) const {
    return json::parse(read_lines(path(run + "/eval.jsonl")).back())["loss"].get<double>();
  }
  static std::string bytes(const safetensors::TensorView& tensor) {
    return {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()};
  }
};

TEST_F(Adapters, AreExportedAsPeftsOrMergedAndBegunWithAgain) {
  const Result run = call("run");
  ASSERT_EQ(run.code, 0) << run.out << run.err;
  const Result exported = call("export", {"--checkpoint", "last"});
  ASSERT_EQ(exported.code, 0) << exported.err;
  const json config = json::parse(read_text(path("run/export/adapter_config.json")));
  EXPECT_EQ(config["base_model_name_or_path"], "base/export");
  EXPECT_EQ(config["r"], 4);
  EXPECT_EQ(config["use_rslora"], true);
  EXPECT_EQ(config["lora_dropout"], 0.1);
  EXPECT_THAT(config["target_modules"],
              ElementsAre("model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj",
                          "model.layers.1.mlp.gate_proj", "model.layers.1.mlp.up_proj",
                          "model.layers.1.self_attn.q_proj"));
  EXPECT_TRUE(fs::exists(path("run/export/tokenizer.json")));
  EXPECT_FALSE(fs::exists(path("run/export/config.json")));

  // The adapter stands for the model that it is to.
  ASSERT_EQ(
      call("predict", {"--prompt", "What follows 7?", "--checkpoint", "last", "--output", "run.csv"}).code,
      0);
  const Result predicted = pipeline({"predict", "run/export", "--prompt", "What follows 7?", "--set",
                                     "task.generate.max_tokens=6", "--output", "adapter.csv"},
                                    folder());
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_EQ(read_lines(path("adapter.csv")), read_lines(path("run.csv")));
  fs::copy(path("run/export"), path("lost"));
  json lost = config;
  lost["base_model_name_or_path"] = "somebody/model";
  write_text(path("lost/adapter_config.json"), lost.dump());
  EXPECT_THAT(pipeline({"chat", "lost"}, folder()).err,
              HasSubstr("base_model_name_or_path = \"somebody/model\": is no folder of a model here"));

  // Merged, what has no addition is the base's to the bit.
  ASSERT_EQ(
      call("export", {"--checkpoint", "last", "--output", "whole", "--set", "task.language.lora.merge=true"})
          .code,
      0);
  const auto base = safetensors::Folder::open(path("base/export").string()),
             whole = safetensors::Folder::open(path("whole").string());
  ASSERT_EQ(whole.names(), base.names());
  for (const std::string& name : base.names()) {
    const bool has_addition = name.find("q_proj") != name.npos || name.find("layers.1.mlp") != name.npos;
    EXPECT_EQ(bytes(whole.at(name)) != bytes(base.at(name)), has_addition) << name;
  }

  // All options of the additions follow the folder.
  std::string without = read_text(path("train.toml"));
  without.erase(without.find("[task.language.lora]"),
                without.find("[optimizer]") - without.find("[task.language.lora]"));
  write_text(path("train.toml"), without);
  const Result again =
      call("run", {"--set", "run.dir=again", "--set", "task.language.lora.init_from=run/export", "--set",
                   "optimizer.lr=0.0", "--set", "train.max_steps=1"});
  ASSERT_EQ(again.code, 0) << again.out << again.err;
  EXPECT_EQ(loss_of("again"), loss_of("run"));
  // So they do where another run of ours is what it begins with.
  const Result next = call("run", {"--set", "run.dir=next", "--set", "train.init_from=run", "--set",
                                   "optimizer.lr=0.0", "--set", "train.max_steps=1"});
  ASSERT_EQ(next.code, 0) << next.out << next.err;
  EXPECT_EQ(loss_of("next"), loss_of("run"));
  const Result other = call("run", {"--set", "run.dir=other", "--set", "train.init_from=whole", "--set",
                                    "optimizer.lr=0.0", "--set", "train.max_steps=1"});
  ASSERT_EQ(other.code, 0) << other.out << other.err;
  EXPECT_NEAR(loss_of("other"), loss_of("run"), 1e-5);
}

TEST_F(Adapters, HaveTheSameBitsUnderEveryStrategyAndAfterAKill) {
  ASSERT_EQ(call("run").code, 0);
  const std::vector<std::string> sharded{"--set", "strategy.plugin=sharded", "--set", "strategy.zero_stage=3",
                                         "--set", "launch.processes=2"};
  std::vector<std::string> command{"run", "train.toml", "--set", "run.dir=killed"};
  command.insert(command.end(), sharded.begin(), sharded.end());
  Process process(pipeline_command(command), folder());
  ASSERT_TRUE(eventually([&] { return fs::exists(path("killed/checkpoints/step-00000005")); }));
  process.signal(SIGKILL);
  process.wait();
  ASSERT_EQ(
      call("run", {"--set", "run.dir=killed", "--set", "strategy.plugin=ddp", "--set", "launch.processes=2"})
          .code,
      0);
  EXPECT_EQ(curve("killed"), curve("run"));
}

TEST_F(Adapters, OfAnotherModelAreNamed) {
  ASSERT_EQ(call("run", {"--set", "train.max_steps=1"}).code, 0);
  ASSERT_EQ(call("export", {"--checkpoint", "last"}).code, 0);
  const auto told = [&](const std::string& key, const json& value) {
    json config = json::parse(read_text(path("run/export/adapter_config.json")));
    config[key] = value;
    fs::create_directories(path("changed"));
    fs::copy_file(path("run/export/adapter_model.safetensors"), path("changed/adapter_model.safetensors"),
                  fs::copy_options::overwrite_existing);
    write_text(path("changed/adapter_config.json"), config.dump());
    const Result result =
        call("check", {"--set", "run.dir=new", "--set", "task.language.lora.init_from=changed"});
    EXPECT_EQ(result.code, 2) << result.out;
    return result.out + result.err;
  };
  EXPECT_THAT(told("use_dora", true), HasSubstr("adapter_config.json: use_dora = true"));
  EXPECT_THAT(told("peft_type", "IA3"), HasSubstr("adapter_config.json: peft_type = \"IA3\""));
  EXPECT_THAT(told("init_lora_weights", "pissa"), HasSubstr("init_lora_weights = \"pissa\""));
  EXPECT_THAT(told("rank_pattern", {{"q_proj", 8}}), HasSubstr("rank_pattern = "));
  const Result base = call("check", {"--set", "run.dir=new", "--set", "train.init_from=run/export"});
  EXPECT_NE(base.code, 0);
  EXPECT_THAT(base.err, HasSubstr("is a LoRA adapter, without the model that it is for"));
  const Result pattern = call("check", {"--set", R"(task.language.lora.targets=["c_attn"])"});
  EXPECT_EQ(pattern.code, 2);
  EXPECT_THAT(pattern.err,
              HasSubstr("task.language.lora.targets=[\"c_attn\"]: has \"c_attn\", which is no matrix"));
}

}  // namespace
}  // namespace pipeline::tests
