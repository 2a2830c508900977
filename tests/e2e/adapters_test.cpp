// LoRA as a user has it: trained from a folder, exported as PEFT's, and begun with again.
#include <csignal>
#include <cstring>
#include <filesystem>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "core/safetensors/file.hpp"
#include "core/safetensors/writer.hpp"
#include "tests/e2e/job.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kTask =
    reproducible_run("chat") + R"(data = { train = "train.jsonl", val = "train.jsonl", test = "train.jsonl" }
chat.max_tokens = 120
generate = { max_tokens = 6, validate_samples = 4 }
)";

constexpr const char* kModel = R"(tokenizer.vocab_size = 300
language = { architecture = "qwen3", hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2, max_position_embeddings = 160 }
)";

constexpr const char* kAdapter = R"([task.language.lora]
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
    write_text(path("base.toml"), kTask + kModel + kShortTraining);
    // [train] is what kShortTraining ends with but two tables.
    std::string training = kShortTraining;
    training.insert(training.find("global_batch"), "init_from = \"base/export\"\n");
    write_text(path("train.toml"), kTask + kAdapter + training);
    EXPECT_EQ(pipeline({"run", "base.toml", "run.dir=base"}).code, 0);
    EXPECT_EQ(pipeline({"export", "base.toml", "run.dir=base"}).code, 0);
  }
  double loss_of(const std::string& run) const {
    return read_json_lines(path(run + "/eval.jsonl")).back()["loss"].get<double>();
  }
  static std::string bytes(const safetensors::TensorView& tensor) {
    return {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()};
  }
};

TEST_F(Adapters, AreExportedAsPeftsOrMergedAndBegunWithAgain) {
  const Result run = call("run").ended(0);
  call("export", {"--checkpoint", "last"}).ended(0);
  const json config = read_json(path("run/export/adapter_config.json"));
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

  // The adapter's folder stands for the model that it adds to.
  ASSERT_EQ(
      call("predict", {"--prompt", "What follows 7?", "--checkpoint", "last", "--output", "run.csv"}).code,
      0);
  pipeline({"predict", "run/export", "--prompt", "What follows 7?", "task.generate.max_tokens=6", "--output",
            "adapter.csv"})
      .ended(0);
  EXPECT_EQ(read_lines(path("adapter.csv")), read_lines(path("run.csv")));
  ASSERT_EQ(pipeline({"evaluate", "run/export", "task.data.test=train.jsonl", "task.generate.max_tokens=6",
                      "--output", "adapter.json"})
                .code,
            0);
  EXPECT_EQ(read_json(path("adapter.json"))["checkpoint"],
            "base/export, with task.language.lora.init_from = run/export");
  fs::copy(path("run/export"), path("lost"));
  json lost = config;
  lost["base_model_name_or_path"] = "somebody/model";
  write_text(path("lost/adapter_config.json"), lost.dump());
  EXPECT_THAT(pipeline({"chat", "lost"}).err,
              HasSubstr("base_model_name_or_path = \"somebody/model\": is no folder of a model here"));

  // Merged, what has no LoRA is the base's to the bit.
  ASSERT_EQ(
      call("export", {"--checkpoint", "last", "--output", "whole", "task.language.lora.merge=true"}).code, 0);
  const auto base = safetensors::Folder::open(path("base/export").string()),
             whole = safetensors::Folder::open(path("whole").string());
  ASSERT_EQ(whole.names(), base.names());
  ASSERT_FALSE(base.names().empty());
  for (const std::string& name : base.names()) {
    const bool has_lora = name.find("q_proj") != name.npos || name.find("layers.1.mlp") != name.npos;
    EXPECT_EQ(bytes(whole.at(name)) != bytes(base.at(name)), has_lora) << name;
  }

  // All options of LoRA follow the folder.
  std::string without = read_text(path("train.toml"));
  without.erase(without.find("[task.language.lora]"),
                without.find("[optimizer]") - without.find("[task.language.lora]"));
  write_text(path("train.toml"), without);
  const Result again = call("run", {"run.dir=again", "task.language.lora.init_from=run/export",
                                    "optimizer.lr=0.0", "train.max_steps=1"})
                           .ended(0);
  EXPECT_EQ(loss_of("again"), loss_of("run"));
  // The options follow, too, where the start is another run of ours.
  const Result next =
      call("run", {"run.dir=next", "train.init_from=run", "optimizer.lr=0.0", "train.max_steps=1"}).ended(0);
  EXPECT_EQ(loss_of("next"), loss_of("run"));
  EXPECT_THAT(call("run", {"run.dir=less", "train.init_from=run", "task.language.lora.rank=2"}).err,
              HasSubstr("task.language.lora.rank is 4 there, and 2 here: leave it out, so that it follows"));
  const Result other =
      call("run", {"run.dir=other", "train.init_from=whole", "optimizer.lr=0.0", "train.max_steps=1"})
          .ended(0);
  EXPECT_NEAR(loss_of("other"), loss_of("run"), 1e-5);
}

TEST_F(Adapters, HaveTheSameBitsUnderEveryStrategyAndAfterAKill) {
  call("run").ended(0);
  const Words sharded{"strategy.plugin=sharded", "strategy.zero_stage=3", "launch.processes=2"};
  Process process = start("run", sharded + Words{"run.dir=killed"});
  ASSERT_TRUE(eventually([&] { return fs::exists(path("killed/checkpoints/step-00000005")); }));
  process.signal(SIGKILL);
  process.wait();
  call("run", {"run.dir=killed", "strategy.plugin=ddp", "launch.processes=2"}).ended(0);
  EXPECT_EQ(curve("killed"), curve("run"));
}

TEST_F(Adapters, OfAnotherModelAreNamed) {
  call("run", {"train.max_steps=1"}).ended(0);
  call("export", {"--checkpoint", "last"}).ended(0);
  const auto told = [&](const std::string& key, const json& value) {
    json config = read_json(path("run/export/adapter_config.json"));
    config[key] = value;
    fs::create_directories(path("changed"));
    fs::copy_file(path("run/export/adapter_model.safetensors"), path("changed/adapter_model.safetensors"),
                  fs::copy_options::overwrite_existing);
    write_text(path("changed/adapter_config.json"), config.dump());
    const Result result = call("check", {"run.dir=new", "task.language.lora.init_from=changed"}).ended(2);
    return result.out + result.err;
  };
  EXPECT_THAT(told("use_dora", true), HasSubstr("adapter_config.json: use_dora = true"));
  EXPECT_THAT(told("peft_type", "IA3"), HasSubstr("adapter_config.json: peft_type = \"IA3\""));
  EXPECT_THAT(told("init_lora_weights", "pissa"), HasSubstr("init_lora_weights = \"pissa\""));
  EXPECT_THAT(told("rank_pattern", {{"q_proj", 8}}), HasSubstr("of adapter_config.json say 8"));
  EXPECT_THAT(told("modules_to_save", {"lm_head"}), HasSubstr("has no tensor of \"lm_head\""));
  fs::create_directories(path("model"));
  write_text(path("model/config.json"), "{}");
  const auto begun = [&](const std::string& folder) {
    return call("check", {"run.dir=new", "task.language.lora.init_from=" + folder}).err;
  };
  EXPECT_THAT(begun("model"),
              HasSubstr("is no PEFT adapter: it has no adapter_config.json; a model's folder"));
  EXPECT_THAT(begun("run"), HasSubstr("of a run name what `pipeline export` writes"));
  for (const char* verb : {"check", "run"})  // base.toml names no folder that says what the model is
    EXPECT_THAT(
        pipeline({verb, "base.toml", "run.dir=other", "task.language.lora.init_from=run/export",
                  "task.language.intermediate_size=80"})
            .err,
        HasSubstr("down_proj.lora_A.weight is [4, 64], must be [4, 80]: the adapter is for another model, or "
                  "not whole"))
        << verb;
  fs::remove(path("changed/adapter_model.safetensors"));
  EXPECT_THAT(begun("changed"), HasSubstr("adapter_model.safetensors: is not there"));
  EXPECT_THAT(call("evaluate", {"--checkpoint", "run/export"}).err,
              HasSubstr("--checkpoint run/export: is a PEFT"));
  const Result base = call("check", {"run.dir=new", "train.init_from=run/export"});
  EXPECT_NE(base.code, 0);
  EXPECT_THAT(base.err, HasSubstr("is a LoRA adapter, without the model that it is for"));
  EXPECT_THAT(call("check", {R"(task.language.lora.targets=["c_attn"])"}).ended(2).err,
              HasSubstr("task.language.lora.targets=[\"c_attn\"]: has \"c_attn\", which is no matrix"));
}

// Modules that are trained as a whole are exported with LoRA, and come back.
TEST_F(Adapters, HaveWholeModulesBesideThem) {
  const auto with = [](const Words& more, const char* modules) {
    return more + Words{std::string("task.language.lora.modules_to_save=") + modules};
  };
  const char* const kMost = R"(["embed_tokens", "layers.0.mlp.*", "norm"])";
  const Result run = call("run", with({}, kMost)).ended(0);
  call("export", with({"--checkpoint", "last"}, kMost)).ended(0);
  const json config = read_json(path("run/export/adapter_config.json"));
  EXPECT_THAT(config["modules_to_save"],
              ElementsAre("model.embed_tokens", "model.layers.0.mlp.down_proj",
                          "model.layers.0.mlp.gate_proj", "model.layers.0.mlp.up_proj", "model.norm"));
  EXPECT_EQ(config["ensure_weight_tying"], true);
  const Words one_step{"task.language.lora.init_from=run/export", "optimizer.lr=0.0", "train.max_steps=1"};
  const auto begin = [&](const std::string& dir, const Words& more) {
    return call("run", more + one_step + Words{"run.dir=" + dir});
  };
  const Result again = begin("again", {}).ended(0);
  EXPECT_EQ(loss_of("again"), loss_of("run"));
  EXPECT_THAT(begin("less", with({}, "[\"norm\"]")).err,
              HasSubstr("is frozen here: lora.modules_to_save must name it, or be left out"));
  json untied = config;
  untied["ensure_weight_tying"] = false;
  write_text(path("run/export/adapter_config.json"), untied.dump());
  EXPECT_THAT(begin("untied", {}).err, HasSubstr("ensure_weight_tying = false: must be true"));

  const auto refused = [&](const char* modules) {
    return call("run", with({"run.dir=refused"}, modules)).err;
  };
  EXPECT_THAT(refused("[\"q_proj\"]"), HasSubstr("a part of model.layers.0.self_attn.q_proj and 2 more"));
  EXPECT_THAT(refused("[\"mlp.*\"]"), HasSubstr("model.layers.1.mlp.gate_proj, which lora.targets trains"));
  EXPECT_THAT(refused("[\"lm_head\"]"), HasSubstr("no module that can be trained as a whole"));
  EXPECT_THAT(call("run", {"run.dir=refused", "task.language.lora.rank=0"}).err,
              HasSubstr("is of no use without LoRA: set rank, too"));
}

// Published folders are padded: an adapter's embedding has all rows, or PEFT would not take it.
TEST_F(Adapters, OfAnEmbeddingWithMoreRowsThanTokensHaveThemAll) {
  constexpr const char* kEmbedding = "model.embed_tokens.weight";
  fs::create_directory(path("padded"));
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"})
    fs::copy_file(path("base/export") / name, path("padded") / name);
  json config = read_json(path("base/export/config.json"));
  config["vocab_size"] = config["vocab_size"].get<int64_t>() + 3;
  write_text(path("padded/config.json"), config.dump());
  const auto base = safetensors::Folder::open(path("base/export").string());
  const std::string more(3 * static_cast<size_t>(base.at(kEmbedding).shape[1]) * sizeof(float), '\x3f');
  {
    safetensors::Writer writer(path("padded/model.safetensors").string());
    const auto shape_of = [&](const std::string& name) {
      auto shape = base.at(name).shape;
      if (name == kEmbedding) shape[0] += 3;
      return shape;
    };
    for (const std::string& name : base.names()) writer.declare(name, base.at(name).dtype, shape_of(name));
    ASSERT_FALSE(base.names().empty());
    for (const std::string& name : base.names()) {
      const std::string all = bytes(base.at(name)) + (name == kEmbedding ? more : "");
      writer.write(name, std::as_bytes(std::span(all)));
    }
    writer.finish();
  }
  const Words options{"run.dir=padded-run", "train.init_from=padded",
                      R"(task.language.lora.modules_to_save=["embed_tokens"])"};
  const Result run = call("run", options).ended(0);
  call("export", options).ended(0);
  const auto file = safetensors::File::open(path("padded-run/export/adapter_model.safetensors").string());
  for (const char* name : {kEmbedding, "lm_head.weight"}) {
    const auto& table = file.at(std::string("base_model.model.") + name);
    EXPECT_EQ(table.shape[0], config["vocab_size"]) << name;
    EXPECT_FALSE(bytes(table).ends_with(more))
        << name << ": they are in the softmax, and learn to be unlikely";
  }
}

// For the same weights this changes no bit, under any strategy; what is trained and the norms keep float32.
TEST_F(Adapters, MayHaveABaseInBfloat16) {
  const auto base = safetensors::Folder::open(path("base/export").string());
  const auto rounded = [&](const std::string& name) {
    std::string all = bytes(base.at(name));
    for (size_t at = 0; base.at(name).shape.size() > 1 && at < all.size(); at += sizeof(float)) {
      uint32_t bits = 0;
      std::memcpy(&bits, &all[at], sizeof bits);
      bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;  // to the nearest, ties to even
      std::memcpy(&all[at], &bits, sizeof bits);
    }
    return all;
  };
  fs::copy(path("base/export"), path("rounded"));
  {
    safetensors::Writer writer(path("rounded/model.safetensors").string());
    for (const std::string& name : base.names())
      writer.declare(name, base.at(name).dtype, base.at(name).shape);
    ASSERT_FALSE(base.names().empty());
    for (const std::string& name : base.names()) {
      const std::string all = rounded(name);
      writer.write(name, std::as_bytes(std::span(all)));
    }
    writer.finish();
  }
  call("run", {"train.init_from=rounded"}).ended(0);

  const auto with = [&](const std::string& dir, const Words& more) {
    return more + Words{"train.frozen_precision=bf16", "run.dir=" + dir};
  };
  const Result one = call("run", with("one", {})).ended(0);
  EXPECT_THAT(one.out + one.err, HasSubstr(" frozen in bf16"));
  EXPECT_EQ(curve("one"), curve("run"));
  EXPECT_EQ(loss_of("one"), loss_of("run"));
  EXPECT_EQ(read_json(path("one/model.json"))["dtypes"]["frozen"], "bf16");

  const Words two{"launch.processes=2"};
  const auto on_two = [&](const std::string& dir, const Words& more) {
    call("run", with(dir, more + two)).ended(0);
    EXPECT_EQ(curve(dir), curve("run"));
    EXPECT_EQ(loss_of(dir), loss_of("run"));
  };
  on_two("ddp", {"strategy.plugin=ddp"});
  const auto stage = [](const char* number) {
    return Words{"strategy.plugin=sharded", std::string("strategy.zero_stage=") + number};
  };
  on_two("sharded2", stage("2"));
  call("run", with("sharded3", {"train.max_steps=7"})).ended(0);
  on_two("sharded3", stage("3"));

  // Figures afterwards, and what is exported, are of the weights that were trained with.
  const Result evaluated =
      call("evaluate", with("one", {"--checkpoint", "last", "--split", "val", "--output", "val.json"}));
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_NEAR(read_json(path("val.json"))["figures"]["loss"].get<double>(), loss_of("run"), 1e-6);
  ASSERT_EQ(call("export",
                 with("one", {"--checkpoint", "last", "--output", "whole", "task.language.lora.merge=true"}))
                .code,
            0);
  const auto whole = safetensors::Folder::open(path("whole").string());
  EXPECT_EQ(bytes(whole.at("model.embed_tokens.weight")), rounded("model.embed_tokens.weight"));
  EXPECT_EQ(bytes(whole.at("model.norm.weight")), bytes(base.at("model.norm.weight")));

  const Result all = pipeline({"run", "base.toml", "run.dir=all", "train.frozen_precision=bf16"}).ended(2);
  EXPECT_THAT(all.err, HasSubstr("--set train.frozen_precision=bf16: task chat"));
  EXPECT_THAT(all.err, HasSubstr("has no frozen weights that may be kept so"));
}

// Which values these are is compared with bitsandbytes in tests/parity/quantization_parity.py. Whatever
// divides them, they are the same; what is exported has them, and says so.
TEST_F(Adapters, MayHaveABaseInFewBits) {
  // Rows of 64: what may be kept in few bits.
  for (const char* verb : {"run", "export"})
    pipeline(Words{verb, "base.toml", "run.dir=wide", "train.max_steps=2", "task.language.hidden_size=64"})
        .ended(0);
  const auto with = [&](const std::string& dir, const char* precision, const Words& more) {
    return more + Words{std::string("train.frozen_precision=") + precision, "run.dir=" + dir,
                        "train.init_from=wide/export"};
  };
  const Words two{"launch.processes=2"};
  const auto stage = [](const char* number) {
    return Words{"strategy.plugin=sharded", std::string("strategy.zero_stage=") + number};
  };
  const Result one = call("run", with("one", "nf4", {})).ended(0);
  EXPECT_THAT(one.out + one.err, HasSubstr(" frozen in bf16; "));
  EXPECT_THAT(one.out + one.err, HasSubstr(" frozen in nf4"));
  EXPECT_EQ(read_json(path("one/model.json"))["dtypes"]["frozen"], "bf16, nf4");
  call("run", with("bytes", "int8", {})).ended(0);
  EXPECT_NE(curve("bytes"), curve("one"));
  const auto is_same = [&](const std::string& dir, const char* precision, const std::string& as,
                           const Words& more) {
    call("run", with(dir, precision, more)).ended(0);
    EXPECT_EQ(curve(dir), curve(as)) << dir;
    EXPECT_EQ(loss_of(dir), loss_of(as)) << dir;
  };
  is_same("ddp", "nf4", "one", two + Words{"strategy.plugin=ddp"});
  is_same("sharded1", "int8", "bytes", two + stage("1"));
  is_same("sharded2", "nf4", "one", two + stage("2"));
  // A checkpoint has the codes, and goes on under another strategy.
  call("run", with("sharded3", "nf4", {"train.max_steps=7"})).ended(0);
  is_same("sharded3", "nf4", "one", two + stage("3"));

  // What comes afterwards has the same values: the next stage, an evaluation, and a folder.
  const Result evaluated = call(
      "evaluate", with("one", "nf4", {"--checkpoint", "last", "--split", "val", "--output", "val.json"}));
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_NEAR(read_json(path("val.json"))["figures"]["loss"].get<double>(), loss_of("one"), 1e-6);
  const Result exported = call(
      "export",
      with("one", "nf4", {"--checkpoint", "last", "--output", "whole", "task.language.lora.merge=true"}));
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_THAT(exported.out + exported.err, HasSubstr("the values of nf4"));
  const Result other = call("run", {"run.dir=other", "train.init_from=one"});
  EXPECT_THAT(other.err,
              HasSubstr("of another train.frozen_precision: model.layers.0.self_attn.qkv_proj.weight is "
                        "\"nf4\", the run has \"auto\""));
  // A stage may begin with a run in more bits.
  call("run", {"run.dir=plain", "train.init_from=wide/export", "train.max_steps=2"}).ended(0);
  call("run", {"run.dir=next", "train.init_from=plain", "train.frozen_precision=nf4", "train.max_steps=2"})
      .ended(0);

  const Result all = pipeline({"run", "base.toml", "run.dir=all", "train.frozen_precision=nf4"}).ended(2);
  EXPECT_THAT(all.err,
              HasSubstr("has no frozen matrices, of 64 inputs or a multiple of it, that may be kept so"));
}

// What is frozen is that of the folder, which must be there, and the very same, for all that is done with
// such a checkpoint.
TEST_F(Adapters, MayLeaveTheBaseOutOfCheckpoints) {
  const auto with = [](const std::string& dir, const Words& more) {
    return more + Words{"run.dir=" + dir,
                        "checkpoint.frozen=" + std::string(dir == "kept" ? dir : "left_out"),
                        "train.frozen_precision=bf16"};
  };
  const auto bytes_of = [&](const std::string& dir) {
    uintmax_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(path(dir + "/checkpoints")))
      if (entry.path().extension() == ".safetensors") bytes += entry.file_size();
    return bytes;
  };
  const Words sharded{"launch.processes=2", "strategy.plugin=sharded", "strategy.zero_stage=3"};
  call("run", with("kept", {"checkpoint.keep=1"})).ended(0);
  call("run", with("left", {"checkpoint.keep=1", "train.max_steps=5"})).ended(0);
  call("run", with("left", sharded + Words{"checkpoint.keep=1"})).ended(0);
  EXPECT_EQ(curve("left"), curve("kept"));
  EXPECT_EQ(loss_of("left"), loss_of("kept"));
  EXPECT_LT(bytes_of("left"), bytes_of("kept") / 2);
  for (const char* dir : {"kept", "left"}) {
    call("evaluate",
         with(dir, {"--checkpoint", "last", "--split", "val", "--output", std::string(dir) + ".json"}))
        .ended(0);
    call("export", with(dir, {"--checkpoint", "last", "--output", std::string(dir) + "-whole",
                              "task.language.lora.merge=true"}))
        .ended(0);
    call("run", {"run.dir=after-" + std::string(dir), "train.init_from=" + std::string(dir),
                 "train.frozen_precision=bf16", "train.max_steps=2"})
        .ended(0);
  }
  EXPECT_EQ(read_json(path("left.json"))["figures"], read_json(path("kept.json"))["figures"]);
  EXPECT_EQ(read_text(path("left-whole/model.safetensors")), read_text(path("kept-whole/model.safetensors")));
  EXPECT_EQ(curve("after-left"), curve("after-kept"));

  const Words evaluate = with("left", {"--checkpoint", "last", "--split", "val", "--output", "again.json"});
  fs::rename(path("base/export"), path("moved"));
  EXPECT_THAT(
      call("evaluate", evaluate).ended(2).err,
      testing::AllOf(HasSubstr("has no frozen weights (checkpoint.frozen = \"left_out\")"),
                     HasSubstr("there is no folder base/export"), HasSubstr("train.init_from=FOLDER")));
  call("evaluate", evaluate + Words{"train.init_from=moved"}).ended(0);
  EXPECT_EQ(read_json(path("again.json"))["figures"], read_json(path("kept.json"))["figures"]);
  std::string model = read_text(path("moved/model.safetensors"));
  model.back() = static_cast<char>(model.back() ^ 1);
  write_text(path("moved/model.safetensors"), model);
  EXPECT_THAT(call("evaluate", evaluate + Words{"train.init_from=moved"}).ended(2).err,
              HasSubstr("moved/model.safetensors is another file now: its CRC-32C is "));
  EXPECT_THAT(call("run", with("other", {"train.init_from=kept"})).ended(2).err,
              HasSubstr("checkpoint.frozen=left_out: "));
}

}  // namespace
}  // namespace pipeline::tests
