// The summarization task as a user runs it, on a few pairs in several scripts, with a model of a few thousand
// parameters.
#include <cmath>
#include <filesystem>
#include <tuple>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <test_paths.hpp>

#include "tests/e2e/small_job.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class Summarization : public testing::Test, public SmallJob {
 protected:
  std::string state(const std::string& run) const {
    return read_text(path(run) / "checkpoints/step-00000012/state-00000-of-00001.safetensors");
  }
};

TEST_F(Summarization, TrainsEvaluatesPredictsAndExports) {
  const Result run = call("run");
  ASSERT_EQ(run.code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("41 training, 6 validation, 3 test pairs"));
  EXPECT_THAT(run.out, HasSubstr("written: "));
  const auto metrics = read_lines(path("run/metrics.jsonl"));
  ASSERT_EQ(metrics.size(), 12u);
  const auto first = nlohmann::json::parse(metrics.front()), last = nlohmann::json::parse(metrics.back());
  EXPECT_NEAR(first["loss"].get<double>(), std::log(300), 0.5) << "a fresh model knows nothing";
  EXPECT_LT(last["loss"].get<double>(), first["loss"].get<double>() - 0.3);
  EXPECT_GT(first["tokens"].get<uint64_t>(), 0u);
  EXPECT_EQ(first["padding"].get<double>(), 0);
  EXPECT_GT(first["mfu"].get<double>(), 0);
  const auto figures = nlohmann::json::parse(read_lines(path("run/eval.jsonl")).back());
  EXPECT_NEAR(figures["perplexity"].get<double>(), std::exp(figures["loss"].get<double>()), 1e-9);
  EXPECT_TRUE(figures.contains("rougeL") && figures.contains("lead_rougeL"));

  ASSERT_EQ(call("evaluate", {"--split", "val"}).code, 0);
  const auto evaluation = nlohmann::json::parse(read_text(path("run/evaluation-val.json")));
  EXPECT_TRUE(evaluation["figures"].contains("rougeLsum_stem"));

  ASSERT_EQ(call("predict").code, 0);
  const auto rows = read_lines(path("run/submission.csv"));
  ASSERT_GE(rows.size(), 4u);
  EXPECT_EQ(rows[0], "id,summary");
  EXPECT_THAT(rows[1], testing::StartsWith("x1,"));
  const Result asked = call("predict", {"--prompt", "apples and pears"});
  ASSERT_EQ(asked.code, 0) << asked.err;
  EXPECT_THAT(read_lines(path("run/asked.csv")).at(1), testing::StartsWith("prompt,"));
  EXPECT_THAT(asked.out, testing::Not(HasSubstr("have no summary")));

  const Result exported = call("export");
  ASSERT_EQ(exported.code, 0) << exported.err;
  for (const char* file : {"config.json", "model.safetensors", "vocab.json", "merges.txt", "tokenizer.json"})
    EXPECT_TRUE(fs::exists(path("run/export") / file)) << file;

  // The exported folder is a start like any other: the first loss is what the last evaluation saw.
  const Result again = call(
      "run", {"--set", "run.dir=again", "--set", "train.init_from=run/export", "--set",
              "task.tokenizer.path=run/export", "--set", "optimizer.lr=0.0", "--set", "train.max_steps=1"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("weights imported from"));
  EXPECT_NEAR(nlohmann::json::parse(read_lines(path("again/eval.jsonl")).back())["loss"].get<double>(),
              evaluation["figures"]["loss"].get<double>(), 1e-5);
  const Result other =
      call("run", {"--set", "run.dir=other", "--set", "train.init_from=run/export", "--set",
                   "task.tokenizer.path=run/export", "--set", "task.language.norm_eps=1e-6"});
  EXPECT_EQ(other.code, 2) << other.out;
  EXPECT_THAT(other.err, HasSubstr("--set task.language.norm_eps=1e-6: run/export/config.json has 1e-5, and "
                                   "these weights are of that model"));
}

// Plugin, weights and data alone: sizes, dropout, the tokenizer and lengths that fit are the folder's.
constexpr const char* kFromAFolder = R"([run]
dir = "tuned"
cache_dir = "cache"
device = "cpu"
[task]
plugin = "summarization"
data.train = "train.jsonl"
[train]
init_from = "theirs"
global_batch = 8
micro_batch = 2
max_steps = 2
)";

class FromAFolder : public Summarization {
 protected:
  FromAFolder() {
    const std::vector<std::string> dropout{"--set", "train.max_steps=1", "--set",
                                           "task.language.dropout=0.25"};
    EXPECT_EQ(call("run", dropout).code, 0);
    EXPECT_EQ(call("export", dropout).code, 0);
    fs::rename(path("run/export"), path("theirs"));
    write_text(path("train.toml"), kFromAFolder);
  }
};

TEST_F(FromAFolder, WhatIsNotSetFollowsIt) {
  const Result check = call("check", {"-v"});
  ASSERT_EQ(check.code, 0) << check.err;
  for (const char* line : {"num_hidden_layers = 2 ", "hidden_size = 16 ", "dropout = 0.25 ",
                           "path = \"theirs\" ", "max_tokens = 64 "})
    EXPECT_THAT(check.out, testing::ContainsRegex(std::string(line) + " *# theirs/config.json")) << line;
  EXPECT_THAT(
      check.out + check.err,
      HasSubstr("from theirs/config.json: task.tokenizer.path = \"theirs\", task.language.architecture = "
                "\"gpt2\", task.language.vocab_size = 300, task.language.hidden_size = 16"));
  const Result run = call("run");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("weights imported from theirs"));

  // The run is complete without the folder that it began with: it goes on, and is used.
  fs::rename(path("theirs"), path("elsewhere"));
  EXPECT_EQ(call("check").code, 0);
  ASSERT_EQ(call("run", {"--set", "train.max_steps=4"}).code, 0);
  ASSERT_EQ(call("export", {"--output", "ours"}).code, 0);
  ASSERT_EQ(call("predict", {"--set", "task.data.test=test.csv"}).code, 0);
  const auto config = nlohmann::json::parse(read_text(path("ours/config.json")));
  EXPECT_EQ(config["n_embd"], 16);
  EXPECT_EQ(config["attn_pdrop"], 0.25);
  const Result anew = call("run", {"--fresh"});
  EXPECT_EQ(anew.code, 2);
  EXPECT_THAT(anew.err, HasSubstr("train.toml:9: train.init_from = \"theirs\": there is no folder theirs"));

  // The run's resolved configuration is one like any other, also for a run that begins with its weights.
  fs::rename(path("elsewhere"), path("theirs"));
  const std::string kept = read_text(path("tuned/config.toml"));
  write_text(path("train.toml"), kept.substr(kept.find('\n')));  // without where that run was started
  ASSERT_EQ(call("run", {"--set", "run.dir=again"}).code, 0);
  EXPECT_EQ(read_text(path("again/metrics.jsonl")).empty(), false);
  write_text(path("train.toml"), kFromAFolder);
  const Result next = call("run", {"--set", "run.dir=next", "--set", "train.init_from=tuned"});
  ASSERT_EQ(next.code, 0) << next.err;
  EXPECT_THAT(next.out, HasSubstr("task.language.hidden_size = 16"));

  // A run of ours is a model as any other, though its weights have the shape of this one, too.
  for (const auto& [verb, more] :
       {std::pair("run",
                  std::vector<std::string>{"--set", "run.dir=other", "--set", "train.init_from=tuned"}),
        std::pair("export", std::vector<std::string>{"--output", "other"})}) {
    std::vector<std::string> arguments = more;
    arguments.insert(arguments.end(), {"--set", "task.language.num_attention_heads=8"});
    const Result other = call(verb, arguments);
    EXPECT_EQ(other.code, 2) << other.out;
    EXPECT_THAT(other.err,
                testing::ContainsRegex("task.language.num_attention_heads=8: tuned/checkpoints/step-00000004 "
                                       "has [124], and these weights are of that model"));
  }
}

TEST_F(FromAFolder, EveryDifferenceIsToldWithItsLine) {
  write_text(path("train.toml"),
             std::string(kFromAFolder) +
                 "[task.language]\nnum_hidden_layers = 3\nintermediate_size = 64\ndropout = 0.5\n");
  for (const char* verb : {"check", "run"}) {
    const Result wrong = call(verb, {"--set", "task.language.max_position_embeddings=128"});
    EXPECT_EQ(wrong.code, 2) << wrong.out;
    const std::string remedy =
        ", and these weights are of that model: leave the option out, or begin with other weights\n";
    EXPECT_EQ(wrong.err,
              "error: train.toml:14: task.language.num_hidden_layers = 3: theirs/config.json has 2" + remedy +
                  "error: --set task.language.max_position_embeddings=128: theirs/config.json has 64" +
                  remedy);
  }
}

TEST_F(FromAFolder, ATokenizerThatIsNotReadIsToldByCheckAsByRun) {
  std::string text = read_text(path("theirs/tokenizer.json"));
  const std::string kind = "\"type\": \"BPE\"";
  ASSERT_NE(text.find(kind), text.npos);
  write_text(path("theirs/tokenizer.json"),
             text.replace(text.find(kind), kind.size(), R"("type": "Unigram")"));
  for (const char* verb : {"check", "run"}) {
    const Result wrong = call(verb);
    EXPECT_EQ(wrong.code, 2) << wrong.out;
    EXPECT_THAT(wrong.err, HasSubstr("task.tokenizer.path = \"theirs\": theirs/tokenizer.json: model.type = "
                                     "\"Unigram\": must be \"BPE\""));
  }
}

TEST_F(FromAFolder, WeightsThatAreNotReadAreToldByCheckAsByRun) {
  const std::string file = path("theirs/model.safetensors"), whole = read_text(file);
  const auto expect = [&](const std::string& problem) {
    for (const char* verb : {"check", "run"}) {
      const Result wrong = call(verb);
      EXPECT_EQ(wrong.code, 2) << wrong.out;
      EXPECT_THAT(wrong.err, HasSubstr(problem)) << verb;
    }
  };
  write_text(file, whole.substr(0, whole.size() - 8));
  expect("is it cut short? Copy or download it again");
  write_text(file, "version https://git-lfs.github.com/spec/v1\nsize 12\n");
  expect("is a Git LFS pointer");
  fs::remove(file);
  expect("has neither model.safetensors nor model.safetensors.index.json");
}

TEST_F(FromAFolder, StagesAfterTheFirstFollowIt) {
  const std::string text = kFromAFolder;
  write_text(
      path("train.toml"),
      text.substr(0, text.find("[train]")) +
          "[train]\nglobal_batch = 8\nmicro_batch = 2\nmax_steps = 2\n[[stage]]\nname = \"first\"\n"
          "[stage.train]\ninit_from = \"theirs\"\n[[stage]]\nname = \"second\"\ninit_from = \"first\"\n");
  ASSERT_EQ(call("check").code, 0);
  const Result run = call("run");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(read_text(path("tuned/second/config.toml")),
              testing::ContainsRegex("hidden_size = 16 *# tuned/first"));
}

TEST_F(Summarization, AnEvaluationCountsTheSamplesThatHaveASummary) {
  ASSERT_EQ(call("run", {"--set", "train.max_steps=1"}).code, 0);
  const Result none = call("evaluate");
  EXPECT_EQ(none.code, 2) << none.out;
  EXPECT_THAT(none.err,
              HasSubstr("none of the 3 samples of this split has a summary in the column 'summary'"));
  EXPECT_THAT(none.err, HasSubstr("use `predict`"));
  std::string said;
  const auto figures = [&](const std::string& rows) {
    write_text(path("test.csv"), "id,document,summary\n" + rows);
    const Result result = call("evaluate");
    EXPECT_EQ(result.code, 0) << result.err;
    said = result.out;
    return nlohmann::json::parse(read_text(path("run/evaluation-test.json")))["figures"];
  };
  const std::string first = "x1,the quick brown fox,the fox\n", second = "x2,a lazy dog,lazy\n";
  const auto expected = figures(first + second);
  EXPECT_GT(expected["loss"].get<double>(), 0);
  EXPECT_EQ(
      figures("x3,nobody sums this up,\nx4,nor this,\n" + first + second + "x5,a blank one,\"  \"\nx6,,a\n"),
      expected);
  EXPECT_THAT(said, HasSubstr("2 of the 6 records of the test file: 3 have no summary, and 1 was dropped"));
  EXPECT_THAT(said, HasSubstr("2 of the 2 samples of test"));
}

TEST_F(Summarization, AShareOfTheTrainingFileCanBeHeldOut) {
  const std::vector<std::string> share{"--set", "task.data.val=\"\"",
                                       "--set", "task.data.validation_share=0.25",
                                       "--set", "task.rouge.validate_samples=40",
                                       "--set", "train.max_steps=1"};
  write_text(path("train.jsonl"), small_pairs(0, 40) + "no record\n");
  const Result both = call("run", {"--set", "task.data.validation_share=0.25"});
  EXPECT_EQ(both.code, 2) << both.out;
  EXPECT_THAT(both.err, HasSubstr("task.data.val names a file for the same"));
  const Result run = call("run", share);
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, testing::ContainsRegex("held out   [0-9]+ of the 40 usable records of .*train.jsonl"));
  EXPECT_THAT(run.out + run.err, HasSubstr("1 of 41 records"));
  EXPECT_THAT(run.out + run.err, HasSubstr("ROUGE counts words of the letters a to z and digits alone"));
  std::vector<std::string> evaluate = share;
  evaluate.insert(evaluate.end(), {"--split", "val"});
  const Result evaluated = call("evaluate", evaluate);
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_THAT(evaluated.out, testing::ContainsRegex("samples of val"));
  EXPECT_THAT(evaluated.out + evaluated.err, Not(HasSubstr("1 of 41 records"))) << "training has said so";
}

// Entries of the cache whose names start and end so.
std::vector<fs::path> cached(const fs::path& folder, const std::string& start, const std::string& end) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(start) && name.ends_with(end)) found.push_back(entry.path());
  }
  return found;
}

TEST_F(Summarization, ADamagedTokenizerIsTrainedAgain) {
  ASSERT_EQ(call("run", {"--set", "train.max_steps=1"}).code, 0);
  const auto tokenizers = cached(path("cache"), "tokenizer-", "");
  ASSERT_EQ(tokenizers.size(), 1u);
  const std::string good = read_text(tokenizers[0] / "tokenizer.json");
  write_text(tokenizers[0] / "tokenizer.json", good.substr(0, good.size() / 2));
  const auto repaired = [&](const std::string& run) {
    const Result result = call("run", {"--set", "train.max_steps=1", "--set", "run.dir=" + run});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out + result.err, HasSubstr("training the tokenizer again"));
    EXPECT_EQ(read_text(tokenizers[0] / "tokenizer.json"), good);
  };
  repaired("cut");
  for (const auto& entry : fs::directory_iterator(tokenizers[0])) fs::remove(entry.path());
  repaired("empty");
}

TEST_F(Summarization, AFullDiskIsNoMistakeInTheConfiguration) {
  ASSERT_EQ(call("run", {"--set", "train.max_steps=1"}).code, 0);
  const auto caches = cached(path("cache"), "val-", ".tokens");
  ASSERT_EQ(caches.size(), 1u);
  fs::remove(caches[0]);
  fs::create_symlink("/dev/full", caches[0].string() + ".part");
  const Result result = call("run", {"--set", "run.dir=full"});
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_THAT(result.err, HasSubstr("No space left on device"));
}

TEST_F(Summarization, AModelThatIsTooLargeIsToldFromBatchesThatAre) {
#ifdef PIPELINE_SANITIZED
  GTEST_SKIP() << "sanitizers map terabytes of address space, so it cannot be limited";
#endif
  std::vector<std::string> command =
      pipeline_command({"run", "train.toml", "--set", "task.language.hidden_size=65536"});
  command.insert(command.begin(), {"/bin/sh", "-c", "ulimit -v 40000000 && exec \"$@\"", "sh"});
  const Result result = Process(command, folder()).wait();
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_THAT(result.err,
              HasSubstr("out of memory on the host while opening the data and creating the model: "));
  EXPECT_THAT(
      result.err,
      HasSubstr(
          "make the model smaller by the options of [task], which `pipeline explain summarization` lists"));
  EXPECT_THAT(result.err, Not(HasSubstr("micro_batch"))) << result.err;
}

TEST_F(Summarization, KillAndContinueIsExactWithDropoutAndAccumulation) {
  ASSERT_EQ(call("run", {"--set", "run.dir=whole"}).code, 0);
  ASSERT_EQ(call("run", {"--set", "run.dir=parts", "--set", "train.max_steps=7"}).code, 0);
  ASSERT_EQ(call("run", {"--set", "run.dir=parts"}).code, 0);
  EXPECT_EQ(curve("parts"), curve("whole"));
  EXPECT_EQ(state("parts"), state("whole"));
}

// Layers of both kinds, several processes that share the weights, a stop in between, and what is exported is
// a start again.
TEST_F(Summarization, LearnsWithAnotherArchitecture) {
  std::string config = SmallJob::config();
  const size_t model = config.find("language = {");
  config.replace(model, config.find('\n', model) - model,
                 "language = { architecture = \"gemma3_text\", hidden_size = 16, num_hidden_layers = 3, "
                 "num_attention_heads = 2, num_key_value_heads = 1, max_position_embeddings = 64, "
                 "sliding_window = 7, full_attention_every = 2, dropout = 0.1 }");
  write_text(path("train.toml"), config);
  ASSERT_EQ(call("run", {"--set", "run.dir=whole"}).code, 0);
  const std::vector<std::string> shared{"--set", "run.dir=parts",         "--set", "strategy.plugin=sharded",
                                        "--set", "strategy.zero_stage=3", "--set", "launch.processes=2"};
  std::vector<std::string> first = shared;
  first.insert(first.end(), {"--set", "train.max_steps=7"});
  ASSERT_EQ(call("run", first).code, 0);
  ASSERT_EQ(call("run", {"--set", "run.dir=parts"}).code, 0);
  EXPECT_EQ(curve("parts"), curve("whole"));
  ASSERT_EQ(call("predict", {"--set", "run.dir=whole"}).code, 0);
  ASSERT_EQ(call("export", {"--set", "run.dir=whole"}).code, 0);
  const auto exported = nlohmann::json::parse(read_text(path("whole/export/config.json")));
  EXPECT_EQ(exported["architectures"][0], "Gemma3ForCausalLM");

  write_text(path("train.toml"), config.replace(config.find("language = {"), 0, "#"));
  const Result again = call("run", {"--set", "run.dir=again", "--set", "train.init_from=whole/export",
                                    "--set", "train.max_steps=1", "--set", "task.language.dropout=0"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("task.language.full_attention_every = 2"));
  const auto last = nlohmann::json::parse(read_lines(path("whole/eval.jsonl")).back());
  const auto next = nlohmann::json::parse(read_lines(path("again/metrics.jsonl")).front());
  EXPECT_LT(std::abs(next["loss"].get<double>() / last["loss"].get<double>() - 1), 0.1);
}

TEST_F(Summarization, OtherTrainingDataIsAnotherRunAndOtherTestDataIsNot) {
  ASSERT_EQ(call("run", {"--set", "train.max_steps=7"}).code, 0);
  write_text(path("test.csv"), "id,document\nx9,another document\n");
  ASSERT_EQ(call("run", {"--set", "train.max_steps=9"}).code, 0);
  write_text(path("train.jsonl"), small_pairs(0, 44));
  const Result result = call("run");
  EXPECT_EQ(result.code, 2) << result.out;
  EXPECT_THAT(result.err, HasSubstr("the data is not what this run began with"));
  EXPECT_THAT(result.err, HasSubstr(": 44 training samples (content"));
  EXPECT_THAT(result.err, HasSubstr("now, 41 training samples (content"));
}

TEST_F(Summarization, ABackendThatCannotDoItHereIsAMistakeOfTheConfiguration) {
  if (!fs::exists(PIPELINE_BUILD_DIR "/lib/pipeline/plugins/backends/nccl.so"))
    GTEST_SKIP() << "built without the nccl backend, for lack of its headers";
  const Result result =
      call("run", {"--set", "run.device=cpu", "--set", "backend.plugin=nccl", "--set", "launch.processes=2"});
  EXPECT_EQ(result.code, 2) << result.out;
  EXPECT_THAT(result.err,
              HasSubstr("it works in CUDA device memory only, cpu was asked for: use gloo or shm"));
}

TEST_F(Summarization, Stage3WithATaskThatDeclaresNoLayersNamesTheStagesThatWork) {
  write_text(path("train.toml"),
             "run = { dir = \"run\", device = \"cpu\" }\n"
             "plugins.paths = [\"" PIPELINE_BUILD_DIR
             "/tests/zoo\"]\n"
             "task.plugin = \"rows_right\"\n"
             "strategy = { plugin = \"sharded\", zero_stage = 3 }\n"
             "train.max_steps = 1\n");
  const Result result = call("run");
  EXPECT_EQ(result.code, 2) << result.out;
  EXPECT_THAT(result.err,
              HasSubstr("strategy.plugin = \"sharded\": it needs a task that declares its layers, and task "
                        "rows_right does not: use strategy.zero_stage = 1 or 2, or another strategy"));
}

// What came with a model is in what is exported of it, although its folder is gone by then.
TEST_F(Summarization, AnExportHasWhatCameWithTheModel) {
  ASSERT_EQ(call("run", {"--set", "train.max_steps=1"}).code, 0);
  ASSERT_EQ(call("export").code, 0);
  std::filesystem::rename(path("run/export"), path("m"));
  const auto json_of = [&](const std::string& name) { return nlohmann::json::parse(read_text(path(name))); };
  auto tokenizer = json_of("m/tokenizer.json"), config = json_of("m/config.json");
  const auto size = config["vocab_size"].get<int64_t>();
  tokenizer["added_tokens"].push_back({{"id", size}, {"content", "<|eot|>"}, {"special", true}});
  tokenizer["padding"] = {{"strategy", "BatchLongest"}};
  write_text(path("m/tokenizer.json"), tokenizer.dump());
  config["eos_token_id"] = {config["eos_token_id"], size};
  write_text(path("m/config.json"), config.dump());
  write_text(path("m/tokenizer_config.json"), R"({"model_max_length": 64, "padding_side": "left"})");
  write_text(path("m/chat_template.jinja"), "{{ messages }}");
  write_text(path("m/generation_config.json"), R"({"top_p": 0.5})");
  ASSERT_EQ(call("run", {"--set", "run.dir=b", "--set", "train.init_from=m", "--set", "task.tokenizer.path=m",
                         "--set", "train.max_steps=1"})
                .code,
            0);
  std::filesystem::rename(path("m"), path("gone"));
  const Result exported = call("export", {"--set", "run.dir=b", "--set", "task.tokenizer.path=m", "--set",
                                          "train.max_steps=1", "--output", "out"});
  ASSERT_EQ(exported.code, 0) << exported.err;
  for (const std::string name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"})
    EXPECT_EQ(read_text(path("out/" + name)), read_text(path("gone/" + name))) << name;
  EXPECT_EQ(json_of("out/config.json")["eos_token_id"], config["eos_token_id"]);
  EXPECT_EQ(json_of("out/generation_config.json")["top_p"], 0.5);
}

// The folder's own numbers of tokens are another vocabulary's, and its sizes may be anything.
TEST_F(Summarization, WhatAFoldersConfigSaysIsCheckedAndToldOf) {
  ASSERT_EQ(call("run", {"--set", "train.max_steps=1"}).code, 0);
  ASSERT_EQ(call("export").code, 0);
  const auto good = nlohmann::json::parse(read_text(path("run/export/config.json")));
  const auto start = [&](const char* key, const char* value) {
    auto config = good;
    config[key] = nlohmann::json::parse(value);
    write_text(path("run/export/config.json"), config.dump());
    return call("run", {"--set", "run.dir=again", "--set", "train.init_from=run/export", "--set",
                        "task.tokenizer.path=run/export", "--set", "train.max_steps=1", "--fresh"});
  };
  const std::string end = good["eos_token_id"].dump();
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    const Result other = start(key, "70000");
    EXPECT_EQ(other.code, 0) << other.err;
    EXPECT_THAT(other.out, HasSubstr(std::string("warning: run/export: ") + key +
                                     " = 70000 there; here it is " + end + ", the tokenizer's end of text"));
  }
  EXPECT_THAT(start("eos_token_id", end.c_str()).out, Not(HasSubstr("token_id")));
  for (const auto& [key, value, problem] :
       {std::tuple("n_layer", "1000000000000", "n_layer = 1000000000000: must be 1 to 16384"),
        std::tuple("n_head", "9223372036854775808",
                   "n_head = 9223372036854775808: must be at most 9223372036854775807"),
        std::tuple("n_embd", "\"16\"", "n_embd = \"16\": must be an integer")}) {
    const Result wrong = start(key, value);
    EXPECT_EQ(wrong.code, 2) << wrong.out;
    EXPECT_EQ(wrong.err, std::string("error: summarization: run/export/config.json: ") + problem + "\n");
  }
}

// `check` refuses them before anything is read, in the words of a run.
TEST_F(Summarization, CheckRefusesFilesThatAreNotThereAsARunDoes) {
  fs::create_directory(path("notes"));
  write_text(path("notes/a.txt"), "no records");
  const std::string gone =
      "there is no such file; a path is taken from the folder in which the program is started";
  for (const auto& [set, problem] :
       {std::pair("task.data.train=gone.jsonl", gone),
        {"task.data.val=gone.jsonl", gone},
        {"task.data.test=gone.jsonl", gone},
        {"task.data.train=gone/*.jsonl", "no file matches this pattern"},
        {"task.data.train=./{train,gone}.jsonl", "which this pattern names"},
        {"task.data.train=notes", "there is no file in this folder that can be read"},
        {"task.tokenizer.path=gone", "there is no such file or folder"}}) {
    const Result checked = call("check", {"--set", set}), run = call("run", {"--set", set});
    EXPECT_EQ(checked.code, 2) << set << checked.out;
    EXPECT_THAT(checked.err, testing::AllOf(testing::StartsWith(std::string("error: --set ") + set + ": "),
                                            HasSubstr(problem)));
    EXPECT_EQ(run.err, checked.err);
    EXPECT_FALSE(fs::exists(path("run"))) << "what cannot be run makes no folder";
  }
  EXPECT_THAT(call("check", {"--set", R"(task.data.train="")", "--set",
                             R"(task.data.source.path=["train.jsonl", "gone.csv"])"})
                  .err,
              HasSubstr("gone.csv: " + gone));
}

// A stage that is done needs its files no more; what a stage is to write is looked for when the next begins.
TEST_F(Summarization, AFinishedStageNeedsNoFiles) {
  const std::string base = read_text(path("train.toml"));
  for (const auto& [writer, code] : {std::pair("a", 0), {"c", 2}}) {
    write_text(path("train.toml"),
               base + "[[stage]]\nname = \"a\"\n[[stage]]\nname = \"b\"\ntask.tokenizer.path = \"run/" +
                   writer + "/export\"\n[[stage]]\nname = \"c\"\n");
    EXPECT_EQ(call("check").code, code) << writer;
  }
  write_text(path("train.toml"), base +
                                     "[[stage]]\nname = \"a\"\ntask.data.train = "
                                     "\"first.jsonl\"\n[[stage]]\nname = \"b\"\ninit_from = \"a\"\n");
  fs::copy_file(path("train.jsonl"), path("first.jsonl"));
  ASSERT_EQ(call("run", {"--set", "train.max_steps=1"}).code, 0);
  fs::remove(path("first.jsonl"));
  const Result again = call("run", {"--set", "train.max_steps=1"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("is already finished"));
  EXPECT_THAT(call("run", {"--set", "train.max_steps=1", "--fresh"}).err, HasSubstr("there is no such file"));
}

TEST_F(Summarization, AnOptionOfAnotherPluginIsSaidToBeOne) {
  EXPECT_EQ(call("check", {"--set", "strategy.plugin=ddp", "--set", "strategy.zero_stage=2"}).err,
            "error: --set strategy.zero_stage=2: unknown key: it is an option of the strategy sharded: name "
            "that in strategy.plugin, or leave the option out\n");
  EXPECT_EQ(call("check", {"--set", "strategy.zero_stag=2"}).err,
            "error: --set strategy.zero_stag=2: unknown key: did you mean strategy.zero_stage? It is an "
            "option of the strategy sharded: name that in strategy.plugin\n");
  EXPECT_THAT(call("run", {"--set", "task.mask_ratio=0.2", "--set", "tsk.x=1"}).err,
              HasSubstr("it is an option of the task protein"));
}

// The tokenizer is trained on train.jsonl, and the weights mean nothing with another one.
TEST_F(Summarization, TheTokenizerStaysWithTheWeights) {
  ASSERT_EQ(call("run").code, 0);
  ASSERT_EQ(call("predict", {"--output", "before.csv"}).code, 0);

  const std::string other =
      "{\"id\": \"q\", \"document\": \"quite other words, queer and quaint\", \"summary\": \"quips\"}\n";
  write_text(path("train.jsonl"), other + small_pairs(100, 20));
  Result result = call("predict", {"--output", "changed.csv"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(read_text(path("changed.csv")), read_text(path("before.csv")));

  // Tuning goes on with the weights' tokenizer, also on other data.
  result =
      call("run", {"--set", "run.dir=tuned", "--set", "train.init_from=run", "--set", "train.max_steps=1"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(", as the weights have it"));
  EXPECT_THAT(result.out, Not(HasSubstr("training a tokenizer")));

  // A tokenizer that is given must be the weights'.
  ASSERT_EQ(call("export", {"--output", "exported"}).code, 0);
  ASSERT_EQ(call("predict", {"--output", "given.csv", "--set", "task.tokenizer.path=exported"}).code, 0);
  EXPECT_EQ(read_text(path("given.csv")), read_text(path("before.csv")));
  const std::vector<std::string> smaller = {
      "--set", "run.dir=smaller", "--set", "task.tokenizer.vocab_size=290", "--set", "train.max_steps=1"};
  ASSERT_EQ(call("run", smaller).code, 0);
  ASSERT_EQ(call("export", {"--set", "run.dir=smaller", "--output", "smaller-exported"}).code, 0);
  result = call("predict", {"--output", "wrong.csv", "--set", "task.tokenizer.path=smaller-exported"});
  EXPECT_EQ(result.code, 2) << result.out;
  EXPECT_THAT(result.err, HasSubstr("is not the tokenizer that the weights were trained with"));

  ASSERT_EQ(call("predict", {"--output", "moved.csv", "--set", "task.tokenizer.path=moved-away"}).code, 0);
  EXPECT_EQ(read_text(path("moved.csv")), read_text(path("before.csv")));

  fs::remove(path("train.jsonl"));
  result = call("predict", {"--output", "gone.csv"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("train.jsonl is not there: going on without it"));
  EXPECT_EQ(read_text(path("gone.csv")), read_text(path("before.csv")));

  for (const char* file : {"val.jsonl", "test.csv"}) fs::remove(path(file));
  result = call("export", {"--output", "without-data"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(read_text(path("without-data/tokenizer.json")), read_text(path("exported/tokenizer.json")));
}

TEST_F(Summarization, ActivationCheckpointingGivesTheSameBits) {
  ASSERT_EQ(call("run", {"--set", "run.dir=plain"}).code, 0);
  ASSERT_EQ(call("run", {"--set", "run.dir=again", "--set", "train.activation_checkpointing=true"}).code, 0);
  EXPECT_EQ(curve("again"), curve("plain"));
  EXPECT_EQ(state("again"), state("plain"));
}

TEST_F(Summarization, TrainsInBf16) {
  const Result run = call("run", {"--set", "train.precision=bf16"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("bf16: parameter bf16, compute bf16"));
  EXPECT_THAT(run.out, HasSubstr("master fp32"));
  const auto metrics = read_lines(path("run/metrics.jsonl"));
  EXPECT_LT(nlohmann::json::parse(metrics.back())["loss"].get<double>(),
            nlohmann::json::parse(metrics.front())["loss"].get<double>() - 0.2);
}

TEST_F(Summarization, DroppedRecordsAreReported) {
  write_text(path("train.jsonl"),
             small_pairs(0, 20) + "{\"document\": \"no summary\"}\nnot json\n" + small_pairs(20, 20));
  const Result run = call("run", {"--set", "train.max_steps=1"});
  ASSERT_EQ(run.code, 0) << run.err;
  const std::string report = "2 of 42 records";
  EXPECT_THAT(run.out, HasSubstr(report));
  EXPECT_EQ(run.out.find(report), run.out.rfind(report)) << "said twice";
}

TEST_F(Summarization, UnusableInputIsNamed) {
  const auto problem = [&](std::vector<std::string> more) {
    const Result result = call("run", std::move(more));
    EXPECT_EQ(result.code, 2) << result.out;
    return result.err;
  };
  const std::string nowhere = problem({"--set", "task.data.train=nowhere.jsonl"});
  EXPECT_THAT(nowhere, HasSubstr("task.data.train=nowhere.jsonl"));
  EXPECT_THAT(
      nowhere,
      HasSubstr("there is no such file; a path is taken from the folder in which the program is started"));
  write_text(path("empty.jsonl"), "");
  EXPECT_THAT(problem({"--set", "task.data.train=empty.jsonl"}), HasSubstr("empty.jsonl"));
  EXPECT_THAT(
      problem({"--set", "task.language.num_attention_heads=3"}),
      HasSubstr("--set task.language.num_attention_heads=3: must divide task.language.hidden_size (16)"));
  EXPECT_THAT(problem({"--set", "task.model.n_layer=2"}), HasSubstr("task.language.num_hidden_layers"));
  EXPECT_THAT(problem({"--set", "task.sequence.max_tokens=100"}),
              HasSubstr("must not exceed task.language.max_position_embeddings (64)"));
  EXPECT_THAT(
      problem({"--set", "task.generate.max_tokens=33"}),
      HasSubstr("task.generate.max_tokens=33: with task.sequence.max_tokens = 48, of which the separator "
                "takes 1, this leaves 14 tokens of a document to write a summary from, less than half of the "
                "31 that training keeps: use at most 31, or task.sequence.max_tokens = 51 or more"));
  EXPECT_THAT(problem({"--set", "task.generate.max_tokens=31"}),
              HasSubstr("of which the separator takes 8"));  // the tokenizer says how many
  EXPECT_THAT(problem({"--set", "train.init_from=nowhere"}), HasSubstr("there is no folder nowhere"));
  EXPECT_THAT(problem({"--set", "task.data.document_column=text"}), HasSubstr("text"));
  EXPECT_THAT(
      problem({"--set", "run.cache_dir=/proc/none"}),
      HasSubstr("run.cache_dir = /proc/none: cannot be created: No such file or directory: set it to"));
}

}  // namespace
}  // namespace pipeline::tests
