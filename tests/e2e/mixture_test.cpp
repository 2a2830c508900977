// Several sources of data, mixed: as a user has them, stopped within an epoch and continued elsewhere.
#include <filesystem>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/e2e/same_run.hpp"

namespace pipeline::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string kTask = reproducible_run("chat") + R"(data.val = "facts/1.jsonl"
data.test = "facts/*.jsonl"
tokenizer.vocab_size = 300
language = { architecture = "llama", hidden_size = 16, num_hidden_layers = 1, num_attention_heads = 2, max_position_embeddings = 96 }
chat.max_tokens = 80
generate = { max_tokens = 6, validate_samples = 4 }
[[task.data.source]]
name = "facts"
path = "facts"
weight = 1
[[task.data.source]]
name = "sums"
path = "sums.jsonl"
weight = 1.5
)";

std::string records(const std::string& about, int first, int count) {
  std::string text;
  for (int i = first; i < first + count; ++i)
    text += json{{"prompt", about + " " + std::to_string(i)}, {"completion", std::to_string(i * 7)}}.dump() +
            "\n";
  return text;
}

class MixtureJob : public Job {
 public:
  MixtureJob() {
    std::filesystem::create_directory(path("facts"));
    write_text(path("facts/1.jsonl"), records("fact", 0, 20));
    write_text(path("facts/2.jsonl"), records("other fact", 0, 23));
    write_text(path("sums.jsonl"), records("sum", 0, 12));
    write_text(path("train.toml"), kTask + kShortTraining);
  }
  // The value of this key for every step, as written; "-" where it has none.
  std::vector<std::string> values(const std::string& run, const std::string& key) const {
    std::vector<std::string> all;
    for (const auto& step : read_json_lines(path(run + "/metrics.jsonl"))) {
      all.push_back(step.contains(key) ? step[key].dump() : "-");
    }
    return all;
  }
};

class MixtureRun : public SameRunOf<MixtureJob> {};

// 12 steps of 8 samples: an epoch has 55 samples, 22 and 33.
TEST_F(MixtureRun, HasTheSameSamplesWhereverItIsContinued) {
  train({"single", 1});
  for (const Arrangement& next : {Arrangement{"ddp", 2}, Arrangement{"sharded3", 2}}) {
    const std::string dir = "stopped_" + next.name();
    train({"single", 1}, {"train.max_steps=5"}, dir);
    train(next, {"--change", "train.max_steps=12"}, dir);
    EXPECT_EQ(curve(dir), curve("single_1"));
    for (const char* key : {"loss/facts", "loss/sums", "samples/facts", "samples/sums"})
      EXPECT_EQ(values(dir, key), values("single_1", key)) << key;
  }
}

TEST_F(MixtureRun, TellsOfEachSource) {
  const Result run = call("run").ended(0);
  EXPECT_THAT(run.out + run.err,
              HasSubstr("sums: 33 of 55 samples of an epoch (60.0%), its 12 records 2.75 times each"));
  double facts = 0, sums = 0;
  for (const auto& step : read_json_lines(path("run/metrics.jsonl"))) {
    const double of_facts = step.value("samples/facts", 0.0), of_sums = step.value("samples/sums", 0.0);
    EXPECT_EQ(of_facts + of_sums, step["samples"].get<double>());
    facts += of_facts;
    sums += of_sums;
    const double loss = step["loss"];
    if (of_facts > 0 && of_sums > 0) {
      const double first = step["loss/facts"], second = step["loss/sums"];
      EXPECT_LE(std::min(first, second), loss + 1e-6);
      EXPECT_GE(std::max(first, second), loss - 1e-6);
    }
  }
  EXPECT_GT(facts, 0);
  EXPECT_NEAR(sums / (facts + sums), 0.6, 0.06);
  call("predict").ended(0);
  EXPECT_THAT(read_text(path("run/submission.csv")), HasSubstr("2.jsonl:23,"));
}

// A step of one sample has one source, whose loss is the step's.
TEST_F(MixtureRun, ALossOfASourceIsThatOfItsSamples) {
  call("run", {"train.global_batch=1", "train.micro_batch=1"}).ended(0);
  std::map<std::string, int> steps;
  for (const std::string& line : read_lines(path("run/metrics.jsonl"))) {
    const json step = json::parse(line);
    const std::string name = step["samples/facts"] == 1 ? "facts" : "sums";
    ++steps[name];
    EXPECT_NEAR(step["loss/" + name].get<double>(), step["loss"].get<double>(), 1e-6);
    EXPECT_FALSE(step.contains(name == "facts" ? "loss/sums" : "loss/facts")) << line;
  }
  EXPECT_THAT(steps, testing::SizeIs(2));
}

TEST_F(MixtureRun, ALossOfASourceHasNoTerms) {
  call("run", {"train.global_batch=1", "train.micro_batch=1", "task.loss.z_loss=0.01"}).ended(0);
  ASSERT_FALSE(read_lines(path("run/metrics.jsonl")).empty());
  for (const auto& step : read_json_lines(path("run/metrics.jsonl"))) {
    const double plain = step["cross_entropy"];
    EXPECT_NEAR(step[step.contains("loss/facts") ? "loss/facts" : "loss/sums"].get<double>(), plain, 1e-6);
    EXPECT_GT(step["loss"].get<double>(), plain + 0.1);
  }
}

TEST_F(MixtureRun, MistakesAreNamed) {
  const auto problem = [&](const std::string& from, const std::string& to) {
    std::string text = kTask + kShortTraining;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    write_text(path("train.toml"), text.replace(at, from.size(), to));
    return call("check").err;
  };
  EXPECT_THAT(problem("weight = 1.5\n", ""),
              HasSubstr("train.toml:18: [[task.data.source]] number 2 lacks weight, unlike number 1: all "
                        "must have the same keys"));
  EXPECT_THAT(problem("weight = 1.5", "weight = 0"), HasSubstr("element 2 out of range: must be above 0"));
  EXPECT_THAT(problem("weight = 1.5", "weight = \"a\""), HasSubstr("task.data.source.weight"));
  EXPECT_THAT(problem("name = \"sums\"", "name = \"facts\""), HasSubstr("two sources are called \"facts\""));
  EXPECT_THAT(problem("weight = 1.5", "wieght = 1.5"),
              HasSubstr("number 2 has wieght, and lacks weight, unlike number 1"));
  EXPECT_THAT(problem("name = \"sums\"", "name = \"a/b\""), HasSubstr("\"a/b\" must be a word for figures"));
  const std::string first = kTask.substr(kTask.find("[[task.data.source]]\nname = \"sums"));
  EXPECT_THAT(problem(first, ""), HasSubstr("there is one source, which is all of an epoch"));
  EXPECT_THAT(problem("data.val", "data.train = \"x.jsonl\"\ndata.val"),
              HasSubstr("[[task.data.source]] names files for the same: leave one of the two out"));
}

}  // namespace
}  // namespace pipeline::tests
