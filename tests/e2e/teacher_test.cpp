// A model that learns from a larger one, as a user runs it.
#include <filesystem>

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
    write_text(path("train.toml"),
               kRun + "tokenizer.path = \"teacher\"\n" + kModel +
                   "16 }\nteacher = { init_from = \"teacher\", weight = 0.7, beta = 0.5 }\n" +
                   kShortTraining);
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
