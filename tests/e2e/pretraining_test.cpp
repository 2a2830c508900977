// The pretraining task as a user runs it, on a folder of texts, with a model of a few thousand parameters.
#include <filesystem>

#include <gmock/gmock.h>

#include "tests/e2e/same_run.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

const std::string kConfig =
    reproducible_run("pretraining") +
    R"(language = { hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2, max_position_embeddings = 64 }
tokenizer.vocab_size = 300
sequence.max_tokens = 40
generate = { max_tokens = 6, prompt_tokens = 8 }
[task.data]
val = "val.jsonl"
test = "val.jsonl"
document = "paragraph"
)";
constexpr const char* kBooks = "train = \"books\"\n";

class Pretraining : public testing::Test, public Job {
 protected:
  Pretraining() {
    write_text(path("train.toml"), kConfig + kBooks + kShortTraining);
    fs::create_directories(path("books/old"));
    write_text(path("books/a.txt"), text(0, 60));
    write_text(path("books/old/b.md"), text(100, 40));
    write_text(path("val.jsonl"),
               "{\"text\": \"200 is followed by 201.\"}\n{\"text\": \"210 is followed by 211.\"}\n");
  }
  // Paragraphs of one to three lines.
  static std::string text(int first, int count) {
    std::string all;
    for (int i = first; i < first + count; ++i)
      all += std::to_string(i) + " is followed by " + std::to_string(i + 1) + (i % 3 == 0 ? ".\n\n" : ",\n");
    return all;
  }
};

TEST_F(Pretraining, TrainsEvaluatesContinuesAndExports) {
  const Result run = call("run").ended(0);
  EXPECT_THAT(run.out, AllOf(HasSubstr(" training, 1 validation, 1 test blocks"),
                             HasSubstr("in blocks of 40"), HasSubstr("written: ")));
  call("evaluate", {"--split", "test"}).ended(0);
  EXPECT_TRUE(read_json(path("run/evaluation-test.json")).at("figures").contains("perplexity"));
  call("predict").ended(0);
  EXPECT_THAT(read_lines(path("run/submission.csv")).at(1), HasSubstr("200 is"));
  call("predict", {"--prompt", "7 is followed"}).ended(0);
  EXPECT_THAT(read_lines(path("run/asked.csv")).at(1), testing::StartsWith("prompt@0,7 is followed,"));
  // What is exported goes on with other texts, and with other tasks.
  call("export", {"--output", "exported"}).ended(0);
  write_text(
      path("more.toml"),
      "[run]\ndir = \"more\"\ncache_dir = \"cache\"\ndevice = \"cpu\"\n[task]\nplugin = \"pretraining\"\n"
      "data.train = \"val.jsonl\"\n[train]\ninit_from = \"exported\"\nglobal_batch = 1\nmax_steps = 2\n");
  pipeline({"run", "more.toml"}).ended(0);
}

TEST_F(Pretraining, HasTheSameBitsUnderEveryStrategyAndAfterAKill) { expect_the_same_run_everywhere(*this); }

// A block's losses are those of its documents by themselves.
TEST_F(Pretraining, DocumentsOfABlockDoNotSeeOneAnother) {
  call("run").ended(0);
  const auto loss_of = [&](const std::string& test) {
    call("evaluate", {"--split", "test", "task.data.test=" + test, "--output", "of.json"}).ended(0);
    return read_json(path("of.json")).at("figures").at("loss").get<double>();
  };
  write_text(path("one.jsonl"), "{\"text\": \"10 is followed by 11.\"}\n");
  write_text(path("three.jsonl"),
             "{\"text\": \"10 is followed by 11.\"}\n{\"text\": \"10 is followed by 11.\"}\n"
             "{\"text\": \"10 is followed by 11.\"}\n");
  EXPECT_NEAR(loss_of("one.jsonl"), loss_of("three.jsonl"), 1e-6);
}

TEST_F(Pretraining, SeveralSourcesHaveTheirOwnLosses) {
  write_text(path("mixed.toml"), kConfig +
                                     "[[task.data.source]]\npath = \"books/a.txt\"\nweight = 2\n"
                                     "[[task.data.source]]\npath = \"books/old\"\nweight = 1\n" +
                                     kShortTraining);
  pipeline({"run", "mixed.toml", "--set", "run.dir=mixed"}).ended(0);
  const auto step = read_json_lines(path("mixed/metrics.jsonl")).front();
  EXPECT_TRUE(step.contains("loss/a.txt") && step.contains("loss/old")) << step.dump();
  EXPECT_EQ(step.at("samples/a.txt").get<double>() + step.at("samples/old").get<double>(), 8) << step.dump();
}

TEST_F(Pretraining, UnusableInputIsNamed) {
  EXPECT_THAT(call("run", {"task.data.train=gone"}).ended(2).err, HasSubstr("gone"));
  EXPECT_THAT(call("run", {"task.data.train=books/a.txt", "task.data.document=file", "task.data.val=\"\"",
                           "task.data.validation_share=0.5"})
                  .ended(2)
                  .err,
              HasSubstr("blocks (whole documents, see task.data.document) is held out"));
  EXPECT_THAT(call("run", {"task.data.train=val.jsonl", "task.data.text_column=body"}).ended(2).err,
              HasSubstr("body"));
  write_text(path("latin.txt"), "caf\xe9");
  EXPECT_THAT(call("run", {"task.data.train=latin.txt"}).ended(2).err, HasSubstr("iconv -f CP1252"));
}

}  // namespace
}  // namespace pipeline::tests
