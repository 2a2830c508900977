// Models in folders of another tool, used as they are: without a run, a training file or an option of
// training.
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/e2e/protein_job.hpp"
#include "tests/e2e/small_job.hpp"
#include "tests/e2e/vlm_job.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Without the plugins of tests and benchmarks, one of which is the protein task again.
Words product_command(const Words& words) {
  const Words command = pipeline_command(words);
  ::unsetenv("PIPELINE_PLUGIN_PATH");
  return command;
}
Result product(const Words& words, const fs::path& folder) {
  return Process(product_command(words), folder).wait();
}

// A model that a short training has made, in the folder `model`. Its run stays as `run`, for comparison; what
// it was trained on is gone.
template <class JobT>
class ModelFolder : public testing::Test, public JobT {
 protected:
  void make_model(const Words& options = {}) const {
    this->call("run", Words{"train.max_steps=3"} + options).ended(0);
    this->call("export", Words{"--output", "model"} + options).ended(0);
  }
  Result use(const Words& words, const Words& more = {}) const {
    return product(words + Words{"run.device=cpu", "run.cache_dir=other-cache"} + more, this->folder());
  }
  // What a command says that must end with exit code 2.
  std::string error_of(const Words& words) const { return use(words).ended(2).err; }
  nlohmann::json figures_of(const std::string& file) const { return read_json(this->path(file))["figures"]; }
};

using Esm2Folder = ModelFolder<SmallEsm2Job>;

TEST_F(Esm2Folder, NeedsNoTraining) {
  make_model();
  const Words mine{"task.test_path=mine"};
  fs::create_directories(path("mine"));
  for (int i = 0; i < 3; ++i)
    write_text(path("mine/m" + std::to_string(i) + ".pdb"),
               helix(made_up_sequence(30 + i, 700 + static_cast<uint64_t>(i)), 'A') + "END\n");
  call("predict", Words{"--output", "ours.csv"} + mine).ended(0);
  const Result ours = call("evaluate", Words{"--output", "evaluated.json"} + mine).ended(0);
  fs::remove_all(path("structures"));

  // A configuration of plugin and data alone is enough.
  write_text(path("mine.toml"),
             "[task]\nplugin = \"protein\"\ntest_path = \"mine\"\ndata.max_residues = 48\n");
  EXPECT_THAT(use({"predict", "mine.toml", "--checkpoint", "model"}).ended(0).out,
              HasSubstr("written to runs/mine/submission.csv"));
  EXPECT_EQ(read_text(path("runs/mine/submission.csv")), read_text(path("ours.csv")));
  EXPECT_EQ(read_text(path("runs/mine/submission-files/m1_A-residues.csv")),
            read_text(path("ours-files/m1_A-residues.csv")));
  const Result evaluated = use({"evaluate", "mine.toml", "--checkpoint", "model"}).ended(0);
  EXPECT_THAT(evaluated.out, HasSubstr("data       test 3 chains of 3 clusters"));
  EXPECT_DOUBLE_EQ(figures_of("runs/mine/evaluation-test.json")["loss"].get<double>(),
                   figures_of("evaluated.json")["loss"].get<double>());

  // The folder alone is enough, on two processes: its task is found, and nothing is written into it.
  const auto files = [&] { return std::distance(fs::directory_iterator(path("model")), {}); };
  const auto before = files();
  const Result named = use({"predict", "model"}, mine + Words{"launch.processes=2"}).ended(0);
  EXPECT_THAT(named.out, AllOf(HasSubstr("task protein of model"),
                               HasSubstr("written to runs/model-model/submission.csv")));
  EXPECT_EQ(read_text(path("runs/model-model/submission.csv")), read_text(path("ours.csv")));
  EXPECT_EQ(files(), before);

  // What is missing for the work itself is named, and nothing is left behind.
  fs::remove_all(path("runs"));
  EXPECT_THAT(error_of({"predict", "model"}), HasSubstr("task.test_path: must be given, or task.pdb_path"));
  EXPECT_THAT(error_of({"run", "mine.toml", "train.max_steps=1"}),
              HasSubstr("mine.toml: task.pdb_path: must be given, to learn from: a folder of structures"));
  EXPECT_THAT(error_of({"predict", "model", "task.plugin=chat"}),
              HasSubstr("this is an esm model; accepted are llama"));
  EXPECT_THAT(error_of({"predict", "mine.toml", "--checkpoint", "model", "task.esm2.num_layers=3"}),
              HasSubstr("--set task.esm2.num_layers=3: model/config.json has 2"));
}

TEST_F(Esm2Folder, AnAdapterFindsItsTaskByItsModel) {
  make_model();
  const Words lora{"train.init_from=model", "run.dir=adapted", "task.esm2.lora.rank=2", "train.max_steps=2"};
  call("run", lora).ended(0);
  call("export", Words{"--checkpoint", "last", "--output", "adapter"} + lora).ended(0);
  ASSERT_EQ(call("predict",
                 Words{"--checkpoint", "last", "--output", "ours.csv", "task.test_path=structures"} + lora)
                .code,
            0);
  const Words data{"task.test_path=structures", "task.data.min_residues=10", "task.data.max_residues=48"};
  EXPECT_THAT(use({"predict", "adapter"}, data).ended(0).out,
              HasSubstr("task protein of model, with task.esm2.lora.init_from = "));
  EXPECT_EQ(read_text(path("runs/adapter-adapter/submission.csv")), read_text(path("ours.csv")));
  EXPECT_THAT(error_of({"predict", "train.toml", "--checkpoint", "adapter"}),
              HasSubstr("--set task.esm2.lora.init_from=adapter"));
}

TEST_F(Esm2Folder, OfAKilledPredictionGoesOnUnlessItHasChanged) {
  make_model();
  fs::create_directories(path("mine"));
  for (int i = 0; i < 100; ++i)
    write_text(path("mine/m" + std::to_string(i) + ".pdb"),
               helix(made_up_sequence(40, 700 + static_cast<uint64_t>(i)), 'A') + "END\n");
  const Words command{"predict",
                      "model",
                      "task.test_path=mine",
                      "run.cache_dir=other-cache",
                      "task.predict.maskings=40",
                      "task.predict.pictures=false",
                      "train.micro_batch=1",
                      "run.device=cpu"};
  const auto kill_it = [&] {
    Process process(product_command(command), folder());
    const auto has_begun = [&] {
      const auto progress =
          nlohmann::json::parse(read_text(path("runs/model-model/submission.csv.progress")), nullptr, false);
      return progress.is_object() && progress["samples"].get<int>() > 0;
    };
    ASSERT_TRUE(eventually(has_begun));
    process.signal(SIGKILL);
    process.wait();
    ASSERT_FALSE(fs::exists(path("runs/model-model/submission.csv"))) << "it was killed in time";
  };
  kill_it();
  EXPECT_THAT(product(command, folder()).ended(0).out, HasSubstr("by an earlier process"));
  fs::rename(path("runs/model-model/submission.csv"), path("first.csv"));

  kill_it();
  fs::last_write_time(path("model/model.safetensors"), fs::file_time_type::clock::now());
  EXPECT_THAT(product(command, folder()).ended(0).out, Not(HasSubstr("by an earlier process")))
      << "other weights make no half of it";
  EXPECT_EQ(read_text(path("runs/model-model/submission.csv")), read_text(path("first.csv")));
}

using LanguageFolder = ModelFolder<SmallJob>;

TEST_F(LanguageFolder, NeedsNoTraining) {
  make_model();
  write_text(path("qa.jsonl"), R"({"prompt": "the quick", "completion": "brown fox"})");
  call("predict", {"--output", "ours.csv"}).ended(0);
  for (const char* gone : {"train.jsonl", "val.jsonl"}) fs::remove(path(gone));

  write_text(path("mine.toml"), R"([task]
plugin = "summarization"
data.test = "test.csv"
sequence = { max_tokens = 48, max_summary_tokens = 16 }
generate.max_tokens = 8
)");
  use({"predict", "mine.toml", "--checkpoint", "model"}).ended(0);
  EXPECT_EQ(read_text(path("runs/mine/submission.csv")), read_text(path("ours.csv")));
  EXPECT_THAT(error_of({"run", "mine.toml", "train.max_steps=1"}),
              HasSubstr("mine.toml: task.data.train: must be given: a file to learn from"));

  // Several tasks take a language model: it is chat, unless another one is named.
  const Result chat =
      use({"evaluate", "model", "task.data.test=qa.jsonl", "task.generate.max_tokens=4"}).ended(0);
  EXPECT_THAT(chat.out, HasSubstr("task chat of model"));
  EXPECT_GT(figures_of("runs/model-model/evaluation-test.json")["loss"].get<double>(), 0);
  const Result summarization =
      use({"predict", "model", "task.plugin=summarization", "--prompt", "the quick brown fox"});
  ASSERT_EQ(summarization.code, 0) << summarization.out << summarization.err;
  EXPECT_THAT(summarization.out, HasSubstr("task summarization of model"));
}

TEST_F(LanguageFolder, MistakesInItsPlaceAreNamed) {
  make_model();
  write_text(path("mine.toml"), "[task]\nplugin = \"chat\"\ndata.test = \"test.csv\"\n");
  const auto of = [&](const Words& more) { return error_of(Words{"evaluate", "mine.toml"} + more); };
  EXPECT_THAT(of({}), HasSubstr("runs/mine: there are no weights of a run yet: train first (pipeline run "
                                "mine.toml), or name those to use without training: --checkpoint FOLDER"));
  EXPECT_THAT(of({"train.init_from=model"}), HasSubstr("without training: --checkpoint model\n"));
  EXPECT_THAT(of({"--checkpoint", "openai-community/gpt2"}),
              HasSubstr("--checkpoint openai-community/gpt2: there is no such folder; if it is a model's id "
                        "on the Hugging Face hub, run `hf download openai-community/gpt2 --local-dir gpt2`"));
  EXPECT_THAT(of({"--checkpoint", "model/model.safetensors"}),
              HasSubstr("--checkpoint model/model.safetensors: is a file, must be a folder: name the one "
                        "that it is in, \"model\""));
  fs::create_directory(path("some"));
  write_text(path("some/notes.txt"), "x");
  EXPECT_THAT(of({"--checkpoint", "some"}), HasSubstr("--checkpoint some: is neither a run or checkpoint"));
  EXPECT_THAT(of({"--checkpoint", "model", "--ema"}),
              HasSubstr("--ema: model is the model folder of another"));
  EXPECT_THAT(of({"--checkpoint", "model", "--average", "3"}), HasSubstr("--average 3: model is the model"));
  fs::create_directory(path("adapter"));
  write_text(path("adapter/adapter_config.json"), R"({"base_model_name_or_path": "meta/Llama"})");
  EXPECT_THAT(of({"--checkpoint", "adapter"}),
              HasSubstr("--checkpoint adapter: is a PEFT adapter: name it in place of the configuration, or "
                        "the folder of its model here and --set task.language.lora.init_from=adapter"));
  EXPECT_FALSE(fs::exists(path("runs"))) << "nothing is left behind";

  // Mistakes of a command that names a folder in place of the configuration.
  EXPECT_THAT(error_of({"predict", "model", "--average", "3"}), HasSubstr("--average 3: model is the model"));
  EXPECT_THAT(error_of({"predict", "model", "--checkpoint", "last"}),
              HasSubstr("leave out --checkpoint last"));
  EXPECT_THAT(error_of({"predict", "openai-community/gpt2"}),
              HasSubstr("openai-community/gpt2: there is no such file or folder: a configuration is a .toml "
                        "file; if it is a model's id on the Hugging Face hub, run `hf download"));
  EXPECT_THAT(error_of({"predict", "some"}),
              HasSubstr("some: is a folder without a config.toml, as a run has"));
  EXPECT_THAT(error_of({"predict", "nowhere.toml"}), HasSubstr("nowhere.toml: no such file: there is "));
  EXPECT_THAT(error_of({"predict", "adapter"}),
              AllOf(HasSubstr("base_model_name_or_path = \"meta/Llama\": is no folder of a model here"),
                    HasSubstr("run `hf download meta/Llama --local-dir Llama`")));
  fs::create_directory(path("bert"));
  write_text(path("bert/config.json"), R"({"model_type": "bert"})");
  EXPECT_THAT(
      error_of({"predict", "bert"}),
      AllOf(
          HasSubstr("bert: no task takes this model's folder:\n"),
          HasSubstr(
              "\n  protein: bert/config.json: model_type = \"bert\": this is a bert model; accepted are esm"),
          Not(HasSubstr("template"))));
  EXPECT_FALSE(fs::exists(path("runs"))) << "nothing is left behind";

  // Two folders are both meant.
  fs::copy(path("model"), path("another"));
  const Result both =
      use({"predict", "mine.toml", "--prompt", "the", "--checkpoint", "model", "train.init_from=another"})
          .ended(0);
  EXPECT_THAT(both.out, HasSubstr("warning: --set train.init_from=another: is what training begins with, and "
                                  "is not used here: the weights are those of model"));
}

using VlmFolder = ModelFolder<SmallVlmJob>;

TEST_F(VlmFolder, NeedsNoTraining) {
  make_model();
  call("predict", {"--output", "ours.csv"}).ended(0);
  for (const char* gone : {"train.json", "val.json"}) fs::remove(path(gone));
  write_text(
      path("mine.toml"),
      "[task]\nplugin = \"vlm\"\ndata.test = \"test.json\"\nchat.max_tokens = 80\ngenerate.max_tokens = 6\n");
  use({"predict", "mine.toml", "--checkpoint", "model"}).ended(0);
  EXPECT_EQ(read_text(path("runs/mine/submission.csv")), read_text(path("ours.csv")));
  const Result asked =
      use({"predict", "model", "--image", "drawings/1.png", "--question", "What colour?"}).ended(0);
  EXPECT_THAT(asked.out, AllOf(HasSubstr("task vlm of model"), HasSubstr("runs/model-model/asked.csv")));
  EXPECT_THAT(error_of({"evaluate", "mine.toml", "--checkpoint", "model", "task.language.init_from=model"}),
              HasSubstr("model has this part, too: leave one of the two out"));
}

}  // namespace
}  // namespace pipeline::tests
