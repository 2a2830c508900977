// The embedding task as a user runs it, with a model of a few thousand parameters.
#include <cmath>
#include <filesystem>
#include <map>

#include <gmock/gmock.h>

#include "core/safetensors/file.hpp"
#include "tests/e2e/same_run.hpp"

namespace pipeline::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kRun = reproducible_run("embedding") +
                         R"(data = { train = "train.jsonl", val = "train.jsonl", test = "test.jsonl" }
tokenizer.vocab_size = 280
text.max_tokens = 40
)";
const std::string kEncoder =
    R"(model = { hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 4, intermediate_size = 32, max_position_embeddings = 48, hidden_dropout = 0.0, attention_dropout = 0.0 }
)";
const std::string kDecoder = R"(family = "language"
language = { hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 4, max_position_embeddings = 48, lora.rank = 2 }
)";

const std::vector<std::string> kAnimals{"cat", "dog", "cow", "hen", "pig", "bee"};
const std::vector<std::string> kNoises{"meows", "barks", "moos", "clucks", "grunts", "hums"};

// A text names an animal, and the one that belongs to it has its noise, as often as the first says.
std::string pairs(int count, bool are_scored = false) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    const auto animal = static_cast<size_t>(i % 6), other = static_cast<size_t>((i + i / 6) % 6);
    const std::string times = std::to_string(i / 6);
    all += R"({"id": "p)" + std::to_string(i) + R"(", "anchor": "a )" + kAnimals[animal] + " " + times +
           R"(", "positive": "it )" + kNoises[are_scored ? other : animal] + " " + times +
           R"( times", "negatives": ["it )" + kNoises[(animal + 1) % 6] + " " + times +
           R"(", "it\nsings"], "score": )" + (animal == other ? "5" : "0.5") + "}\n";
  }
  return all;
}

class EmbeddingRun : public testing::Test, public Job {
 protected:
  EmbeddingRun() {
    write_text(path("train.jsonl"), pairs(48));
    write_text(path("test.jsonl"), pairs(48));
    write_text(path("train.toml"), kRun + kEncoder + kShortTraining);
  }
  std::map<std::string, double> evaluated(const Words& sets) {
    call("evaluate", Words{"--split", "test"} + sets).ended(0);
    return read_json(path("run/evaluation-test.json")).at("figures").get<std::map<std::string, double>>();
  }
  // The vectors of a prediction, (samples, width), as the file has them.
  std::vector<float> vectors(const std::string& run) {
    const auto file =
        safetensors::File::open(path(run + "/submission-files/embeddings.safetensors").string());
    const auto bytes = file.at("embeddings").data;
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
};

const Words kLonger{"train.max_steps=60", "optimizer.lr=1e-2"};

TEST_F(EmbeddingRun, LearnsEvaluatesPredictsAndExports) {
  EXPECT_THAT(call("run", kLonger).ended(0).out, HasSubstr("48 training, 48 validation, 48 test samples"));
  auto figures = evaluated(kLonger);
  EXPECT_GT(figures["accuracy"], 0.6);
  EXPECT_GT(figures["ndcg_10"], 0.4);
  EXPECT_LE(figures["ndcg_10_low"], figures["ndcg_10"]);
  EXPECT_LE(figures["recall_1"], figures["recall_10"]);
  call("predict", kLonger).ended(0);
  EXPECT_EQ(read_lines(path("run/submission.csv")).at(1), "p0,a cat 0");
  const std::vector<float> ours = vectors("run");
  ASSERT_EQ(ours.size(), 48u * 16);
  double length = 0;
  for (size_t i = 0; i < 16; ++i) length += static_cast<double>(ours[i]) * static_cast<double>(ours[i]);
  EXPECT_NEAR(length, 1, 1e-5);
  call("export", Words{"--output", "folder"} + kLonger).ended(0);
  EXPECT_EQ(read_json(path("folder/config.json")).at("architectures").at(0), "BertModel");
  EXPECT_EQ(read_json(path("folder/modules.json")).size(), 3u);
  EXPECT_EQ(read_json(path("folder/sentence_bert_config.json")).at("max_seq_length"), 40);
  // A tokenizer that was trained here says in a folder what ends a text, and what pads it.
  EXPECT_EQ(read_json(path("folder/tokenizer.json")).at("post_processor").at("type"), "Sequence");
  EXPECT_EQ(read_json(path("folder/tokenizer_config.json")).at("pad_token"), "<|endoftext|>");
  // The folder says all that its predictions need.
  write_text(path("folder.toml"), "[task]\nplugin = \"embedding\"\ndata.test = \"test.jsonl\"\n");
  pipeline({"predict", "folder.toml", "--checkpoint", "folder", "--set", "run.dir=again", "--set",
            "run.device=cpu"})
      .ended(0);
  EXPECT_EQ(vectors("again"), ours);
}

// What stands twice in the data counts once.
TEST_F(EmbeddingRun, CountsEqualPairsOnce) {
  call("run").ended(0);
  const auto recall = [&](const std::string& texts) {
    write_text(path("test.jsonl"), texts);
    auto figures = evaluated({});
    EXPECT_EQ(figures["recall_100"], 1);
    return figures["ndcg_10"];
  };
  const double once = recall(pairs(12));
  EXPECT_EQ(recall(pairs(12) + pairs(12)), once);
}

TEST_F(EmbeddingRun, HasTheSameBitsUnderEveryStrategyAndAfterAKill) { expect_the_same_run_everywhere(*this); }

// The global batch counts, and not how it is cut; with drawn negatives, two widths and both directions.
TEST_F(EmbeddingRun, LoraOfADecoderHasTheSameBitsWhereItsLayersAreSharded) {
  write_text(path("train.toml"), kRun + kDecoder + kShortTraining);
  call("run").ended(0);
  const Arrangement sharded{"sharded3", 2};
  call("run", sharded.sets() + Words{"run.dir=sharded"}).ended(0);
  EXPECT_EQ(curve("sharded"), curve("run"));
  EXPECT_THAT(call("export", {"--output", "folder"}).ended(0).out,
              HasSubstr("LoRA is merged into the model"));
  EXPECT_EQ(read_json(path("folder/config.json")).at("architectures").at(0), "LlamaModel");
  EXPECT_TRUE(read_json(path("folder/1_Pooling/config.json")).at("pooling_mode_lasttoken"));
  // Of a text without tokens there is a vector, too.
  std::filesystem::create_directories(path("beir/qrels"));
  write_text(path("beir/corpus.jsonl"), R"({"_id": "blank", "text": " "})"
                                        "\n"
                                        R"({"_id": "cat", "text": "it meows"})"
                                        "\n");
  write_text(path("beir/queries.jsonl"), R"({"_id": "q", "text": "a cat"})");
  write_text(path("beir/qrels/test.tsv"), "query-id\tcorpus-id\tscore\nq\tcat\t1\n");
  EXPECT_EQ(evaluated({"task.data.test=beir"})["recall_10"], 1);
  EXPECT_THAT(call("check", {"task.model.kind=bert"}).ended(2).err,
              HasSubstr("task.model.kind=bert: is of no use with task.family = \"language\""));
}

TEST_F(EmbeddingRun, LearnsFromTheGlobalBatch) {
  const Words sets{"task.data.negative_column=negatives", "task.loss.symmetric=true",
                   "task.loss.matryoshka=[16, 8]", "task.model.projection_dim=16"};
  call("run", sets).ended(0);
  const auto losses = [&](const std::string& run) {
    std::vector<double> all;
    for (const auto& step : read_json_lines(path(run + "/metrics.jsonl")))
      all.insert(all.end(), {step.at("loss"), step.at("grad_norm")});
    return all;
  };
  const std::vector<double> cut = losses("run");
  call("run", sets + Words{"train.micro_batch=8", "run.dir=whole"}).ended(0);
  const std::vector<double> whole = losses("whole");
  ASSERT_EQ(cut.size(), whole.size());
  for (size_t i = 0; i < cut.size(); ++i) EXPECT_NEAR(cut[i] / whole[i], 1, 1e-4) << i;
  call("run", {"run.dir=without"}).ended(0);
  EXPECT_LT(losses("without").front(), cut.front()) << "negatives make it harder";
}

TEST_F(EmbeddingRun, LearnsScores) {
  for (const char* file : {"train.jsonl", "test.jsonl"}) write_text(path(file), pairs(48, true));
  const Words sets{"task.objective=similarity", "task.data.query_column=anchor",
                   "task.data.positive_column=positive"};
  call("run", sets + kLonger).ended(0);
  auto figures = evaluated(sets + kLonger);
  EXPECT_GT(figures["spearman"], 0.4);
  EXPECT_LE(figures["spearman_low"], figures["spearman"]);
  write_text(path("train.jsonl"), R"({"anchor": "a", "positive": "b", "score": "high"})"
                                  "\n");
  EXPECT_THAT(call("run", sets + Words{"run.dir=bad"}).ended(2).err,
              HasSubstr("record 1: \"high\" in column \"score\" is no number"));
  write_text(path("test.jsonl"), pairs(12, true) + R"({"anchor": "no", "positive": "score"})"
                                                   "\n");
  EXPECT_THAT(call("evaluate", Words{"--split", "test"} + sets + kLonger).ended(0).out,
              HasSubstr("evaluated  12 of the 13 records"));
}

// Queries are judged with all documents, also those that answer none, and a query is no answer to itself.
TEST_F(EmbeddingRun, IsJudgedByACollection) {
  std::filesystem::create_directories(path("beir/qrels"));
  std::string corpus, queries, judged = "query-id\tcorpus-id\tscore\n";
  for (int i = 0; i < 12; ++i) {
    const std::string number = std::to_string(i);
    corpus += R"({"_id": "d)" + number + R"(", "title": ")" + (i % 2 == 0 ? "it" : "") + R"(", "text": ")" +
              kNoises[static_cast<size_t>(i % 6)] + " " + number + R"( times"})" + "\n";
    if (i >= 6) continue;
    queries += R"({"_id": "q)" + number + R"(", "text": "a )" + kAnimals[static_cast<size_t>(i)] + "\"}\n";
    if (i < 5)
      judged += "q" + number + "\td" + number + "\t1\nq" + number + "\td" + std::to_string(i + 6) + "\t2\n";
  }
  corpus += R"({"_id": "q0", "text": "a cat"})"
            "\n";  // the same name as a query
  write_text(path("beir/corpus.jsonl"), corpus);
  write_text(path("beir/queries.jsonl"), queries);
  write_text(path("beir/qrels/test.tsv"), judged);
  const Words sets{"task.data.test=beir"};
  EXPECT_THAT(call("run", sets + kLonger).ended(0).out, HasSubstr("5 queries of test, 13 documents"));
  const Result judgement = call("evaluate", Words{"--split", "test"} + sets + kLonger).ended(0);
  EXPECT_THAT(judgement.out, HasSubstr("5 queries among 13 texts"));
  auto figures = evaluated(sets + kLonger);
  EXPECT_GT(figures["recall_10"], 0.3);
  EXPECT_EQ(figures["recall_100"], 1);
  EXPECT_THAT(call("run", sets + Words{"task.data.val=beir", "evaluate.max_samples=4", "run.dir=part"}).code,
              testing::Ne(0));
  std::filesystem::copy_file(path("beir/qrels/test.tsv"), path("beir/qrels/dev.tsv"));
  EXPECT_THAT(
      call("run", sets + Words{"task.data.val=beir", "evaluate.max_samples=8", "run.dir=part"}).ended(0).out,
      HasSubstr("it is judged whole, with evaluate.max_samples = 0"));
  std::filesystem::rename(path("beir/qrels/test.tsv"), path("beir/qrels/other.tsv"));
  EXPECT_THAT(call("run", sets + Words{"run.dir=bad"}).ended(2).err,
              HasSubstr("qrels/test.tsv: is not there"));
}

TEST_F(EmbeddingRun, NamesWhatCannotBeLearnt) {
  const auto problem = [&](const Words& sets) { return call("check", sets).ended(2).err; };
  EXPECT_THAT(problem({"task.text.max_tokens=49"}), HasSubstr("must be at most 48"));
  EXPECT_THAT(problem({"task.loss.matryoshka=[32]"}), HasSubstr("must be from 1 to the vectors' width (16)"));
  EXPECT_THAT(problem({"task.model.num_attention_heads=3"}), HasSubstr("must divide task.model.hidden_size"));
  EXPECT_THAT(problem({"task.data.positive_column=anchor"}), HasSubstr("is task.data.query_column, too"));
  EXPECT_THAT(problem({"task.objective=similarity", "task.loss.symmetric=true"}), HasSubstr("is of no use"));
  EXPECT_THAT(problem({"task.data.negatives=2"}),
              HasSubstr("is of no use without task.data.negative_column"));
  EXPECT_THAT(problem({"task.predict.formats=[]"}), HasSubstr("must have a format"));
  EXPECT_THAT(call("run", {"task.data.positive_column=answer"}).ended(2).err, HasSubstr("answer"));
  EXPECT_THAT(call("run", {"task.data.negative_column=wrong"}).ended(2).err,
              HasSubstr("no record has a text in column \"wrong\""));
  write_text(path("train.jsonl"), R"({"anchor": "a", "positive": []}
{"anchor": "a", "positive": ["b", "c"]}
)");
  EXPECT_THAT(call("run", {"train.global_batch=1", "train.micro_batch=1", "train.max_steps=1"}).ended(0).out,
              HasSubstr("1 record of train.jsonl left out, without a text in column \"positive\""));
}

}  // namespace
}  // namespace pipeline::tests
