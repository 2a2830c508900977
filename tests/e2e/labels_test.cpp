// Labels of proteins as a user learns them: from tables and from structures, all of a model or parts of it.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include <gmock/gmock.h>

#include "core/safetensors/file.hpp"
#include "tests/e2e/protein_job.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kLetters = "ACDEFGHIKLMNPQRSTVWY";
// Kyte and Doolittle 1982, in the order of the letters.
constexpr double kHydropathy[] = {1.8, 2.5,  -3.5, -3.5, 2.8,  -0.4, -3.2, 4.5, -3.9, 3.8,
                                  1.9, -3.5, -1.6, -3.5, -4.5, -0.8, -0.7, 4.2, -0.9, -1.3};

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields{""};
  for (const char c : line) {
    if (c == ',')
      fields.emplace_back();
    else
      fields.back() += c;
  }
  return fields;
}

double figure(const fs::path& run, const char* name) {
  return read_json(run / "evaluation-test.json")["figures"][name].get<double>();
}

// A deep mutational scan by a formula: mutants of one protein, and how stable each is, some 20 of mean 50.
class Labels : public testing::Test, public Job {
 protected:
  static constexpr int kMutants = 240;

  Labels() {
    std::string wild, table = "id,sequence,split,stability,place,sites,kind\n";
    uint64_t seed = 1;
    const auto draw = [&](uint64_t count) {
      seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
      return (seed >> 33) % count;
    };
    while (wild.size() < 36) wild += kLetters[draw(20)];
    for (int i = 0; i < kMutants; ++i) {
      std::string letters = wild, sites;
      for (int k = 0; k < 6; ++k) letters[draw(wild.size())] = kLetters[draw(20)];
      double stability = 0;
      for (const char letter : letters) {
        const double one = kHydropathy[kLetters.find(letter)];
        stability += one;
        sites += letter == 'W' ? '?' : one > 0 ? 'b' : 'e';
      }
      if (i % 5 > 1) learnt_.push_back(50 + stability);
      table += "m" + std::to_string(i) + "," + letters + "," +
               (i % 5 == 0   ? "test"
                : i % 5 == 1 ? "val"
                             : "train") +
               "," + std::to_string(50 + stability) + "," + (stability > 0 ? "membrane" : "cytosol") + "," +
               sites + ",enzyme\n";
    }
    write_text(path("scan.csv"), table + "none," + wild + ",train,,,,\nodd," + wild + "A,train,high,,bb,\n");
    write_text(path("train.toml"), reproducible_run("protein") + R"(model = "esm2"
sequences = "scan.csv"
split.by = "column"
esm2 = { num_layers = 2, hidden_dim = 16, num_heads = 2 }
)" + std::string(kShortTraining));
  }

  // The standard deviation of the training data's stability.
  double deviation() const {
    double sum = 0, squares = 0, count = 0;
    for (const double one : learnt_) sum += one, squares += one * one, count += 1;
    return std::sqrt((squares - sum * sum / count) / (count - 1));
  }

  std::vector<double> learnt_;
};

const Words kStability{"task.objective=regression", "task.label.column=stability"};
const Words kPlace{"task.objective=classification", "task.label.column=place"};
const Words kSites{"task.objective=classification", "task.label.column=sites", "task.label.per=residue"};

TEST_F(Labels, NumbersOfAScanAreLearnt) {
  const Words settings = kStability + Words{"train.max_steps=150", "evaluate.every=50", "optimizer.lr=5e-3"};
  const Result trained = call("run", settings).ended(0);
  EXPECT_THAT(
      trained.out,
      AllOf(HasSubstr("left out   2 sequences without a label: none (nothing in column \"stability\"), odd "
                      "(\"high\" in column \"stability\" is no number, or too large a one)"),
            HasSubstr("labels     numbers, learnt as (number - "), HasSubstr("  spearman 0.")));
  EXPECT_THAT(read_text(path("run/splits.csv")), HasSubstr("odd,,,no label,37\n"));
  EXPECT_THAT(call("evaluate", settings).ended(0).out, HasSubstr("(the training data's mean: "));
  EXPECT_GT(figure(path("run"), "spearman_low"), 0.5);
  EXPECT_LT(figure(path("run"), "rmse"), 0.8 * figure(path("run"), "mean_rmse"));
  EXPECT_NEAR(figure(path("run"), "loss"), std::pow(figure(path("run"), "rmse") / deviation(), 2), 1e-4);

  call("predict", settings).ended(0);
  const auto lines = read_lines(path("run/submission.csv"));
  EXPECT_EQ(lines.front(), "id,residues,known,prediction,label");
  ASSERT_EQ(lines.size(), 1u + kMutants / 5);
  double error = 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    const auto fields = fields_of(lines[i]);
    error += std::pow(std::stod(fields.at(3)) - std::stod(fields.at(4)), 2) / (kMutants / 5.0);
  }
  EXPECT_NEAR(std::sqrt(error), figure(path("run"), "rmse"), 1e-3);

  // An exported folder has numbers as they are, and the run that begins with it the same figures.
  call("export", settings).ended(0);
  const json config = read_json(path("run/export/config.json"));
  EXPECT_EQ(config["architectures"], json({"EsmForSequenceClassification"}));
  EXPECT_EQ(config["problem_type"], "regression");
  write_text(path("some.fasta"), ">m0\n" + fields_of(read_lines(path("scan.csv")).at(1)).at(1) + "\n");
  const Result folder = pipeline({"predict", "run/export", "task.test_path=some.fasta", "task.plugin=protein",
                                  "run.device=cpu", "--output", "folder.csv"})
                            .ended(0);
  // A folder does not say what it was trained with.
  const Result judged =
      pipeline({"evaluate", "run/export", "task.test_path=scan.csv", "task.label.column=stability",
                "task.plugin=protein", "run.device=cpu", "run.cache_dir=cache"})
          .ended(0);
  EXPECT_THAT(judged.out, AllOf(HasSubstr("Spearman 0."), Not(HasSubstr("the training data's mean"))));
  EXPECT_NEAR(std::stod(fields_of(read_lines(path("folder.csv")).at(1)).at(3)),
              std::stod(fields_of(lines.at(1)).at(3)), 1e-3);
}

TEST_F(Labels, WhatIsSmallBesideTheMeanIsNotLost) {
  std::string table;
  for (const std::string& line : read_lines(path("scan.csv"))) {
    auto fields = fields_of(line);
    char* end = nullptr;
    if (const double value = std::strtod(fields.at(3).c_str(), &end);
        end != fields.at(3).c_str() && *end == '\0')
      fields.at(3) = std::to_string(1234567 + value / 100);
    for (size_t i = 0; i < fields.size(); ++i) table += (i > 0 ? "," : "") + fields[i];
    table += "\n";
  }
  write_text(path("far.csv"), table);
  for (const auto& settings : {kStability, kStability + Words{"task.sequences=far.csv", "run.dir=far"}}) {
    call("run", settings).ended(0);
    call("evaluate", settings).ended(0);
  }
  EXPECT_NEAR(figure(path("far"), "spearman"), figure(path("run"), "spearman"), 1e-3);
  EXPECT_NEAR(figure(path("far"), "rmse") * 100, figure(path("run"), "rmse"), 1e-2);
  EXPECT_NEAR(figure(path("far"), "mean_rmse") * 100, figure(path("run"), "mean_rmse"), 1e-3);
}

TEST_F(Labels, AreLearntAlikeOnAnyNumberOfProcesses) {
  for (const auto& [name, settings] : {std::pair("numbers", kStability), {"sites", kSites}}) {
    const std::string run = name, three = run + "-three", chain = run + "-chain";
    const Words one = settings + Words{"run.dir=" + run, "task.esm2.hidden_dropout=0.1"};
    call("run", one).ended(0);
    const Words on_three = one + Words{"run.dir=" + three, "launch.processes=3", "strategy.plugin=sharded",
                                       "strategy.zero_stage=3", "backend.plugin=shm"};
    call("run", on_three).ended(0);
    EXPECT_EQ(curve(three), curve(run));
    call("run", one + Words{"run.dir=" + chain, "train.max_steps=5"}).ended(0);
    call("run", on_three + Words{"run.dir=" + chain}).ended(0);
    EXPECT_EQ(curve(chain), curve(run));
    for (const std::string& dir : {run, three}) call("evaluate", one + Words{"run.dir=" + dir}).ended(0);
    EXPECT_EQ(read_json(path(three + "/evaluation-test.json"))["figures"],
              read_json(path(run + "/evaluation-test.json"))["figures"]);
  }
}

TEST_F(Labels, APretrainedModelLearnsThemAsAWholeOrInParts) {
  call("run").ended(0);
  call("run", kPlace + Words{"run.dir=narrow", "train.precision=bf16"}).ended(0);
  const auto tensors = [&](const std::string& folder) {
    std::map<std::string, std::string> values;
    const auto files = safetensors::Folder::open(path(folder).string());
    for (const std::string& name : files.names()) {
      const auto& data = files.at(name).data;
      values[name].assign(reinterpret_cast<const char*>(data.data()), data.size());
    }
    return values;
  };
  const auto learn = [&](const std::string& run, const Words& more) {
    const Words settings = kPlace + Words{"run.dir=" + run, "train.init_from=run"} + more;
    const Result trained = call("run", settings).ended(0);
    call("export", settings).ended(0);
    return trained.out;
  };
  EXPECT_THAT(learn("frozen", {"task.freeze=[\"esm.*\"]"}),
              AllOf(HasSubstr("classifier.dense.weight, classifier.dense.bias"),
                    HasSubstr("lm_head.dense.weight"), HasSubstr("2 classes: \"cytosol\", \"membrane\"")));
  const auto held_out = [&](const std::string& run) {
    std::map<std::string, std::string> split_of;
    for (const std::string& line : read_lines(path(run + "/splits.csv")))
      if (const auto fields = fields_of(line); !fields.at(2).empty()) split_of[fields.at(0)] = fields.at(2);
    return split_of;
  };
  auto without = held_out("run");
  without.erase("none"), without.erase("odd");
  EXPECT_EQ(held_out("frozen"), without) << "what has no label changes nothing for the others";
  call("export", {"--output", "base"}).ended(0);
  const auto base = tensors("base");
  ASSERT_GT(tensors("frozen/export").size(), 10u);
  for (const auto& [name, value] : tensors("frozen/export")) {
    if (name.starts_with("classifier.")) continue;
    EXPECT_EQ(value, base.at(name)) << name;
  }
  const json config = read_json(path("frozen/export/config.json"));
  EXPECT_EQ(config["id2label"], json({{"0", "cytosol"}, {"1", "membrane"}}));

  // LoRA is exported with the head, as PEFT's folder to the model that was pretrained.
  learn("lora", {"task.esm2.lora.rank=2", "task.esm2.lora.base_model=base"});
  const json adapter = read_json(path("lora/export/adapter_config.json"));
  EXPECT_THAT(adapter["modules_to_save"], ElementsAre("classifier.dense", "classifier.out_proj"));
  const auto predicted = [&](const Words& more, const std::string& output) {
    call("predict", kPlace + more + Words{"--output", output}).ended(0);
    return read_lines(path(output));
  };
  EXPECT_EQ(predicted({"--checkpoint", "base", "task.esm2.lora.init_from=lora/export"}, "adapter.csv"),
            predicted({"run.dir=lora", "task.esm2.lora.rank=2"}, "lora.csv"));

  // What was not trained is not predicted.
  EXPECT_THAT(call("predict", kPlace + Words{"--checkpoint", "base"}).ended(2).err,
              HasSubstr("needs a head for labels, which base does not have: train one with train.init_from"));
}

TEST_F(Labels, HeadsComeBackWithAdapters) {
  for (const std::string model : {"esm2", "esmc"}) {
    const std::string sizes = "task.esmc={ num_layers = 2, hidden_dim = 16, num_heads = 2 }";
    const auto with = [&](const Words& command, Words settings) {
      settings.push_back("task.model=" + model);
      if (model == "esmc") settings.push_back(sizes);
      pipeline(command + settings).ended(0);
    };
    if (model == "esmc") {
      std::string text = read_text(path("train.toml"));
      const size_t begin = text.find("model = "), end = text.find("[optimizer]");
      text.replace(begin, end - begin, "sequences = \"scan.csv\"\nsplit.by = \"column\"\n");
      write_text(path("train.toml"), text);
    }
    const std::string base = model + "-base";
    with({"run", "train.toml"}, {"run.dir=" + base, "train.max_steps=1"});
    with({"export", "train.toml", "--output", base + "-folder"}, {"run.dir=" + base});
    for (const auto& [name, settings] : {std::pair("numbers", kStability), {"sites", kSites}}) {
      const std::string run = model + "-" + name, lora = "task." + model + ".lora.";
      auto learns = settings, exports = settings, adapts = settings;
      for (auto* const all : {&learns, &exports})
        all->insert(all->end(), {"run.dir=" + run, "train.init_from=" + base, lora + "rank=2"});
      learns.emplace_back("train.max_steps=3");
      exports.push_back(lora + "base_model=" + base + "-folder");
      adapts.push_back(lora + "init_from=" + run + "/export");
      with({"run", "train.toml"}, learns);
      with({"export", "train.toml"}, exports);
      with({"predict", "train.toml", "--output", run + ".csv"}, exports);
      with({"predict", "train.toml", "--checkpoint", base + "-folder", "--output", run + "-again.csv"},
           adapts);
      // The adapter's folder alone says model, labels and classes.
      const std::string letters = fields_of(read_lines(path("scan.csv")).at(1)).at(1);
      write_text(path("one.fasta"), ">m0\n" + letters + "\n");
      const Result alone = pipeline({"predict", run + "/export", "task.test_path=one.fasta",
                                     "task.plugin=protein", "run.device=cpu", "--output", run + "-alone.csv"})
                               .ended(0);
      const auto ours = read_lines(path(run + ".csv")), again = read_lines(path(run + "-again.csv"));
      ASSERT_EQ(ours.size(), again.size());
      const auto expect_same = [&, is_text = name == std::string("sites")](const std::string& a,
                                                                           const std::string& b) {
        const std::string one = fields_of(a).at(3), other = fields_of(b).at(3);
        if (is_text) {
          EXPECT_EQ(one, other) << a;
        } else {
          EXPECT_NEAR(std::stod(one), std::stod(other), 1e-3) << a;
        }
      };
      for (size_t i = 1; i < ours.size(); ++i) expect_same(ours[i], again[i]);
      expect_same(ours.at(1), read_lines(path(run + "-alone.csv")).at(1));
    }
  }
}

TEST_F(Labels, WhatCannotBeIsRefusedByName) {
  const auto problem = [&](Words settings) { return call("run", settings).ended(2).err; };
  EXPECT_THAT(problem({"task.objective=regression"}),
              HasSubstr("none of 242 sequences has a label (task.label): there is no column \"label\" "
                        "(task.label.column)"));
  EXPECT_THAT(problem({"task.objective=regression", "task.label.column=place"}),
              HasSubstr("in column \"place\" is no number"));
  EXPECT_THAT(problem({"task.objective=classification", "task.label.column=kind"}),
              HasSubstr("the data has 1 class, enzyme: must be 2 to 1000"));
  EXPECT_THAT(problem({"task.label.column=place"}),
              HasSubstr("task.label.column=place: is of no use with task.objective = \"masked\""));
  EXPECT_THAT(problem({"task.objective=contacts"}),
              HasSubstr("none of 242 sequences has a label (task.label): m0: no backbone"));
  EXPECT_THAT(problem({"task.objective=classification", "task.label.source=secondary_structure"}),
              HasSubstr("needs task.objective = \"classification\" and task.label.per = \"residue\""));
  EXPECT_THAT(problem({"task.objective=classification", "task.label.column=split"}),
              HasSubstr("is the column of task.data.split_column: labels need one of their own"));
  Words frozen = kPlace;
  frozen.emplace_back("task.freeze=[\"encoder.*\"]");
  EXPECT_THAT(problem(frozen),
              HasSubstr("\"encoder.*\" matches no parameter; there are classifier.*, esm.*"));
  Words twice = kPlace;
  twice.emplace_back("task.label.classes=[\"cytosol\", \"membrane\", \"cytosol\"]");
  EXPECT_THAT(problem(twice), HasSubstr("has \"cytosol\" twice"));
  Words named = kPlace;
  named.emplace_back("task.label.classes=[\"cytosol\", \"nucleus\"]");
  EXPECT_THAT(problem(named),
              HasSubstr("the data has also \"membrane\", and the model \"cytosol\", \"nucleus\""));
}

class StructureLabels : public testing::Test, public SmallEsm2Job {};

TEST_F(StructureLabels, SecondaryStructureIsThatOfTheBackbone) {
  const Words settings{"task.objective=classification", "task.label.per=residue",
                       "task.label.source=secondary_structure"};
  call("run", settings).ended(0);
  call("evaluate", settings).ended(0);
  call("predict", settings).ended(0);
  const auto lines = read_lines(path("run/submission-files/labels.csv"));
  EXPECT_EQ(lines.front(), "id,chain,number,insertion,residue,prediction,p_H,p_E,p_C,label");
  std::map<std::string, std::string> right;  // the helices are ideal ones
  for (size_t i = 1; i < lines.size(); ++i) right[fields_of(lines[i]).at(0)] += fields_of(lines[i]).back();
  ASSERT_FALSE(right.empty());
  for (const auto& [name, states] : right) {
    EXPECT_EQ(states.substr(4, states.size() - 8), std::string(states.size() - 8, 'H'))
        << name << " " << states;
    EXPECT_EQ(states.front(), 'C');
    EXPECT_EQ(states.back(), 'C');
  }
  EXPECT_GT(figure(path("run"), "accuracy"), 0.8);
  EXPECT_TRUE(fs::exists(path("run/evaluation-test-files/confusion.svg")));
}

TEST_F(StructureLabels, ContactsAreLearntAlikeEverywhereAndDrawn) {
  const Words settings{"task.objective=contacts", "task.data.max_residues=512"};
  const auto with = [&](const Words& more) { return settings + more; };
  call("run", settings).ended(0);
  const Result three =
      call("run",
           with({"run.dir=three", "launch.processes=3", "strategy.plugin=sharded", "backend.plugin=shm"}))
          .ended(0);
  EXPECT_EQ(curve("three"), curve("run"));
  EXPECT_THAT(call("evaluate", settings).ended(0).out,
              HasSubstr("precision of the likeliest pairs at least 6 apart: L "));
  call("predict", settings).ended(0);
  const auto lines = read_lines(path("run/submission-files/contacts.csv"));
  EXPECT_EQ(
      lines.front(),
      "id,chain,number,insertion,residue,other_number,other_insertion,other_residue,probability,contact");
  // Nothing is in contact within an ideal helix but what is nearer than six positions.
  std::set<std::string> contacts;
  for (size_t i = 1; i < lines.size(); ++i) {
    const auto fields = fields_of(lines[i]);
    EXPECT_GE(std::stoi(fields.at(5)) - std::stoi(fields.at(2)), 6);
    contacts.insert(fields.back());
  }
  EXPECT_THAT(contacts, ElementsAre("0"));
  size_t pictures = 0;
  for (const auto& entry : fs::directory_iterator(path("run/submission-files")))
    pictures += entry.path().filename().string().ends_with("-contacts.svg") ? 1 : 0;
  EXPECT_EQ(pictures, read_lines(path("run/submission.csv")).size() - 1);
  // A sequence has no backbone, and its contacts can be predicted all the same.
  write_text(path("some.fasta"), ">one\nMKTAYIAKQRQISFVKSHFSRQLEERLG\n");
  call("predict", with({"task.test_path=some.fasta", "--output", "fasta.csv"})).ended(0);
  EXPECT_TRUE(read_lines(path("fasta-files/contacts.csv")).back().ends_with(","));
}

// Nothing can be computed of these weights, in any kind of label and report.
TEST_F(Labels, OfARuinedModelAreAnErrorWithSampleAndColumn) {
  for (Words label : {kStability, kPlace, kSites}) {
    label.insert(label.end(), {"run.dir=" + label.at(1) + std::to_string(label.size()), "optimizer.kind=sgd",
                               "optimizer.lr=1e30"});
    call("run", label + Words{"train.max_steps=1", "evaluate.every=0", "evaluate.at_end=false"}).ended(0);
    for (const char* verb : {"evaluate", "predict"}) {
      EXPECT_THAT(call(verb, label).ended(2).err,
                  HasSubstr("sample \"m0\": prediction is nan, must be a number"))
          << verb;
    }
  }
}

}  // namespace
}  // namespace pipeline::tests
