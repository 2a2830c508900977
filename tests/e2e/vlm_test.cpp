// The vision-language task as a user runs it, on a few drawings, with a model of a few thousand parameters.
#include <cmath>
#include <csignal>
#include <filesystem>
#include <functional>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/e2e/vlm_job.hpp"
#include "tests/models/tokenizer/trained_sentence_piece.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Captions first, then questions: two stages.
constexpr const char* kStages = R"([[stage]]
name = "pretrain"
[stage.task]
freeze = []
chat.template = "plain"
data = { train = "captions.jsonl", val = "captions.jsonl", test = "captions.jsonl" }
[[stage]]
name = "sft"
init_from = "pretrain"
)";

class Vlm : public testing::Test, public SmallVlmJob {
 protected:
  Vlm() {
    std::string captions;
    for (int i = 0; i < 16; ++i)
      captions += R"({"id":"d)" + std::to_string(i) + R"(","image":"drawings/)" + std::to_string(i) +
                  R"(.png","caption":"a )" + colour_of(i) + " " + shape_of(i) + "\"}\n";
    write_text(path("captions.jsonl"), captions);
  }
  // A parameter's bytes in a run's exported folder.
  nlohmann::json header(const std::string& run) const {
    const std::string bytes = read_text(path(run + "/export/model.safetensors"));
    uint64_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof size);
    return nlohmann::json::parse(bytes.substr(8, size));
  }
  std::string values(const std::string& run, const std::string& name) const {
    const std::string bytes = read_text(path(run + "/export/model.safetensors"));
    uint64_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof size);
    const auto range = header(run).at(name).at("data_offsets");
    const uint64_t begin = range[0], end = range[1];
    return bytes.substr(8 + size + begin, end - begin);
  }
};

TEST_F(Vlm, TrainsEvaluatesPredictsAndExports) {
  write_text(path("train.toml"), config() + kStages);
  const Result run = call("run").ended(0);
  EXPECT_THAT(run.out, HasSubstr("16 training, 16 validation, 16 test samples; 4 patches a picture"));
  EXPECT_THAT(run.out, HasSubstr("40 training, 8 validation, 8 test samples"));
  EXPECT_THAT(run.out, HasSubstr("written: "));
  const auto metrics = read_lines(path("run/sft/metrics.jsonl"));
  ASSERT_EQ(metrics.size(), 12u);
  const auto figures = read_json_lines(path("run/sft/eval.jsonl")).back();
  EXPECT_NEAR(figures["perplexity"].get<double>(), std::exp(figures["loss"].get<double>()), 1e-9);
  EXPECT_TRUE(figures.contains("exact") && figures.contains("f1"));
  // A finished stage is not repeated.
  EXPECT_THAT(call("run").out, HasSubstr("finished"));

  call("predict").ended(0);
  const auto rows = read_lines(path("run/sft/submission.csv"));
  EXPECT_EQ(rows.size(), 1 + 8u);
  EXPECT_EQ(rows[0], "id,question,answer");
  EXPECT_THAT(rows[1], testing::StartsWith("c200,What shape?,")) << "the last question is answered";

  const Result asked =
      call("predict", {"--image", "drawings/203.png", "--question", "What \"colour\"?"}).ended(0);
  const auto answers = read_lines(path("run/sft/asked.csv"));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_THAT(answers[1], testing::StartsWith("203.png,\"What \"\"colour\"\"?\","));
  call("predict", {"--question", "And without?"}).ended(0);
  EXPECT_THAT(call("predict", {"--image", "drawings/203.png", "--question", "<image> again?"}).err,
              HasSubstr("must not have <image>"));
  write_text(path("drawings/text.png"), "text");
  EXPECT_THAT(call("predict", {"--image", "drawings/text.png"}).err,
              testing::HasSubstr("starts with the bytes 74 65 78 74; JPEG, PNG, WebP and GIF are read"));
  EXPECT_THAT(call("predict", {"--imgae", "x.png"}).ended(2).err, HasSubstr("did you mean task.ask.image?"));
  EXPECT_THAT(call("predict", {"x.png"}).err, HasSubstr("x.png: is no option"));

  // A file of pictures and questions.
  write_text(path("questions.jsonl"), R"({"image": "drawings/203.png", "question": "What, then?"})"
                                      "\n");
  const Result predicted =
      call("predict", {"stage.sft.task.data.test=questions.jsonl", "--output", "answers.csv"});
  ASSERT_EQ(predicted.code, 0) << predicted.out << predicted.err;
  EXPECT_THAT(read_lines(path("answers.csv")).at(1), testing::StartsWith("1,\"What, then?\","));

  // A frozen parameter stays as it was, to the bit; a trained one changes.
  call("export", {"--stage", "pretrain", "--checkpoint", "best"}).ended(0);
  call("export", {"--checkpoint", "last"}).ended(0);
  const std::string frozen = "vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight",
                    trained = "multi_modal_projector.linear_1.weight";
  EXPECT_EQ(values("run/sft", frozen), values("run/pretrain", frozen));
  EXPECT_NE(values("run/sft", trained), values("run/pretrain", trained));
  for (const char* file : {"config.json", "tokenizer.json"})
    EXPECT_TRUE(fs::exists(path("run/sft/export") / file)) << file;
  const auto pictures = read_json(path("run/sft/export/preprocessor_config.json"));
  EXPECT_EQ(pictures["image_processor_type"], "LlavaImageProcessor");  // pads
  EXPECT_EQ(pictures["size"]["shortest_edge"], pictures["crop_size"]["height"]);

  // The exported folder is a start like any other: nothing is lost on the way.
  call("evaluate", {"--split", "val", "--checkpoint", "last"}).ended(0);
  const double loss = read_json(path("run/sft/evaluation-val.json"))["figures"]["loss"];
  write_text(path("train.toml"), config());
  const Result again =
      call("run", {"run.dir=again", "train.init_from=run/sft/export", "task.tokenizer.path=run/sft/export",
                   "optimizer.lr=0.0", "train.max_steps=1"})
          .ended(0);
  EXPECT_NEAR(read_json_lines(path("again/eval.jsonl")).back()["loss"].get<double>(), loss, 1e-5);
  // No row is added: the picture's token, which the tokenizer does not have, keeps its row.
  ASSERT_EQ(call("export", {"run.dir=again", "train.init_from=run/sft/export",
                            "task.tokenizer.path=run/sft/export", "--checkpoint", "last"})
                .code,
            0);
  const auto first = read_json(path("run/sft/export/config.json")),
             second = read_json(path("again/export/config.json"));
  EXPECT_EQ(first["image_token_index"].get<int64_t>() + 1, first["text_config"]["vocab_size"].get<int64_t>());
  EXPECT_EQ(second["image_token_index"], first["image_token_index"]);
  EXPECT_EQ(second["text_config"]["vocab_size"], first["text_config"]["vocab_size"]);
  for (const char* file : {"config.json", "generation_config.json", "preprocessor_config.json"})
    EXPECT_EQ(read_text(path("again/export") / file), read_text(path("run/sft/export") / file)) << file;
  EXPECT_EQ(values("again", trained), values("run/sft", trained));
}

TEST_F(Vlm, KillsInAndBetweenTheStagesLeaveNoTrace) {
  write_text(path("train.toml"), config() + kStages);
  call("run", {"run.dir=undisturbed"}).ended(0);
  const auto kill_when = [&](const std::function<bool()>& moment) {
    Process run = start("run");
    EXPECT_TRUE(eventually([&] { return moment() || !run.is_running(); }));
    EXPECT_TRUE(run.is_running()) << "the run was over before";
    run.signal(SIGKILL);
    run.wait();
  };
  const auto steps = [&](const std::string& stage) {
    return read_lines(path("run/" + stage + "/metrics.jsonl")).size();
  };
  kill_when([&] { return steps("pretrain") >= 5; });
  kill_when([&] { return fs::exists(path("run/sft")); });
  EXPECT_EQ(steps("sft"), 0u);
  kill_when([&] { return steps("sft") >= 5; });
  call("run").ended(0);
  for (const std::string stage : {"/pretrain", "/sft"})
    EXPECT_EQ(curve("run" + stage), curve("undisturbed" + stage));
}

TEST_F(Vlm, AVisionEncoderThatIsTrainedHasTheSameBitsUnderEveryStrategyBesideTurnsWithoutAPicture) {
  const Words trained{"task.freeze=[]"};
  const auto curve_of = [&](const std::string& dir, const Words& more) {
    call("run", more + trained + Words{"run.dir=" + dir}).ended(0);
    return curve(dir);
  };
  const auto single = curve_of("single", {});
  ASSERT_EQ(single.size(), 12u);
  EXPECT_EQ(curve_of("sharded", {"strategy.plugin=sharded", "strategy.zero_stage=3", "launch.processes=2"}),
            single);
  for (const std::string rank : {"0", "1"})
    EXPECT_THAT(read_text(path("sharded/logs/rank-" + rank + ".log")),
                AllOf(HasSubstr("this is rank " + rank + ", local rank " + rank + " on host "),
                      HasSubstr("x 2 devices: 4 samples a device")));
}

// The language model's 6.5 million parameters have a state that is not lost in what a process takes anyway.
TEST_F(Vlm, AFrozenLanguageModelHasNoGradientsAndNoOptimizerState) {
  const double parameters = 300 * 384 + 384 + 4 * (384 * (384 + 2 * 192 + 384 + 3 * 1024) + 2 * 384.0);
  struct Case {
    std::string strategy;
    Words sets;
    double share;  // of gradients and moments that a process holds
  };
  for (const Case& one : {Case{"single", {}, 1},
                          {"ddp", {"launch.processes=2"}, 1},
                          {"sharded", {"launch.processes=2", "strategy.zero_stage=3"}, 0.5}}) {
    // Each process's peak, as the operating system has it.
    const auto peaks = [&](const std::string& dir, const std::string& freeze) {
      const Words more{"run.dir=" + dir,
                       "strategy.plugin=" + one.strategy,
                       "task.freeze=" + freeze,
                       "run.reproducible=false",
                       "task.language.hidden_size=384",
                       "task.language.num_hidden_layers=4",
                       "train.max_steps=2",
                       "evaluate.every=0",
                       "evaluate.at_end=false",
                       "checkpoint.every=0"};
      call("run", one.sets + more).ended(0);
      std::vector<double> bytes;
      for (const auto& rank : read_json(path(dir + "/summary.json"))["ranks"])
        bytes.push_back(rank["host_memory"]);
      return bytes;
    };
    const auto trained = peaks(one.strategy + "-trained", R"(["vision.*"])"),
               frozen = peaks(one.strategy + "-frozen", R"(["vision.*", "language.*"])");
    ASSERT_EQ(trained.size(), frozen.size());
    for (size_t rank = 0; rank < trained.size(); ++rank)
      EXPECT_GT(trained[rank] - frozen[rank], one.share * 3 * sizeof(float) * parameters)
          << one.strategy << ": a gradient and two moments of each";
  }
}

TEST_F(Vlm, ActivationCheckpointingGivesTheSameBits) {
  call("run").ended(0);
  call("run", {"run.dir=again", "train.activation_checkpointing=true"}).ended(0);
  EXPECT_EQ(curve("again"), curve("run"));
}

TEST_F(Vlm, TellsTheCrossEntropyBesideALossWithTerms) {
  call("run").ended(0);
  call("run", {"run.dir=other", "task.loss.z_loss=0.01"}).ended(0);
  const auto first = [&](const char* dir) {
    return read_json_lines(path(std::string(dir) + "/metrics.jsonl")).at(0);
  };
  const double plain = first("run")["loss"];
  EXPECT_FALSE(first("run").contains("cross_entropy"));
  EXPECT_NEAR(first("other")["cross_entropy"].get<double>(), plain, 1e-6);
  EXPECT_GT(first("other")["loss"].get<double>(), plain + 0.1);
}

TEST_F(Vlm, FeaturesThatAreKeptChangeNoBitUnderAnyStrategy) {
  call("run", {"task.vision.cache_bytes=0"}).ended(0);
  const auto features = [&](const std::string& cache) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(path(cache)))
      if (entry.path().extension() == ".features") files.push_back(entry.path());
    return files;
  };
  EXPECT_TRUE(features("cache").empty());
  const auto run = [&](const std::string& dir, const Words& more) {
    const Result result = call("run", more + Words{"run.dir=" + dir}).ended(0);
    EXPECT_EQ(curve(dir), curve("run")) << dir;
    return result.out + result.err;
  };
  const Words sharded{"strategy.plugin=sharded", "strategy.zero_stage=3", "launch.processes=2"};
  // 20 pictures are trained with and 4 evaluated; the first micro-batch shows whether the encoder is known.
  EXPECT_THAT(run("cold", {}), HasSubstr(" 34 times from the cache of features, 24 times encoded;"));
  EXPECT_THAT(run("warm", {}), HasSubstr(" 56 times from the cache of features, 2 times encoded;"));
  EXPECT_THAT(run("warm-sharded", sharded), HasSubstr(" times encoded;"));

  // Killed while it wrote, or damaged: what is not whole is made again.
  ASSERT_EQ(features("cache").size(), 2u) << "two processes";
  for (const fs::path& file : features("cache")) {
    std::string bytes = read_text(file);
    bytes[bytes.size() / 2] ^= 1;
    write_text(file, bytes.substr(0, bytes.size() - 20));
  }
  EXPECT_THAT(run("torn", {}), HasSubstr("its end is not complete"));

  EXPECT_THAT(run("little", sharded + Words{"task.vision.cache_bytes=2500", "run.cache_dir=little"}),
              HasSubstr("(0.0 MB) are allowed"));
  EXPECT_FALSE(features("little").empty());
  for (const fs::path& file : features("little")) EXPECT_LE(fs::file_size(file), 2500u);
}

TEST_F(Vlm, FeaturesAreOfOneEncoderAndTheWayPicturesGetThere) {
  const std::string some = " 2 times encoded;", all = " 24 times encoded;";
  EXPECT_THAT(call("run").out, HasSubstr(all));
  EXPECT_THAT(call("run", {"run.dir=more", "train.init_from=run"}).out, HasSubstr(some));
  EXPECT_THAT(call("run", {"run.dir=other", "run.seed=3"}).out, HasSubstr(all));
  EXPECT_THAT(call("run", {"run.dir=black", "task.data.background=black"}).out, HasSubstr(all));
}

TEST_F(Vlm, LoraIsTrainedBesideAModelThatStays) {
  const Words lora{"task.language.lora.rank=4",
                   R"(task.language.lora.targets=["q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"])"};
  const auto with = [&](const Words& more) { return more + lora; };
  call("run").ended(0);
  const Result run = call("run", with({"run.dir=lora", "train.init_from=run"})).ended(0);
  EXPECT_THAT(run.out, HasSubstr("20 parameter(s): lora.model.layers.0.self_attn.q_proj.down"));
  ASSERT_EQ(call("run", with({"run.dir=sharded", "train.init_from=run", "strategy.plugin=sharded",
                              "strategy.zero_stage=3", "launch.processes=2"}))
                .code,
            0);
  EXPECT_EQ(curve("sharded"), curve("lora"));

  // Exported, LoRA is part of the model, which does without it from then on.
  const std::string q = "language_model.model.layers.0.self_attn.q_proj.weight",
                    k = "language_model.model.layers.0.self_attn.k_proj.weight";
  call("export", {"--checkpoint", "last"}).ended(0);
  call("export", with({"run.dir=lora", "--checkpoint", "last"})).ended(0);
  EXPECT_EQ(values("lora", k), values("run", k));
  EXPECT_NE(values("lora", q), values("run", q));
  const Result again =
      call("run", {"run.dir=again", "train.init_from=lora/export", "task.tokenizer.path=lora/export",
                   "optimizer.lr=0.0", "train.max_steps=1"})
          .ended(0);
  const auto loss_of = [&](const std::string& dir) {
    return read_json_lines(path(dir + "/eval.jsonl")).back()["loss"].get<double>();
  };
  EXPECT_NEAR(loss_of("again"), loss_of("lora"), 1e-5);
}

// A tokenizer as LLaVA 1.5 has it: tokenizer.model, and <image> among the tokens added to it.
TEST_F(Vlm, ASentencePieceTokenizerGoesWithTheModel) {
  const Words options{"task.tokenizer.path=tokens", "task.chat.template=vicuna", "task.chat.max_tokens=400",
                      "task.language.max_position_embeddings=400"};
  const auto with = [&](const Words& more) { return more + options; };
  const auto config_of = [&](const std::string& folder) { return read_json(path(folder + "/config.json")); };
  const std::string model = trained_sentence_piece();
  fs::create_directories(path("tokens"));
  write_text(path("tokens/tokenizer.model"), model);
  write_text(path("tokens/added_tokens.json"), R"({"<image>": 330, "<pad>": 331})");
  const Result run = call("run", with({})).ended(0);
  EXPECT_THAT(run.out, HasSubstr("vocabulary of 332"));

  // The checkpoint has the tokenizer.
  fs::rename(path("tokens"), path("elsewhere"));
  call("predict", with({"--checkpoint", "last"})).ended(0);
  call("export", with({"--checkpoint", "last", "--output", path("whole").string()})).ended(0);
  for (const char* file : {"tokenizer.model", "added_tokens.json"})
    EXPECT_EQ(read_text(path("whole") / file), read_text(path("elsewhere") / file)) << file;
  EXPECT_EQ(config_of("whole")["image_token_index"], 330);
  EXPECT_EQ(config_of("whole")["text_config"]["vocab_size"], 332);
  EXPECT_EQ(config_of("whole")["text_config"]["bos_token_id"], 1);
  EXPECT_EQ(config_of("whole")["text_config"]["eos_token_id"], 2);

  // The language model alone is a folder to start from.
  ASSERT_EQ(call("export",
                 with({"--checkpoint", "last", "--output", path("alone").string(), "task.export=language"}))
                .code,
            0);
  EXPECT_EQ(config_of("alone")["architectures"][0], "LlamaForCausalLM");
  fs::rename(path("alone"), path("tokens"));
  call("run", with({"run.dir=again", "task.language.init_from=tokens"})).ended(0);

  // The folder's end tokens end what the run writes: without a norm all tokens are equal, the first is one.
  const std::string norm = "model.norm.weight", weights = path("tokens/model.safetensors");
  std::string bytes = read_text(weights);
  uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof size);
  const auto range = nlohmann::json::parse(bytes.substr(8, size)).at(norm).at("data_offsets");
  for (size_t at = range[0]; at < range[1]; ++at) bytes[8 + size + at] = 0;
  write_text(weights, bytes);
  const auto written = [&](const char* dir, const char* ends) {
    write_text(path("tokens/generation_config.json"), ends);
    return call("run", with({std::string("run.dir=") + dir, "task.language.init_from=tokens",
                             "optimizer.lr=0.0", "train.max_steps=1"}))
        .out;
  };
  EXPECT_THAT(written("one", R"({"eos_token_id": 2})"), testing::Not(HasSubstr("written: (nothing)")));
  EXPECT_THAT(written("two", R"({"eos_token_id": [2, 0]})"), HasSubstr("written: (nothing)"));

  // The folder of the whole model is a start, too, with one token more in the tokenizer.
  write_text(path("tokens/added_tokens.json"), R"({"<image>": 330, "<pad>": 331, "<new>": 332})");
  const Words parts{"run.dir=parts", "task.language.init_from=whole", "task.vision.init_from=whole",
                    "train.max_steps=1"};
  const Result grown = call("run", with(parts)).ended(0);
  EXPECT_THAT(
      grown.out,
      HasSubstr("weights of task.vision.init_from = whole, task.language.init_from = whole, the rest fresh"));
  EXPECT_EQ(read_text(path("parts/origin.txt")),
            "task.vision.init_from = whole\ntask.language.init_from = whole\n");
  EXPECT_THAT(grown.out, testing::ContainsRegex(
                             "the tokenizer has 1 token.s. that whole does not have, from number 332 on"));
  EXPECT_THAT(grown.out, testing::ContainsRegex("parameters of vision.\\* from whole"));
  EXPECT_THAT(grown.out, testing::ContainsRegex("parameters of language.\\* from whole"));

  // The folder brings its tokenizer.
  const Words own{"run.dir=other", "task.language.init_from=whole", "train.max_steps=1"};
  const Result other = call("run", own).ended(0);
  EXPECT_THAT(other.out, testing::ContainsRegex("from whole/config.json: .*task.tokenizer.path = "));
  for (const char* file : {"tokenizer.model", "tokenizer.json"}) fs::remove(path("whole") / file);
  fs::remove_all(path("other"));
  EXPECT_THAT(call("check", own).err,
              testing::ContainsRegex("task.tokenizer.path = .*: there is no tokenizer in "));
}

TEST_F(Vlm, ShardsAreTheSameAsFiles) {
  fs::create_directories(path("shards"));
  for (int i = 0; i < 16; ++i) {
    const std::string name = path("shards").string() + (i < 10 ? "/0" : "/") + std::to_string(i);
    fs::copy_file(path("drawings/" + std::to_string(i) + ".png"), name + ".png");
    write_text(name + ".txt", "a " + colour_of(i) + " " + shape_of(i));
  }
  const std::string pack =
      "cd '" + path("shards").string() + "' && tar -cf 0.tar 0*.* && tar -cf 1.tar 1*.* && rm *.png *.txt";
  ASSERT_EQ(std::system(pack.c_str()), 0);
  for (const std::string source : {"captions.jsonl", "shards"}) {
    call("run", {"run.dir=" + source + "-run", "task.data.train=" + source, "task.data.val=" + source,
                 "task.data.test=\"\""})
        .ended(0);
  }
  EXPECT_EQ(curve("shards-run"), curve("captions.jsonl-run"));
}

TEST_F(Vlm, UnusablePicturesAreNamed) {
  write_text(path("drawings/1.png"), "no picture");
  fs::remove(path("drawings/4.png"));
  EXPECT_THAT(call("run").ended(2).err, HasSubstr("raise task.data.max_broken_share"));
  const Result run = call("run", {"task.data.max_broken_share=0.1"}).ended(0);
  EXPECT_THAT(run.out + run.err, HasSubstr("drawings/1.png: no picture in a known format"));
  EXPECT_THAT(run.out + run.err, HasSubstr("drawings/4.png: No such file or directory"));
}

TEST_F(Vlm, AFreezePatternThatMatchesNothingIsAnError) {
  EXPECT_THAT(call("run", {R"(task.freeze=["visoin.*"])"}).ended(2).err,
              HasSubstr("\"visoin.*\" matches no parameter"));
}

}  // namespace
}  // namespace pipeline::tests
