// The labels task as a user runs it, with a model of a few thousand parameters.
#include <cmath>
#include <filesystem>
#include <map>

#include <gmock/gmock.h>

#include "tests/e2e/same_run.hpp"

namespace pipeline::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kRun =
    reproducible_run("labels") + R"(data = { train = "train.jsonl", val = "train.jsonl", test = "test.jsonl" }
tokenizer.vocab_size = 280
sequence.max_tokens = 32
)";
const std::string kLanguage =
    R"(language = { hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2, max_position_embeddings = 64 }
)";
const std::string kEncoder =
    R"(family = "encoder"
encoder = { hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 4, intermediate_size = 32, max_position_embeddings = 64 }
)";

// A text says which animal makes a noise, and how often.
class TextLabels : public testing::Test, public Job {
 protected:
  TextLabels() {
    for (const char* file : {"train.jsonl", "test.jsonl"}) write_text(path(file), records(0));
    use(kLanguage);
  }
  void use(const std::string& model) { write_text(path("train.toml"), kRun + model + kShortTraining); }
  // from: the number of the first class.
  static std::string records(int from) {
    const std::vector<std::string> animals{"cat", "dog", "cow"};
    std::string all;
    for (int i = 0; i < 48; ++i) {
      const auto animal = static_cast<size_t>(i % 3);
      const int times = i % 5 + 1;
      all += "{\"id\": \"" + std::to_string(i) + "\", \"text\": \"the " + animals[animal] + " cries " +
             std::to_string(times) + " times\", \"label\": \"" + animals[animal] +
             "\", \"number\": " + std::to_string(animal + static_cast<size_t>(from)) +
             ", \"times\": " + std::to_string(times) + ".5, \"both\": [\"" + animals[animal] + "\"" +
             (times > 3 ? ", \"loud\"" : "") + "]}\n";
    }
    return all;
  }
  std::map<std::string, double> evaluated(const Words& sets) {
    call("evaluate", Words{"--split", "test"} + sets).ended(0);
    return read_json(path("run/evaluation-test.json")).at("figures").get<std::map<std::string, double>>();
  }
};

const Words kLonger{"train.max_steps=60", "optimizer.lr=1e-2"};

TEST_F(TextLabels, OfOneClassAreLearntAndExported) {
  EXPECT_THAT(call("run", kLonger).ended(0).out,
              AllOf(HasSubstr("48 training, 48 validation, 48 test texts"),
                    HasSubstr("labels     3 classes: \"cat\", \"cow\", \"dog\"")));
  auto figures = evaluated(kLonger);
  EXPECT_GT(figures["accuracy"], 0.9);
  EXPECT_LE(figures["accuracy_low"], figures["accuracy"]);
  EXPECT_NEAR(figures["majority_accuracy"], 1.0 / 3, 1e-6);
  EXPECT_GT(figures["auroc"], 0.95);
  EXPECT_TRUE(std::filesystem::exists(path("run/evaluation-test-files/confusion.svg")));
  EXPECT_LT(figures["calibration_error"], 0.3);
  call("predict", kLonger).ended(0);
  const std::vector<std::string> rows = read_lines(path("run/submission.csv"));
  EXPECT_EQ(rows.at(0), "id,text,prediction,p_cat,p_cow,p_dog,label");
  EXPECT_EQ(rows.size(), 49u);
  EXPECT_THAT(rows.at(1), testing::StartsWith("0,the cat cries 1 times,cat,0."));
  call("export", Words{"--output", "folder"} + kLonger).ended(0);
  const auto config = read_json(path("folder/config.json"));
  EXPECT_EQ(config.at("architectures").at(0), "LlamaForSequenceClassification");
  EXPECT_EQ(config.at("id2label").at("1"), "cow");
  EXPECT_TRUE(config.at("pad_token_id").is_number());
  // The folder says all that its predictions need.
  write_text(path("folder.toml"), "[task]\nplugin = \"labels\"\ndata.test = \"test.jsonl\"\n");
  pipeline({"predict", "folder.toml", "--checkpoint", "folder", "--set", "run.dir=again", "--set",
            "run.device=cpu"})
      .ended(0);
  EXPECT_EQ(read_text(path("again/submission.csv")), read_text(path("run/submission.csv")));
  EXPECT_THAT(call("run", {"task.plugin=pretraining", "train.init_from=folder", "run.dir=next"}).ended(2).err,
              HasSubstr("the folder's head is not a language model's"));
}

TEST_F(TextLabels, MayBeSeveralOrNumbers) {
  const Words several{"task.objective=multi_label", "task.label.column=both"};
  call("run", several + kLonger).ended(0);
  auto figures = evaluated(several + kLonger);
  EXPECT_GT(figures["micro_f1"], 0.8);
  EXPECT_GT(figures["exact_match"], 0.5);
  call("predict", several + kLonger).ended(0);
  EXPECT_EQ(read_lines(path("run/submission.csv")).at(0),
            "id,text,prediction,p_cat,p_cow,p_dog,p_loud,label");

  const Words numbers{"task.objective=regression", "task.label.column=times", "--fresh"};
  call("run", numbers + kLonger).ended(0);
  figures = evaluated(
      {"task.objective=regression", "task.label.column=times", "train.max_steps=60", "optimizer.lr=1e-2"});
  EXPECT_GT(figures["spearman"], 0.9);
  EXPECT_LT(figures["rmse"], figures["mean_rmse"] / 2);
}

TEST_F(TextLabels, MayBeTagsOfWords) {
  std::string tagged;
  const std::vector<std::string> names{"Ann", "Bob", "Carl Orff", "Di"};
  for (int i = 0; i < 48; ++i) {
    const std::string& name = names[static_cast<size_t>(i % 4)];
    const bool is_long = name.find(' ') != std::string::npos;
    const std::string words = is_long ? R"("Carl", "Orff")" : "\"" + name + "\"";
    tagged += R"({"tokens": ["so", ",", )" + words + R"(, "sees", "it"], "tags": ["O", "O", "B-PER")" +
              (is_long ? R"(, "I-PER")" : "") + (i % 6 == 0 ? R"(, "-100", "O"]})" : R"(, "O", "O"]})") +
              "\n";
  }
  for (const char* file : {"train.jsonl", "test.jsonl"}) write_text(path(file), tagged);
  const Words tags{"task.objective=tags", "task.data.text_column=tokens", "task.label.column=tags"};
  EXPECT_THAT(call("run", tags + kLonger).ended(0).out, HasSubstr("3 classes: \"B-PER\", \"I-PER\", \"O\""));
  auto figures = evaluated(tags + kLonger);
  EXPECT_GT(figures["entity_f1"], 0.9);
  EXPECT_LE(figures["entity_f1_low"], figures["entity_f1"]);
  EXPECT_GT(figures["accuracy"], 0.9);
  call("predict", tags + kLonger).ended(0);
  EXPECT_EQ(read_lines(path("run/submission.csv")).at(3),
            "3,\"so , Carl Orff sees it\",O O B-PER I-PER O O,O O B-PER I-PER O O");
  const std::vector<std::string> rows = read_lines(path("run/submission-files/labels.csv"));
  EXPECT_EQ(rows.at(0), "id,word,prediction,p_B-PER,p_I-PER,p_O,label");
  EXPECT_EQ(rows.size(), 1u + 48 * 5 + 12);
  EXPECT_THAT(rows.at(2), testing::StartsWith("1,\",\",O,0."));
  call("export", Words{"--output", "folder"} + tags + kLonger).ended(0);
  EXPECT_EQ(read_json(path("folder/config.json")).at("architectures").at(0), "LlamaForTokenClassification");
  write_text(path("train.jsonl"), R"({"tokens": "so it is", "tags": ["O", "O"]})"
                                  "\n");
  EXPECT_THAT(call("run", tags + Words{"run.dir=bad"}).ended(2).err,
              HasSubstr("record 1 has 3 words in column \"tokens\" and 2 labels in column \"tags\""));
}

// Of two texts, of which the second tells it; the folder says all that its predictions need.
TEST_F(TextLabels, AreLearntByEncoders) {
  use(kEncoder);
  std::string all;
  for (int i = 0; i < 48; ++i)
    all += R"({"text": "the animal )" + std::to_string(i % 7) + R"(", "other": "it )" +
           (i % 2 == 0 ? "meows" : "barks") + R"(", "label": ")" + (i % 2 == 0 ? "cat" : "dog") + "\"}\n";
  for (const char* file : {"train.jsonl", "test.jsonl"}) write_text(path(file), all);
  const Words sets = Words{"task.data.pair_column=other"} + kLonger;
  call("run", sets).ended(0);
  EXPECT_GT(evaluated(sets)["accuracy"], 0.9);
  call("predict", sets).ended(0);
  call("export", Words{"--output", "folder"} + sets).ended(0);
  EXPECT_EQ(read_json(path("folder/config.json")).at("architectures").at(0), "BertForSequenceClassification");
  write_text(path("folder.toml"),
             "[task]\nplugin = \"labels\"\ndata = { test = \"test.jsonl\", pair_column = \"other\" }\n");
  pipeline({"predict", "folder.toml", "--checkpoint", "folder", "--set", "run.dir=again", "--set",
            "run.device=cpu"})
      .ended(0);
  EXPECT_EQ(read_text(path("again/submission.csv")), read_text(path("run/submission.csv")));
  EXPECT_THAT(
      call("run", {"train.init_from=folder", "run.dir=next", "task.data.pair_column=other"}).ended(0).out,
      testing::Not(HasSubstr("is new")));
  // A head that the folder names is there, or missed.
  std::string weights = read_text(path("folder/model.safetensors"));
  weights.replace(weights.find("\"classifier.bias"), 2, "\"C");
  write_text(path("folder/model.safetensors"), weights);
  EXPECT_THAT(call("run", {"train.init_from=folder", "run.dir=lacks", "task.data.pair_column=other"}).err,
              HasSubstr("classifier.bias"));
  EXPECT_THAT(call("check", {"task.language.lora.rank=8"}).ended(2).err,
              HasSubstr("task.language.lora.rank=8: is of no use with task.family = \"encoder\""));
  EXPECT_THAT(call("check", {"task.sequence.max_tokens=65"}).ended(2).err,
              HasSubstr("must be at most 64, as task.encoder.max_position_embeddings = 64 makes it"));
}

TEST_F(TextLabels, HaveTheSameBitsByAnEncoderOnTwoProcesses) {
  use(kEncoder);
  call("run").ended(0);
  call("run", Arrangement{"sharded3", 2}.sets() + Words{"run.dir=two"}).ended(0);
  EXPECT_EQ(curve("two"), curve("run"));
}

TEST_F(TextLabels, HaveTheSameBitsUnderEveryStrategyAndAfterAKill) { expect_the_same_run_everywhere(*this); }

TEST_F(TextLabels, ThatAreNumbersCountTheClassesOfTheModel) {
  call("run").ended(0);
  call("export", {"--output", "folder"}).ended(0);
  EXPECT_THAT(
      call("run", {"train.init_from=folder", "run.dir=next", "task.label.column=number"}).ended(0).out,
      AllOf(HasSubstr("3 classes: \"cat\", \"cow\", \"dog\""), testing::Not(HasSubstr("is new"))));
  write_text(path("train.jsonl"), records(7));
  EXPECT_THAT(
      call("run", {"train.init_from=folder", "run.dir=more", "task.label.column=number"}).ended(2).err,
      HasSubstr("the data has also \"7\", \"8\", \"9\", and the model \"cat\", \"cow\", \"dog\""));
}

TEST_F(TextLabels, MayCountAlikeForEachClass) {
  std::string rare;
  for (int i = 0; i < 8; ++i)
    rare += R"({"text": "the )" + std::string(i < 6 ? "cat" : "dog") + R"( cries", "label": ")" +
            (i < 6 ? "cat" : "dog") + "\"}\n";
  for (const char* file : {"train.jsonl", "test.jsonl"}) write_text(path(file), rare);
  // Nothing is learnt, so that the step's loss is that of the predictions.
  const Words sets{"task.label.class_weights=balanced", "train.max_steps=1", "optimizer.lr=1e-12",
                   "evaluate.every=0"};
  call("run", sets).ended(0);
  call("predict", sets).ended(0);
  const std::vector<std::string> rows = read_lines(path("run/submission.csv"));
  ASSERT_EQ(rows.at(0), "id,text,prediction,p_cat,p_dog,label");
  std::map<std::string, double> sums;
  for (size_t i = 1; i < rows.size(); ++i) {
    const std::string label = rows[i].substr(rows[i].rfind(',') + 1);
    std::vector<std::string> fields{""};
    for (const char c : rows[i])
      if (c == ',')
        fields.emplace_back();
      else
        fields.back() += c;
    sums[label] -= std::log(std::stod(fields.at(label == "cat" ? 3 : 4)));
  }
  EXPECT_NEAR(read_json_lines(path("run/metrics.jsonl")).front().at("loss").get<double>(),
              (sums["cat"] / 6 + sums["dog"] / 2) / 2, 1e-5);
  EXPECT_THAT(call("check", {"task.objective=regression", "task.label.class_weights=balanced"}).ended(2).err,
              HasSubstr("is of no use"));
}

TEST_F(TextLabels, ThatCannotBeLearntAreNamed) {
  EXPECT_THAT(call("run", {"task.objective=regression"}).ended(2).err,
              HasSubstr("record 0: \"cat\" in column \"label\" is no number"));
  EXPECT_THAT(call("run", {"task.label.column=kind"}).code, testing::Ne(0));
  EXPECT_THAT(call("check", {"task.label.column=text"}).ended(2).err,
              HasSubstr("is the column of task.data.text_column"));
  write_text(path("test.jsonl"), R"({"text": "the cat cries"})"
                                 "\n");
  call("run", {"run.dir=run"}).ended(0);
  EXPECT_THAT(call("evaluate", {"--split", "test"}).code, testing::Ne(0));
  call("predict").ended(0);
  EXPECT_THAT(read_lines(path("run/submission.csv")).at(1), testing::EndsWith(","));
}

// What looks like labels of the kind that is asked for, and is none.
TEST_F(TextLabels, OfAnotherKindAreRefused) {
  const auto refused = [&](const std::string& label, const Words& more) {
    std::string all;
    for (int i = 0; i < 16; ++i)
      all += "{\"text\": \"text " + std::to_string(i) + "\", \"label\": " +
             (i % 2 == 0 ? label.substr(0, label.find('|')) : label.substr(label.find('|') + 1)) + "}\n";
    write_text(path("train.jsonl"), all);
    return call("run", Words{"run.dir=refused", "--fresh"} + more).ended(2).err;
  };
  EXPECT_THAT(refused("0.5|1.5", {}), HasSubstr("set task.objective = \"regression\""));
  EXPECT_THAT(refused("[0, 1]|[1, 0]", {"task.objective=multi_label"}),
              HasSubstr("a 0 and a 1 in each list"));
  EXPECT_THAT(refused("[0, 1, 0]|[1, 0, 0]", {"task.objective=multi_label"}),
              HasSubstr("\"0,1,0\" in column \"label\" names \"0\" twice"));
  EXPECT_THAT(refused("\"a\"|\"b\"", {"task.data.pair_column=other"}), HasSubstr("no \"other\""));
  EXPECT_THAT(refused("\"a\"|\"b\"", {"task.data.val=test.jsonl"}),
              HasSubstr("has classes that are not in the training data: \"cat\""));
  EXPECT_THAT(refused("0|1", {"task.label.classes=[\"1\", \"2\"]", "task.data.val=train.jsonl"}),
              HasSubstr("the data has also \"0\""))
      << "numbers are names where names are numbers";
}

TEST_F(TextLabels, AreThoseThatTheWeightsHaveLearnt) {
  call("run").ended(0);
  EXPECT_THAT(call("evaluate", {"task.objective=multi_label", "task.label.column=both"}).ended(2).err,
              HasSubstr("the weights have learnt \"classification\""));
  EXPECT_THAT(call("predict", {"task.label.classes=[\"dog\", \"cow\", \"cat\"]"}).ended(2).err,
              HasSubstr("in this order"));
  // A folder without names takes any; an unknown label is no obstacle to a prediction.
  call("export", {"--output", "folder"}).ended(0);
  std::string config = read_text(path("folder/config.json"));
  for (const auto& [name, plain] :
       {std::pair("\"cat\"", "\"LABEL_0\""), {"\"cow\"", "\"LABEL_1\""}, {"\"dog\"", "\"LABEL_2\""}})
    for (size_t at = config.find(name); at != std::string::npos; at = config.find(name))
      config.replace(at, std::string(name).size(), plain);
  write_text(path("folder/config.json"), config);
  write_text(path("test.jsonl"), R"({"text": "the cat cries 3 times", "label": "bird"})"
                                 "\n");
  write_text(path("folder.toml"),
             "[task]\nplugin = \"labels\"\ndata.test = \"test.jsonl\"\n"
             "label.classes = [\"first\", \"second\", \"third\"]\n");
  pipeline({"predict", "folder.toml", "--checkpoint", "folder", "--set", "run.device=cpu", "--output",
            "named.csv"})
      .ended(0);
  EXPECT_EQ(read_lines(path("named.csv")).at(0), "id,text,prediction,p_first,p_second,p_third,label");
}

TEST_F(TextLabels, AreLearntByAdaptersOfALanguageModel) {
  write_text(path("texts.txt"), "the cat cries\nthe dog cries\nthe cow cries 3 times\n");
  write_text(
      path("base.toml"),
      "[run]\ndir = \"base-run\"\ndevice = \"cpu\"\n[task]\nplugin = \"pretraining\"\ndata = { train = "
      "\"texts.txt\", document = \"line\" }\ntokenizer.vocab_size = 270\nsequence.max_tokens = "
      "16\ngenerate = { max_tokens = 4, prompt_tokens = 4 }\nlanguage = { hidden_size = 16, "
      "num_hidden_layers = 2, num_attention_heads = 4, max_position_embeddings = 64, "
      "tie_word_embeddings = false }\n[train]\nmax_steps = 2\nglobal_batch = 2\n");
  pipeline({"run", "base.toml"}).ended(0);
  pipeline({"export", "base.toml", "--output", "base"}).ended(0);
  const Words lora{"train.init_from=base", "task.language.lora.rank=4", "task.language.lora.targets=[\"*\"]"};
  write_text(path("train.toml"),
             "[run]\ndir = \"run\"\ndevice = \"cpu\"\n[task]\nplugin = \"labels\"\ndata = { "
             "train = \"train.jsonl\", val = \"train.jsonl\", test = \"test.jsonl\" }\n" +
                 std::string(kShortTraining));
  EXPECT_THAT(call("run", lora).ended(0).out, HasSubstr("the head for labels (score) is new"));
  call("predict", lora).ended(0);
  call("export", lora + Words{"--output", "adapter"}).ended(0);
  EXPECT_EQ(read_json(path("adapter/adapter_config.json")).at("task_type"), "SEQ_CLS");
  write_text(path("again.toml"),
             "[run]\ndir = \"again\"\ndevice = \"cpu\"\n[task]\nplugin = \"labels\"\ndata.test = "
             "\"test.jsonl\"\nlanguage.lora.init_from = \"adapter\"\n");
  pipeline({"predict", "again.toml", "--checkpoint", "base"}).ended(0);
  EXPECT_EQ(read_text(path("again/submission.csv")), read_text(path("run/submission.csv")));
  EXPECT_THAT(pipeline({"predict", "again.toml", "--checkpoint", "base", "--set", "run.dir=none", "--set",
                        "task.language.lora.init_from=\"\"", "--set",
                        "task.label.classes=[\"cat\", \"cow\", \"dog\"]"})
                  .ended(2)
                  .err,
              HasSubstr("base: has no head for labels"));
}

}  // namespace
}  // namespace pipeline::tests
