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
  const Result run = call("run").ended(0);
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
  const auto figures = read_json_lines(path("run/eval.jsonl")).back();
  EXPECT_NEAR(figures["perplexity"].get<double>(), std::exp(figures["loss"].get<double>()), 1e-9);
  EXPECT_TRUE(figures.contains("rougeL") && figures.contains("lead_rougeL"));

  call("evaluate", {"--split", "val"}).ended(0);
  const auto evaluation = read_json(path("run/evaluation-val.json"));
  EXPECT_TRUE(evaluation["figures"].contains("rougeLsum_stem"));

  call("predict").ended(0);
  const auto rows = read_lines(path("run/submission.csv"));
  ASSERT_GE(rows.size(), 4u);
  EXPECT_EQ(rows[0], "id,summary");
  EXPECT_THAT(rows[1], testing::StartsWith("x1,"));
  const Result asked = call("predict", {"--prompt", "apples and pears"}).ended(0);
  EXPECT_THAT(read_lines(path("run/asked.csv")).at(1), testing::StartsWith("prompt,"));
  EXPECT_THAT(asked.out, testing::Not(HasSubstr("have nothing to compare with")));

  const Result exported = call("export").ended(0);
  for (const char* file : {"config.json", "model.safetensors", "vocab.json", "merges.txt", "tokenizer.json"})
    EXPECT_TRUE(fs::exists(path("run/export") / file)) << file;

  // The exported folder is a start like any other: the first loss is what the last evaluation saw.
  const Result again =
      call("run", {"run.dir=again", "train.init_from=run/export", "task.tokenizer.path=run/export",
                   "optimizer.lr=0.0", "train.max_steps=1"})
          .ended(0);
  EXPECT_THAT(again.out, HasSubstr("weights imported from"));
  EXPECT_NEAR(read_json_lines(path("again/eval.jsonl")).back()["loss"].get<double>(),
              evaluation["figures"]["loss"].get<double>(), 1e-5);
  const Result other = call("run", {"run.dir=other", "train.init_from=run/export",
                                    "task.tokenizer.path=run/export", "task.language.norm_eps=1e-6"})
                           .ended(2);
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
    const Words dropout{"train.max_steps=1", "task.language.dropout=0.25"};
    call("run", dropout).ended(0);
    call("export", dropout).ended(0);
    fs::rename(path("run/export"), path("theirs"));
    write_text(path("train.toml"), kFromAFolder);
  }
};

TEST_F(FromAFolder, WhatIsNotSetFollowsIt) {
  const Result check = call("check", {"-v"}).ended(0);
  for (const char* line : {"num_hidden_layers = 2 ", "hidden_size = 16 ", "dropout = 0.25 ",
                           "path = \"theirs\" ", "max_tokens = 64 "})
    EXPECT_THAT(check.out, testing::ContainsRegex(std::string(line) + " *# theirs/config.json")) << line;
  EXPECT_THAT(
      check.out + check.err,
      HasSubstr("from theirs/config.json: task.tokenizer.path = \"theirs\", task.language.architecture = "
                "\"gpt2\", task.language.vocab_size = 300, task.language.hidden_size = 16"));
  const Result run = call("run").ended(0);
  EXPECT_THAT(run.out, HasSubstr("weights imported from theirs"));

  // The run is complete without the folder that it began with: it goes on, and is used.
  fs::rename(path("theirs"), path("elsewhere"));
  call("check").ended(0);
  call("run", {"train.max_steps=4"}).ended(0);
  call("export", {"--output", "ours"}).ended(0);
  call("predict", {"task.data.test=test.csv"}).ended(0);
  const auto config = read_json(path("ours/config.json"));
  EXPECT_EQ(config["n_embd"], 16);
  EXPECT_EQ(config["attn_pdrop"], 0.25);
  EXPECT_THAT(call("run", {"--fresh"}).ended(2).err,
              HasSubstr("train.toml:9: train.init_from = \"theirs\": there is no folder theirs"));

  // The run's resolved configuration is one like any other, also for a run that begins with its weights.
  fs::rename(path("elsewhere"), path("theirs"));
  const std::string kept = read_text(path("tuned/config.toml"));
  write_text(path("train.toml"), kept.substr(kept.find('\n')));  // without where that run was started
  call("run", {"run.dir=again"}).ended(0);
  EXPECT_EQ(read_text(path("again/metrics.jsonl")).empty(), false);
  write_text(path("train.toml"), kFromAFolder);
  EXPECT_THAT(call("run", {"run.dir=next", "train.init_from=tuned"}).ended(0).out,
              HasSubstr("task.language.hidden_size = 16"));

  // A run of ours is a model as any other, though its weights have the shape of this one, too.
  for (const auto& [verb, more] : {std::pair("run", Words{"run.dir=other", "train.init_from=tuned"}),
                                   std::pair("export", Words{"--output", "other"})}) {
    Words arguments = more;
    arguments.push_back("task.language.num_attention_heads=8");
    EXPECT_THAT(call(verb, arguments).ended(2).err,
                testing::ContainsRegex("task.language.num_attention_heads=8: tuned/checkpoints/step-00000004 "
                                       "has [124], and these weights are of that model"));
  }
}

TEST_F(FromAFolder, EveryDifferenceIsToldWithItsLine) {
  write_text(path("train.toml"),
             std::string(kFromAFolder) +
                 "[task.language]\nnum_hidden_layers = 3\nintermediate_size = 64\ndropout = 0.5\n");
  for (const char* verb : {"check", "run"}) {
    const Result wrong = call(verb, {"task.language.max_position_embeddings=128"}).ended(2);
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
             text.replace(text.find(kind), kind.size(), R"("type": "WordLevel")"));
  for (const char* verb : {"check", "run"}) {
    EXPECT_THAT(call(verb).ended(2).err,
                HasSubstr("task.tokenizer.path = \"theirs\": theirs/tokenizer.json: model.type = "
                          "\"WordLevel\": must be \"BPE\""));
  }
}

TEST_F(FromAFolder, WeightsThatAreNotReadAreToldByCheckAsByRun) {
  const std::string file = path("theirs/model.safetensors"), whole = read_text(file);
  const auto expect = [&](const std::string& problem) {
    for (const char* verb : {"check", "run"}) {
      EXPECT_THAT(call(verb).ended(2).err, HasSubstr(problem)) << verb;
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
  call("check").ended(0);
  call("run").ended(0);
  EXPECT_THAT(read_text(path("tuned/second/config.toml")),
              testing::ContainsRegex("hidden_size = 16 *# tuned/first"));
}

TEST_F(Summarization, AnEvaluationCountsTheSamplesThatHaveASummary) {
  call("run", {"train.max_steps=1"}).ended(0);
  const Result none = call("evaluate").ended(2);
  EXPECT_THAT(none.err,
              HasSubstr("none of the 3 samples of this split has a summary in the column 'summary'"));
  EXPECT_THAT(none.err, HasSubstr("use `predict`"));
  std::string said;
  const auto figures = [&](const std::string& rows) {
    write_text(path("test.csv"), "id,document,summary\n" + rows);
    const Result result = call("evaluate").ended(0);
    said = result.out;
    return read_json(path("run/evaluation-test.json"))["figures"];
  };
  const std::string first = "x1,the quick brown fox,the fox\n", second = "x2,a lazy dog,lazy\n";
  const auto expected = figures(first + second);
  EXPECT_GT(expected["loss"].get<double>(), 0);
  EXPECT_EQ(
      figures("x3,nobody sums this up,\nx4,nor this,\n" + first + second + "x5,a blank one,\"  \"\nx6,,a\n"),
      expected);
  EXPECT_THAT(
      said,
      HasSubstr("2 of the 6 records of the test file: 3 have nothing to compare with, and 1 was dropped"));
  EXPECT_THAT(said, HasSubstr("2 of the 2 samples of test"));
}

TEST_F(Summarization, AShareOfTheTrainingFileCanBeHeldOut) {
  const Words share{"task.data.val=\"\"", "task.data.validation_share=0.25", "task.rouge.validate_samples=40",
                    "train.max_steps=1"};
  write_text(path("train.jsonl"), small_pairs(0, 40) + "no record\n");
  EXPECT_THAT(call("run", {"task.data.validation_share=0.25"}).ended(2).err,
              HasSubstr("task.data.val names a file for the same"));
  const Result run = call("run", share).ended(0);
  EXPECT_THAT(run.out, testing::ContainsRegex("held out   [0-9]+ of the 40 usable records of .*train.jsonl"));
  EXPECT_THAT(run.out + run.err, HasSubstr("1 of 41 records"));
  EXPECT_THAT(run.out + run.err, HasSubstr("ROUGE counts words of the letters a to z and digits alone"));
  Words evaluate = share;
  evaluate.insert(evaluate.end(), {"--split", "val"});
  const Result evaluated = call("evaluate", evaluate).ended(0);
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
  call("run", {"train.max_steps=1"}).ended(0);
  const auto tokenizers = cached(path("cache"), "tokenizer-", "");
  ASSERT_EQ(tokenizers.size(), 1u);
  const std::string good = read_text(tokenizers[0] / "tokenizer.json");
  write_text(tokenizers[0] / "tokenizer.json", good.substr(0, good.size() / 2));
  const auto repaired = [&](const std::string& run) {
    const Result result = call("run", {"train.max_steps=1", "run.dir=" + run}).ended(0);
    EXPECT_THAT(result.out + result.err, HasSubstr("training the tokenizer again"));
    EXPECT_EQ(read_text(tokenizers[0] / "tokenizer.json"), good);
  };
  repaired("cut");
  for (const auto& entry : fs::directory_iterator(tokenizers[0])) fs::remove(entry.path());
  repaired("empty");
}

TEST_F(Summarization, AFullDiskIsNoMistakeInTheConfiguration) {
  call("run", {"train.max_steps=1"}).ended(0);
  const auto caches = cached(path("cache"), "val-", ".tokens");
  ASSERT_EQ(caches.size(), 1u);
  fs::remove(caches[0]);
  fs::create_symlink("/dev/full", caches[0].string() + ".part");
  EXPECT_THAT(call("run", {"run.dir=full"}).ended(1).err, HasSubstr("No space left on device"));
}

TEST_F(Summarization, AModelThatIsTooLargeIsToldFromBatchesThatAre) {
#ifdef PIPELINE_SANITIZED
  GTEST_SKIP() << "sanitizers map terabytes of address space, so it cannot be limited";
#endif
  Words command = pipeline_command({"run", "train.toml", "task.language.hidden_size=65536"});
  command.insert(command.begin(), {"/bin/sh", "-c", "ulimit -v 40000000 && exec \"$@\"", "sh"});
  const Result result = Process(command, folder()).wait().ended(1);
  EXPECT_THAT(result.err,
              HasSubstr("out of memory on the host while opening the data and creating the model: "));
  EXPECT_THAT(
      result.err,
      HasSubstr(
          "make the model smaller by the options of [task], which `pipeline explain summarization` lists"));
  EXPECT_THAT(result.err, Not(HasSubstr("micro_batch"))) << result.err;
}

TEST_F(Summarization, KillAndContinueIsExactWithDropoutAndAccumulation) {
  call("run", {"run.dir=whole"}).ended(0);
  call("run", {"run.dir=parts", "train.max_steps=7"}).ended(0);
  call("run", {"run.dir=parts"}).ended(0);
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
  call("run", {"run.dir=whole"}).ended(0);
  const Words shared{"run.dir=parts", "strategy.plugin=sharded", "strategy.zero_stage=3",
                     "launch.processes=2"};
  Words first = shared;
  first.push_back("train.max_steps=7");
  call("run", first).ended(0);
  call("run", {"run.dir=parts"}).ended(0);
  EXPECT_EQ(curve("parts"), curve("whole"));
  call("predict", {"run.dir=whole"}).ended(0);
  call("export", {"run.dir=whole"}).ended(0);
  const auto exported = read_json(path("whole/export/config.json"));
  EXPECT_EQ(exported["architectures"][0], "Gemma3ForCausalLM");

  write_text(path("train.toml"), config.replace(config.find("language = {"), 0, "#"));
  const Result again = call("run", {"run.dir=again", "train.init_from=whole/export", "train.max_steps=1",
                                    "task.language.dropout=0"})
                           .ended(0);
  EXPECT_THAT(again.out, HasSubstr("task.language.full_attention_every = 2"));
  const auto last = read_json_lines(path("whole/eval.jsonl")).back();
  const auto next = read_json_lines(path("again/metrics.jsonl")).front();
  EXPECT_LT(std::abs(next["loss"].get<double>() / last["loss"].get<double>() - 1), 0.1);
}

TEST_F(Summarization, OtherTrainingDataIsAnotherRunAndOtherTestDataIsNot) {
  call("run", {"train.max_steps=7"}).ended(0);
  write_text(path("test.csv"), "id,document\nx9,another document\n");
  call("run", {"train.max_steps=9"}).ended(0);
  write_text(path("train.jsonl"), small_pairs(0, 44));
  const Result result = call("run").ended(2);
  EXPECT_THAT(result.err, HasSubstr("the data is not what this run began with"));
  EXPECT_THAT(result.err, HasSubstr(": 44 training samples (content"));
  EXPECT_THAT(result.err, HasSubstr("now, 41 training samples (content"));
}

TEST_F(Summarization, ABackendThatCannotDoItHereIsAMistakeOfTheConfiguration) {
  if (!fs::exists(PIPELINE_BUILD_DIR "/lib/pipeline/plugins/backends/nccl.so"))
    GTEST_SKIP() << "built without the nccl backend, for lack of its headers";
  const Result result = call("run", {"run.device=cpu", "backend.plugin=nccl", "launch.processes=2"}).ended(2);
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
  EXPECT_THAT(
      call("run").ended(2).err,
      HasSubstr(
          "strategy.plugin = \"sharded\": it needs a task that declares its layers, and task "
          "rows_right does not (set_unit_hooks): use strategy.zero_stage = 1 or 2, or another strategy"));
}

// What came with a model is in what is exported of it, although its folder is gone by then.
TEST_F(Summarization, AnExportHasWhatCameWithTheModel) {
  call("run", {"train.max_steps=1"}).ended(0);
  call("export").ended(0);
  std::filesystem::rename(path("run/export"), path("m"));
  const auto json_of = [&](const std::string& name) { return read_json(path(name)); };
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
  ASSERT_EQ(
      call("run", {"run.dir=b", "train.init_from=m", "task.tokenizer.path=m", "train.max_steps=1"}).code, 0);
  std::filesystem::rename(path("m"), path("gone"));
  call("export", {"run.dir=b", "task.tokenizer.path=m", "train.max_steps=1", "--output", "out"}).ended(0);
  for (const std::string name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"})
    EXPECT_EQ(read_text(path("out/" + name)), read_text(path("gone/" + name))) << name;
  EXPECT_EQ(json_of("out/config.json")["eos_token_id"], config["eos_token_id"]);
  EXPECT_EQ(json_of("out/generation_config.json")["top_p"], 0.5);
}

// The folder's own numbers of tokens are another vocabulary's, and its sizes may be anything.
TEST_F(Summarization, WhatAFoldersConfigSaysIsCheckedAndToldOf) {
  call("run", {"train.max_steps=1"}).ended(0);
  call("export").ended(0);
  const auto good = read_json(path("run/export/config.json"));
  const auto start = [&](const char* key, const char* value) {
    auto config = good;
    config[key] = nlohmann::json::parse(value);
    write_text(path("run/export/config.json"), config.dump());
    return call("run", {"run.dir=again", "train.init_from=run/export", "task.tokenizer.path=run/export",
                        "train.max_steps=1", "--fresh"});
  };
  const std::string end = good["eos_token_id"].dump();
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    EXPECT_THAT(start(key, "70000").ended(0).out,
                HasSubstr(std::string("warning: run/export: ") + key + " = 70000 there; here it is " + end +
                          ", the tokenizer's end of text"));
  }
  EXPECT_THAT(start("eos_token_id", end.c_str()).out, Not(HasSubstr("token_id")));
  for (const auto& [key, value, problem] :
       {std::tuple("n_layer", "1000000000000", "n_layer = 1000000000000: must be 1 to 16384"),
        std::tuple("n_head", "9223372036854775808",
                   "n_head = 9223372036854775808: must be at most 9223372036854775807"),
        std::tuple("n_embd", "\"16\"", "n_embd = \"16\": must be an integer")}) {
    EXPECT_EQ(start(key, value).ended(2).err,
              std::string("error: summarization: run/export/config.json: ") + problem + "\n");
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
    const Result checked = call("check", {set}), run = call("run", {set});
    EXPECT_EQ(checked.code, 2) << set << checked.out;
    EXPECT_THAT(checked.err, testing::AllOf(testing::StartsWith(std::string("error: --set ") + set + ": "),
                                            HasSubstr(problem)));
    EXPECT_EQ(run.err, checked.err);
    EXPECT_FALSE(fs::exists(path("run"))) << "what cannot be run makes no folder";
  }
  EXPECT_THAT(
      call("check", {R"(task.data.train="")", R"(task.data.source.path=["train.jsonl", "gone.csv"])"}).err,
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
  call("run", {"train.max_steps=1"}).ended(0);
  fs::remove(path("first.jsonl"));
  EXPECT_THAT(call("run", {"train.max_steps=1"}).ended(0).out, HasSubstr("is already finished"));
  EXPECT_THAT(call("run", {"train.max_steps=1", "--fresh"}).err, HasSubstr("there is no such file"));
}

TEST_F(Summarization, AnOptionOfAnotherPluginIsSaidToBeOne) {
  EXPECT_EQ(call("check", {"strategy.plugin=ddp", "strategy.zero_stage=2"}).err,
            "error: --set strategy.zero_stage=2: unknown key: it is an option of the strategy sharded: name "
            "that in strategy.plugin, or leave the option out\n");
  EXPECT_EQ(call("check", {"strategy.zero_stag=2"}).err,
            "error: --set strategy.zero_stag=2: unknown key: did you mean strategy.zero_stage? It is an "
            "option of the strategy sharded: name that in strategy.plugin\n");
  EXPECT_THAT(call("run", {"task.mask_ratio=0.2", "tsk.x=1"}).err,
              HasSubstr("it is an option of the task protein"));
}

// The tokenizer is trained on train.jsonl, and the weights mean nothing with another one.
TEST_F(Summarization, TheTokenizerStaysWithTheWeights) {
  call("run").ended(0);
  call("predict", {"--output", "before.csv"}).ended(0);

  const std::string other =
      "{\"id\": \"q\", \"document\": \"quite other words, queer and quaint\", \"summary\": \"quips\"}\n";
  write_text(path("train.jsonl"), other + small_pairs(100, 20));
  Result result = call("predict", {"--output", "changed.csv"}).ended(0);
  EXPECT_EQ(read_text(path("changed.csv")), read_text(path("before.csv")));

  // Tuning goes on with the weights' tokenizer, also on other data.
  result = call("run", {"run.dir=tuned", "train.init_from=run", "train.max_steps=1"}).ended(0);
  EXPECT_THAT(result.out, HasSubstr(", as the weights have it"));
  EXPECT_THAT(result.out, Not(HasSubstr("training a tokenizer")));

  // A tokenizer that is given must be the weights'.
  call("export", {"--output", "exported"}).ended(0);
  call("predict", {"--output", "given.csv", "task.tokenizer.path=exported"}).ended(0);
  EXPECT_EQ(read_text(path("given.csv")), read_text(path("before.csv")));
  const Words smaller = {"run.dir=smaller", "task.tokenizer.vocab_size=290", "train.max_steps=1"};
  call("run", smaller).ended(0);
  call("export", {"run.dir=smaller", "--output", "smaller-exported"}).ended(0);
  result = call("predict", {"--output", "wrong.csv", "task.tokenizer.path=smaller-exported"}).ended(2);
  EXPECT_THAT(result.err, HasSubstr("is not the tokenizer that the weights were trained with"));

  call("predict", {"--output", "moved.csv", "task.tokenizer.path=moved-away"}).ended(0);
  EXPECT_EQ(read_text(path("moved.csv")), read_text(path("before.csv")));

  fs::remove(path("train.jsonl"));
  result = call("predict", {"--output", "gone.csv"}).ended(0);
  EXPECT_THAT(result.out, HasSubstr("train.jsonl is not there: going on without it"));
  EXPECT_EQ(read_text(path("gone.csv")), read_text(path("before.csv")));

  for (const char* file : {"val.jsonl", "test.csv"}) fs::remove(path(file));
  result = call("export", {"--output", "without-data"}).ended(0);
  EXPECT_EQ(read_text(path("without-data/tokenizer.json")), read_text(path("exported/tokenizer.json")));
}

TEST_F(Summarization, ActivationCheckpointingGivesTheSameBits) {
  call("run", {"run.dir=plain"}).ended(0);
  call("run", {"run.dir=again", "train.activation_checkpointing=true"}).ended(0);
  EXPECT_EQ(curve("again"), curve("plain"));
  EXPECT_EQ(state("again"), state("plain"));
}

TEST_F(Summarization, TrainsInBf16) {
  const Result run = call("run", {"train.precision=bf16"}).ended(0);
  EXPECT_THAT(run.out, HasSubstr("bf16: parameter bf16, compute bf16"));
  EXPECT_THAT(run.out, HasSubstr("master fp32"));
  EXPECT_THAT(run.out, HasSubstr(", 1 thread"));  // LibTorch's sums in bf16 depend on their number
  const auto metrics = read_lines(path("run/metrics.jsonl"));
  EXPECT_LT(nlohmann::json::parse(metrics.back())["loss"].get<double>(),
            nlohmann::json::parse(metrics.front())["loss"].get<double>() - 0.2);
}

TEST_F(Summarization, DroppedRecordsAreReported) {
  write_text(path("train.jsonl"),
             small_pairs(0, 20) + "{\"document\": \"no summary\"}\nnot json\n" + small_pairs(20, 20));
  const Result run = call("run", {"train.max_steps=1"}).ended(0);
  const std::string report = "2 of 42 records";
  EXPECT_THAT(run.out, HasSubstr(report));
  EXPECT_EQ(run.out.find(report), run.out.rfind(report)) << "said twice";
}

TEST_F(Summarization, UnusableInputIsNamed) {
  const auto problem = [&](Words more) { return call("run", std::move(more)).ended(2).err; };
  const std::string nowhere = problem({"task.data.train=nowhere.jsonl"});
  EXPECT_THAT(nowhere, HasSubstr("task.data.train=nowhere.jsonl"));
  EXPECT_THAT(
      nowhere,
      HasSubstr("there is no such file; a path is taken from the folder in which the program is started"));
  write_text(path("empty.jsonl"), "");
  EXPECT_THAT(problem({"task.data.train=empty.jsonl"}), HasSubstr("empty.jsonl"));
  EXPECT_THAT(
      problem({"task.language.num_attention_heads=3"}),
      HasSubstr("--set task.language.num_attention_heads=3: must divide task.language.hidden_size (16)"));
  EXPECT_THAT(problem({"task.model.n_layer=2"}), HasSubstr("task.language.num_hidden_layers"));
  EXPECT_THAT(problem({"task.sequence.max_tokens=100"}),
              HasSubstr("must not exceed task.language.max_position_embeddings (64)"));
  EXPECT_THAT(
      problem({"task.generate.max_tokens=33"}),
      HasSubstr("task.generate.max_tokens=33: with task.sequence.max_tokens = 48, of which the separator "
                "takes 1, this leaves 14 tokens of a document to write a summary from, less than half of the "
                "31 that training keeps: use at most 31, or task.sequence.max_tokens = 51 or more"));
  EXPECT_THAT(problem({"task.generate.max_tokens=31"}),
              HasSubstr("of which the separator takes 8"));  // the tokenizer says how many
  EXPECT_THAT(problem({"train.init_from=nowhere"}), HasSubstr("there is no folder nowhere"));
  EXPECT_THAT(problem({"task.data.document_column=text"}), HasSubstr("text"));
  EXPECT_THAT(
      problem({"run.cache_dir=/proc/none"}),
      HasSubstr("run.cache_dir = /proc/none: cannot be created: No such file or directory: set it to"));
}

}  // namespace
}  // namespace pipeline::tests
