// A model that learns from a larger one, as a user runs it.
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/e2e/same_run.hpp"

namespace pipeline::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kRun = reproducible_run("chat") + R"(chat.max_tokens = 64
generate.max_tokens = 6
data = { train = "chat.jsonl", val = "chat.jsonl", test = "chat.jsonl" }
)";
constexpr const char* kModel =
    "language = { num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2, "
    "max_position_embeddings = 96, hidden_size = ";

// The teacher is the folder `teacher`.
class Taught : public testing::Test, public Job {
 protected:
  Taught() {
    std::string all;
    for (int i = 0; i < 40; ++i)
      all += "{\"prompt\": \"What follows " + std::to_string(i) + "?\", \"completion\": \"" +
             std::to_string(i + 1) + "\"}\n";
    write_text(path("chat.jsonl"), all);
    write_text(path("teacher.toml"),
               kRun + "tokenizer.vocab_size = 300\n" + kModel + "32 }\n" + kShortTraining);
    pipeline({"run", "teacher.toml", "--set", "run.dir=first"}).ended(0);
    pipeline({"export", "teacher.toml", "--set", "run.dir=first", "--output", "teacher"}).ended(0);
    teach("weight = 0.7, beta = 0.5");
  }
  void teach(const std::string& how) const {
    write_text(path("train.toml"), kRun + "tokenizer.path = \"teacher\"\n" + kModel +
                                       "16 }\nteacher = { init_from = \"teacher\", " + how + " }\n" +
                                       kShortTraining);
  }
  std::vector<std::filesystem::path> files_of(const std::string& cache, const std::string& ending) const {
    std::vector<std::filesystem::path> found;
    if (std::filesystem::exists(path(cache)))
      for (const auto& entry : std::filesystem::directory_iterator(path(cache)))
        if (entry.path().string().ends_with(ending)) found.push_back(entry.path());
    return found;
  }
  // What the teacher has said, in the only file.
  std::string answers(const std::string& cache) const {
    const auto files = files_of(cache, ".teacher");
    return files.size() == 1 ? read_text(files[0]) : throw std::runtime_error(cache + ": not one file");
  }
};

TEST_F(Taught, ModelsAreTheSameEverywhereAndNeedNoTeacherAfterwards) {
  expect_the_same_run_everywhere(*this);
  call("run", Arrangement{"sharded3", 2}.sets() + Words{"run.dir=three"}).ended(0);
  EXPECT_EQ(curve("three"), curve("run"));
  const auto step = read_json_lines(path("run/metrics.jsonl")).front();
  EXPECT_NEAR(step.at("loss").get<double>(),
              0.3 * step.at("cross_entropy").get<double>() + 0.7 * step.at("divergence").get<double>(), 1e-5);
  std::filesystem::rename(path("teacher"), path("gone"));
  const Words without{"task.teacher.init_from=gone-teacher", "task.tokenizer.path=gone"};
  call("predict", without).ended(0);
  call("evaluate", Words{"--split", "test"} + without).ended(0);
  call("export", Words{"--output", "exported"} + without).ended(0);
  EXPECT_LT(std::filesystem::file_size(path("exported/model.safetensors")),
            std::filesystem::file_size(path("gone/model.safetensors")));
}

TEST_F(Taught, ModelsMayHaveAdaptersAndATeacherInFewerBits) {
  EXPECT_THAT(call("run", {"run.dir=whole"}).ended(0).out, Not(HasSubstr("random values")));
  call("run", {"run.dir=coded", "train.frozen_precision=bf16"}).ended(0);
  EXPECT_NE(curve("coded"), curve("whole"));
  call("export", {"run.dir=whole", "--output", "student"}).ended(0);
  write_text(
      path("lora.toml"),
      kRun + std::string("language.lora.rank = 4\nteacher.init_from = \"teacher\"\n") + kShortTraining);
  pipeline({"run", "lora.toml", "--set", "train.init_from=student"}).ended(0);
}

TEST_F(Taught, ModelsAreTheSameEverywhereByATeacherThatIsAskedOnce) {
  teach("weight = 0.7, beta = 0.5, temperature = 2, top_k = 8");
  EXPECT_THAT(call("run", {"run.dir=asked"}).ended(0).out,
              AllOf(HasSubstr(" is asked for its 8 likeliest tokens at "), HasSubstr(" MB in run.cache_dir"),
                    HasSubstr("% of its probability is outside of them"), Not(HasSubstr("not asked again"))));
  expect_the_same_run_everywhere(*this);
  EXPECT_THAT(call("run", {"run.dir=again"}).ended(0).out,
              AllOf(HasSubstr("not asked again: 8 likeliest tokens of "), Not(HasSubstr("is asked for"))));
  EXPECT_EQ(curve("again"), curve("asked"));
  call("run", Arrangement{"sharded3", 2}.sets() + Words{"run.dir=three", "run.cache_dir=other"}).ended(0);
  EXPECT_EQ(curve("three"), curve("asked")) << "asked for two processes";
  EXPECT_EQ(answers("other"), answers("cache"));
}

TEST_F(Taught, ModelsLearnAsMuchFromAllTokensThatAreKept) {
  const auto tokens = read_json(path("teacher/config.json")).at("vocab_size").dump();
  call("run").ended(0);
  call("run", {"run.dir=kept", "task.teacher.top_k=" + tokens}).ended(0);
  call("run", {"run.dir=few", "task.teacher.top_k=2"}).ended(0);
  const auto live = read_json_lines(path("run/metrics.jsonl")),
             kept = read_json_lines(path("kept/metrics.jsonl"));
  for (size_t i = 0; i < live.size(); ++i)
    for (const char* figure : {"loss", "divergence", "cross_entropy"})
      EXPECT_NEAR(kept.at(i).at(figure).get<double>(), live.at(i).at(figure).get<double>(), 1e-5);
  EXPECT_LT(read_json_lines(path("few/metrics.jsonl")).at(0).at("divergence").get<double>(),
            live.at(0).at("divergence").get<double>());
  EXPECT_THAT(call("run", {"run.dir=many", "task.teacher.top_k=1000"}).ended(2).err,
              HasSubstr("task.teacher.top_k = 1000: must be at most " + tokens));
}

TEST_F(Taught, ModelsGoOnAfterATeacherWasKilledAsItWasAsked) {
  std::string many;
  for (int i = 0; i < 300; ++i) many += read_text(path("chat.jsonl"));
  write_text(path("many.jsonl"), many);
  const Words with{"task.data.train=many.jsonl", "task.teacher.top_k=8"};
  Process process = start("run", with);
  ASSERT_TRUE(eventually([&] { return !files_of("cache", ".teacher.part").empty(); }));
  process.signal(SIGKILL);
  process.wait();
  EXPECT_THAT(files_of("cache", ".teacher"), testing::IsEmpty());
  call("run", with).ended(0);
  call("run", with + Words{"run.dir=whole", "run.cache_dir=other"}).ended(0);
  EXPECT_EQ(curve("run"), curve("whole"));
  EXPECT_EQ(answers("cache"), answers("other"));
}

TEST_F(Taught, TasksOfTextsKeepWhatATeacherSays) {
  const std::string train = R"([task.data]
train = "chat.jsonl"
val = "chat.jsonl"
test = "chat.jsonl"
)";
  write_text(path("train.toml"), reproducible_run("summarization") + R"(tokenizer.path = "teacher"
language = { hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 4, max_position_embeddings = 96 }
sequence = { max_tokens = 64, max_summary_tokens = 16 }
generate.max_tokens = 6
teacher = { init_from = "teacher", top_k = 8 }
)" + train + "document_column = \"prompt\"\nsummary_column = \"completion\"\n" +
                                     kShortTraining);
  call("run", {"run.dir=all", "task.sequence.loss=all"}).ended(0);
  EXPECT_THAT(call("run").ended(0).out, Not(HasSubstr("not asked again"))) << "at other targets";
  write_text(path("train.toml"), reproducible_run("pretraining") + R"(tokenizer.path = "teacher"
language = { hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 4, max_position_embeddings = 96 }
sequence.max_tokens = 32
generate = { prompt_tokens = 8, max_tokens = 6 }
teacher = { init_from = "teacher", top_k = 8 }
)" + train + "text_column = \"prompt\"\n" +
                                     kShortTraining);
  call("run", {"run.dir=blocks"}).ended(0);
}

TEST_F(Taught, ByAModelWithOtherTokensIsRefused) {
  EXPECT_THAT(call("run", {"run.dir=other", "task.tokenizer.vocab_size=262", "task.tokenizer.path=\"\""})
                  .ended(2)
                  .err,
              HasSubstr("task.teacher.init_from"));
  EXPECT_THAT(call("check", {"task.teacher.init_from=\"\""}).ended(2).err,
              HasSubstr("is of no use without a teacher"));
  EXPECT_THAT(call("run", {"run.dir=new", "task.teacher.init_from=nowhere"}).ended(2).err,
              HasSubstr("nowhere"));
}

}  // namespace
}  // namespace pipeline::tests
