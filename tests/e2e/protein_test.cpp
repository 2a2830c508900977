// The protein task as a user runs it.
#include <cmath>
#include <filesystem>
#include <set>

#include <gmock/gmock.h>

#include "tests/e2e/protein_job.hpp"
#include "tests/e2e/same_run.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Protein : public testing::Test, public SmallProteinJob {};

TEST_F(Protein, TrainsEvaluatesPredictsAndExports) {
  const Result run = call("run").ended(0);
  EXPECT_THAT(run.out, HasSubstr("structures 24 in "));
  EXPECT_THAT(run.out, HasSubstr("ignored 1 file: .txt 1"));
  EXPECT_THAT(run.out + run.err, HasSubstr("broken.pdb"));
  const auto metrics = read_lines(path("run/metrics.jsonl"));
  ASSERT_EQ(metrics.size(), 12u);
  const auto first = nlohmann::json::parse(metrics.front());
  EXPECT_NEAR(first["loss"].get<double>(), std::log(20), 0.3) << "a fresh model knows nothing";
  EXPECT_EQ(first["padding"].get<double>(), 0);
  EXPECT_GT(first["mfu"].get<double>(), 0);
  EXPECT_THAT(call("evaluate").ended(0).out, HasSubstr("95% intervals over"));
  const auto figures = read_json(path("run/evaluation-test.json"))["figures"];
  EXPECT_NEAR(figures["perplexity"].get<double>(), std::exp(figures["loss"].get<double>()), 1e-9);
  EXPECT_LE(figures["accuracy_low"].get<double>(), figures["accuracy"].get<double>());
  EXPECT_GE(figures["accuracy_high"].get<double>(), figures["accuracy"].get<double>());
  EXPECT_THAT(read_text(path("run/evaluation-test-files/confusion.svg")), StartsWith("<svg "));

  call("predict").ended(0);
  const auto rows = read_lines(path("run/submission.csv"));
  ASSERT_GE(rows.size(), 3u);
  EXPECT_EQ(rows[0], "id,residues,known,recovery,perplexity,entropy");
  const std::string sample = rows[1].substr(0, rows[1].find(','));
  std::string file = sample;
  std::replace(file.begin(), file.end(), '/', '-');
  const auto residues = read_lines(path("run/submission-files/" + file + "-residues.csv"));
  EXPECT_EQ(residues[0], "chain,number,insertion,residue,probability,top1,p1,top2,p2,top3,p3,entropy");
  EXPECT_EQ(std::to_string(residues.size() - 1),
            rows[1].substr(sample.size() + 1, rows[1].find(',', sample.size() + 1) - sample.size() - 1));
  EXPECT_EQ(read_lines(path("run/submission-files/" + file + "-mutations.csv")).size(), residues.size());
  EXPECT_THAT(read_text(path("run/submission-files/" + file + "-mutations.svg")), StartsWith("<svg "));

  call("export").ended(0);
  // The exported folder is a start like any other.
  const Result again =
      call("run", {"run.dir=again", "train.init_from=run/export", "optimizer.lr=0.0", "train.max_steps=1"})
          .ended(0);
  EXPECT_LT(read_json_lines(path("again/metrics.jsonl")).front()["loss"].get<double>(),
            first["loss"].get<double>());
}

class Esm2 : public testing::Test, public SmallEsm2Job {};

TEST_F(Esm2, TrainsOnTheSameData) {
  const Result run = call("run").ended(0);
  EXPECT_NEAR(read_json_lines(path("run/metrics.jsonl")).front()["loss"].get<double>(), std::log(33), 0.5);
  call("evaluate").ended(0);
  call("export").ended(0);
  for (const char* file : {"config.json", "model.safetensors", "vocab.txt"})
    EXPECT_TRUE(fs::exists(path("run/export") / file)) << file;

  // The folder says which model it is, and of what sizes.
  write_text(path("train.toml"), protein_config(""));
  const Result again =
      call("run", {"run.dir=again", "train.init_from=run/export", "train.max_steps=1"}).ended(0);
  EXPECT_THAT(again.out, HasSubstr("from run/export/config.json: task.model = \"esm2\", "));
  EXPECT_THAT(again.out, HasSubstr("task.esm2.hidden_dim = 16"));
  // LoRA of it is a PEFT adapter, which another run begins with.
  const Result adapted = call("run", {"run.dir=adapted", "train.init_from=run/export",
                                      "task.esm2.lora.rank=2", "task.esm2.lora.dropout=0.1"})
                             .ended(0);
  call("export", {"run.dir=adapted", "--checkpoint", "last"}).ended(0);
  const auto config = read_json(path("adapted/export/adapter_config.json"));
  EXPECT_EQ(config["base_model_name_or_path"], "run/export");
  EXPECT_THAT(config["target_modules"], testing::ElementsAre("query", "value"));
  const Result begun =
      call("run", {"run.dir=begun", "train.init_from=run/export", "task.esm2.lora.init_from=adapted/export",
                   "optimizer.lr=0.0", "train.max_steps=1"})
          .ended(0);
  const auto loss_of = [&](const std::string& dir) {
    return read_json_lines(path(dir + "/eval.jsonl")).back()["loss"].get<double>();
  };
  EXPECT_EQ(loss_of("begun"), loss_of("adapted"));
  const Result other =
      call("check", {"run.dir=other", "train.init_from=run/export", "task.model=encoder-decoder"});
  EXPECT_THAT(other.err, HasSubstr("--set task.model=encoder-decoder: run/export/config.json has \"esm2\""));
}

class Esmc : public testing::Test, public SmallEsmcJob {};

TEST_F(Esmc, TrainsIsAdaptedAndItsFolderNeedsNoTraining) {
  const Result run = call("run").ended(0);
  const auto lines = read_lines(path("run/metrics.jsonl"));
  EXPECT_NEAR(nlohmann::json::parse(lines.front())["loss"].get<double>(), std::log(64), 0.5);
  EXPECT_LT(nlohmann::json::parse(lines.back())["loss"], nlohmann::json::parse(lines.front())["loss"]);
  call("export", {"--output", "model"}).ended(0);
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"})
    EXPECT_TRUE(fs::exists(path("model") / file)) << file;
  const std::string weights = read_text(path("model/model.safetensors"));

  // The folder stands for the whole configuration.
  const auto use = [&](const std::string& verb, const Words& more) {  // tests have others of its kind
    const Words model{verb, "model", "task.plugin=protein", "run.device=cpu", "run.cache_dir=cache"};
    return pipeline(model + more);
  };
  const Words data{"task.test_path=structures", "task.data.min_residues=10"};
  EXPECT_THAT(use("evaluate", data).ended(0).out, HasSubstr("task protein of model"));
  use("predict", data).ended(0);
  ASSERT_EQ(use("export", {"--output", "again"}).code, 0);
  EXPECT_EQ(read_text(path("again/model.safetensors")), weights);
  EXPECT_EQ(read_text(path("again/tokenizer.json")), read_text(path("model/tokenizer.json")));

  // LoRA of it is a PEFT adapter, which another run begins with.
  write_text(path("train.toml"), protein_config(""));
  const Result adapted = call("run", {"run.dir=adapted", "train.init_from=model", "task.esmc.lora.rank=2",
                                      "task.esmc.lora.targets=[\"q_proj\", \"mlp.*\"]"})
                             .ended(0);
  EXPECT_THAT(adapted.out, HasSubstr("from model/config.json: task.model = \"esmc\", "));
  EXPECT_THAT(adapted.out, HasSubstr("task.esmc.intermediate_dim = 40"));
  call("export", {"run.dir=adapted", "--checkpoint", "last"}).ended(0);
  const auto config = read_json(path("adapted/export/adapter_config.json"));
  EXPECT_EQ(config["base_model_name_or_path"], "model");
  EXPECT_THAT(config["target_modules"],
              testing::UnorderedElementsAre("q_proj", "gate_proj", "up_proj", "down_proj"));
  const Result begun =
      call("run", {"run.dir=begun", "train.init_from=model", "task.esmc.lora.init_from=adapted/export",
                   "optimizer.lr=0.0", "train.max_steps=1"})
          .ended(0);
  const auto loss_of = [&](const std::string& dir) {
    return read_json_lines(path(dir + "/eval.jsonl")).back()["loss"].get<double>();
  };
  EXPECT_EQ(loss_of("begun"), loss_of("adapted"));
  const Result other = call("check", {"run.dir=other", "train.init_from=model", "task.model=esm2"});
  EXPECT_THAT(other.err, HasSubstr("--set task.model=esm2: model/config.json has \"esmc\""));
}

void expect_low_precision_learns_alike(const Job& job, const Words& options) {
  const auto in = [&](const std::string& precision, const std::string& verb) {
    return job.call(verb, options + Words{"run.dir=" + precision, "train.precision=" + precision});
  };
  std::vector<double> losses;
  for (const std::string precision : {"fp32", "bf16"}) {
    const Result run = in(precision, "run");
    ASSERT_EQ(run.code, 0) << precision << run.out << run.err;
    losses.push_back(read_json_lines(job.path(precision + "/metrics.jsonl")).back()["loss"]);
  }
  EXPECT_NEAR(losses[1] / losses[0], 1, 0.03);
  EXPECT_EQ(in("bf16", "evaluate").code, 0);
}

TEST_F(Protein, LearnsAlikeInLowPrecision) {
  expect_low_precision_learns_alike(*this, {"task.distogram=0.3"});
}
TEST_F(Esm2, LearnsAlikeInLowPrecision) { expect_low_precision_learns_alike(*this, {}); }
TEST_F(Esmc, LearnsAlikeInLowPrecision) { expect_low_precision_learns_alike(*this, {}); }

TEST_F(Protein, OptionsOfTheOtherModelAreRefused) {
  EXPECT_THAT(call("check", {"task.model=esm2"}).ended(2).err,
              HasSubstr("hidden_dim = 16: is of no use with task.model = \"esm2\""));
  EXPECT_THAT(call("check", {"task.esm2.num_layers=3"}).ended(2).err,
              HasSubstr("task.esm2.num_layers=3: is of no use without task.model"));
  EXPECT_THAT(call("check", {"task.esmc.num_layers=3"}).ended(2).err,
              HasSubstr("task.esmc.num_layers=3: is of no use without task.model = \"esmc\""));
}

TEST_F(Protein, APathThatIsNotThereIsNamedWithItsKey) {
  EXPECT_THAT(call("run", {"task.pdb_path=nowhere"}).ended(2).err,
              HasSubstr("task.pdb_path=nowhere: there is no such folder or file"));
}

TEST_F(Protein, FoldsBeyondTheClustersAreSaidToBeEmpty) {
  const Result run = call("run", {"task.split.folds=500", "train.max_steps=1"}).ended(0);
  EXPECT_THAT(run.out, HasSubstr("warning: task.split.folds = 500: there are only "));
  const Result empty = call("run", {"task.split.folds=500", "task.split.fold=400", "run.dir=empty"}).ended(2);
  EXPECT_THAT(empty.err, HasSubstr("task protein has no validation data"));
}

TEST_F(Protein, HiddenDistancesArePredictedByOption) {
  const Result run = call("run", {"task.distogram=0.3", "task.data.unit=structure", "task.data.crop=spatial",
                                  "task.mask.span=3"})
                         .ended(0);
  EXPECT_THAT(run.out, HasSubstr(" structures of "));
  EXPECT_NEAR(read_json_lines(path("run/metrics.jsonl")).front()["loss"].get<double>(),
              std::log(20) + 0.3 * std::log(32), 0.3);
  const auto figures = read_json_lines(path("run/eval.jsonl")).front();
  EXPECT_LT(figures["distance_loss"].get<double>(), std::log(32))
      << "in these helices half of the distances are far";
  call("predict", {"task.distogram=0.3", "task.data.unit=structure"}).ended(0);
}

TEST_F(Protein, StructuresAreParsedOnceAndChangesAreNoticed) {
  call("run", {"train.max_steps=2"}).ended(0);
  const auto cache = [&] {
    for (const auto& entry : fs::directory_iterator(path("cache")))
      if (entry.path().extension() == ".cache") return read_text(entry.path());
    return std::string();
  };
  const std::string parsed = cache();
  EXPECT_GT(parsed.size(), 24u * 24 * 48) << "48 bytes a residue";
  call("evaluate").ended(0);
  EXPECT_EQ(cache(), parsed) << "nothing was parsed again";
  write_text(path("structures/new.pdb"), helix(made_up_sequence(40, 999), 'A') + "END\n");
  const Result changed = call("run", {"train.max_steps=4"});
  EXPECT_NE(changed.code, 0) << "the run went on with other data";
  EXPECT_THAT(changed.err, HasSubstr("the data is not what this run began with"));
  EXPECT_GT(cache().size(), parsed.size());
  fs::remove(path("structures/new.pdb"));
  call("run", {"train.max_steps=4"}).ended(0);
}

TEST_F(Protein, StructuresAndCacheMayBeInOneFolder) {
  const Words together{"task.cache_dir=structures"};
  call("run", together).ended(0);
  const Result second = call("evaluate", together).ended(0);
  EXPECT_THAT(second.out, HasSubstr("structures 24 in "));
  EXPECT_THAT(second.out, HasSubstr("ignored 1 file: .txt 1"));
}

TEST_F(Protein, TooManyUnusableFilesStopTheRunWithTheTable) {
  for (int i = 0; i < 30; ++i)
    write_text(path("structures/bad" + std::to_string(i) + ".pdb"),
               i % 2 == 0 ? "" : "HEADER nothing\nEND\n");
  const Result run = call("run").ended(2);
  EXPECT_THAT(run.err, HasSubstr("bad1.pdb"));
  EXPECT_THAT(run.err, HasSubstr("and 11 more"));
  call("run", {"task.data.max_unusable=0.9", "train.max_steps=1"}).ended(0);
}

// Two folds, and their evaluations added up.
class ProteinPool : public Protein {
 protected:
  ProteinPool() {
    write_text(path("train.toml"), config() + part(0, 0) + part(1, 1) + kAll);
    write_text(path("structures/odd.pdb"),
               helix(made_up_sequence(57, 500), 'A') + "END\n");  // so that folds differ in size
  }

  static constexpr const char* kAll = "[[stage]]\nname = \"all\"\nkind = \"pool\"\n";

  // The stages learn-N and test-N with this fold held out.
  static std::string part(int number, int fold) {
    const std::string name = "-" + std::to_string(number) + "\"\n",
                      split = "[stage.task.split]\nfold = " + std::to_string(fold) + "\n";
    return "[[stage]]\nname = \"learn" + name + split +  //
           "[[stage]]\nname = \"test" + name + "kind = \"evaluate\"\ninit_from = \"learn" + name + split;
  }
  Result run(const Words& more = {}) const { return call("run", more + Words{"train.max_steps=3"}); }
  nlohmann::json evaluation_of(const std::string& stage) const {
    return read_json(path("run/" + stage + "/evaluation-test.json"));
  }
  // [sum, weight]
  std::pair<double, double> loss_of(const std::string& stage) const {
    const auto sums = read_json(path("run/" + stage + "/evaluation-test-files/sums.json"));
    for (const auto& value : sums["values"])
      if (value[0] == "" && value[1] == "loss") return {value[2], value[3]};
    throw std::runtime_error(stage + " has no loss");
  }
};

TEST_F(ProteinPool, AddsUpItsParts) {
  run().ended(0);
  const auto a = loss_of("test-0"), b = loss_of("test-1");
  EXPECT_NE(a.second, b.second) << "parts of one size would say nothing of their weights";
  const auto first_part = evaluation_of("test-0"), second_part = evaluation_of("test-1"),
             all = evaluation_of("all");
  EXPECT_EQ(all["figures"]["loss"].get<double>(), (a.first + b.first) / (a.second + b.second));
  EXPECT_NE(first_part["figures"]["loss"], second_part["figures"]["loss"]);
  EXPECT_EQ(all["samples"].get<int>(), first_part["samples"].get<int>() + second_part["samples"].get<int>());
  EXPECT_THAT(run().out, HasSubstr("run/all is already finished"));

  // From here on there are no data; the stage needs none.
  fs::rename(path("structures"), path("elsewhere"));
  const std::string before = read_text(path("run/all/evaluation-test.json"));
  fs::remove(path("run/all/finished.txt"));
  const Result alone = run({"--stage", "all"}).ended(0);
  EXPECT_THAT(alone.out, HasSubstr("samples of 2 evaluations"));
  EXPECT_EQ(read_text(path("run/all/evaluation-test.json")), before);
  EXPECT_THAT(alone.out, Not(HasSubstr("other options")));
  const Result changed = run({"--stage", "all", "task.mask_ratio=0.2"});
  EXPECT_THAT(changed.out, HasSubstr("run/all was made with other options or evaluations: repeating it"));
  EXPECT_THAT(changed.out,
              HasSubstr("warning: run/test-0 was made with other options than the stage 'test-0' has now "
                        "(task.mask_ratio was 0.15 and is 0.2): run that stage again"));

  const fs::path sums = path("run/test-1/evaluation-test-files/sums.json");
  write_text(sums, read_text(sums).substr(1));
  const Result damaged = run({"--stage", "all"}).ended(1);
  EXPECT_THAT(damaged.err, HasSubstr("run/test-1/evaluation-test-files/sums.json: not valid JSON"));
  EXPECT_THAT(damaged.err, HasSubstr("run the stage 'test-1' again, with --stage test-1 --fresh"));
  fs::remove(path("run/test-1/finished.txt"));
  EXPECT_THAT(
      run({"--stage", "all"}).err,
      HasSubstr(
          "run/test-1: is not finished, so its evaluation cannot be pooled: run the stage 'test-1' first"));
}

TEST_F(ProteinPool, CountsNoPartTwice) {
  write_text(path("train.toml"), config() + part(0, 1) + part(1, 1) + kAll);
  const Result twice = run().ended(2);
  EXPECT_THAT(twice.err,
              HasSubstr("run/test-0/evaluation-test.json and run/test-1/evaluation-test.json both scored "));
  EXPECT_THAT(twice.err, HasSubstr("each part of the data may count only once"));
}

TEST_F(ProteinPool, AMistakeShowsBeforeAnythingIsTrained) {
  const std::string learn = "[[stage]]\nname = \"learn\"\n";
  const std::pair<std::string, const char*> mistakes[] = {
      {kAll, ": stage.kind = \"pool\": no stage before this one evaluates"},
      {learn + kAll, ": stage.kind = \"pool\": no stage before this one evaluates"},
      {part(0, 0) + kAll + "init_from = \"learn-0\"\n", ": stage.init_from = \"learn-0\": has no effect"},
      {part(0, 0) + part(1, 1) + "[stage.evaluate]\nsplit = \"val\"\n" + kAll,
       ": evaluate.split = \"val\": is of the stage 'test-1'"},
      {part(0, 0) + "[stage.evaluate]\nmax_samples = 5\n" + kAll,
       ": evaluate.max_samples = 5: may cut the stage 'test-0' short"}};
  for (const auto& [stages, problem] : mistakes) {
    write_text(path("train.toml"), config() + stages);
    for (const char* verb : {"check", "run"}) {
      const Result result = call(verb);
      EXPECT_EQ(result.code, 2) << verb << stages << result.out;
      EXPECT_THAT(result.err, testing::ContainsRegex("train.toml:[0-9]+: stage|train.toml:[0-9]+: evaluate"));
      EXPECT_THAT(result.err, HasSubstr(problem)) << verb;
    }
    EXPECT_FALSE(fs::exists(path("run")));
  }
}

// Structures of the user's own: one that was learnt from under another name, one like it, one that is held
// out, and one that is like none.
class OwnTestData : public Protein {
 protected:
  OwnTestData() {
    fs::create_directories(path("mine"));
    write_text(path("mine/other.pdb"), helix(made_up_sequence(40, 777), 'Q') + "END\n");
  }
  const Words mine{"task.test_path=mine"};
};

TEST_F(OwnTestData, ChangesNothingOfTheTraining) {
  call("run", {"run.dir=without"}).ended(0);
  const Result with = call("run", {"run.dir=with", "task.test_path=mine", "train.max_steps=6"}).ended(0);
  EXPECT_THAT(with.out, HasSubstr("the test part of task.pdb_path is held out all the same"));
  ASSERT_EQ(call("run", {"run.dir=with"}).code, 0) << "it may be set and unset in the middle";
  EXPECT_EQ(curve("with"), curve("without"));
}

TEST_F(OwnTestData, ThatIsNotThereIsAnErrorForEveryPurposeThatReadsData) {
  const Words nowhere{"task.test_path=nowhere"};
  const Result run = call("run", nowhere).ended(2);
  EXPECT_THAT(run.err, HasSubstr("task.test_path=nowhere: there is no such folder or file"));
  call("run", {"train.max_steps=1"}).ended(0);
  for (const char* verb : {"evaluate", "predict"}) {
    const Result used = call(verb, nowhere);
    EXPECT_EQ(used.code, 2) << verb;
    EXPECT_THAT(used.err, HasSubstr("task.test_path=nowhere: there is no such folder or file")) << verb;
  }
}

TEST_F(OwnTestData, OnlyAddsFiguresAndWhatWasLearntFromIsCounted) {
  call("run", {"train.max_steps=2"}).ended(0);
  std::set<std::string> held_out;  // structures of one chain, and those that are not learnt from
  for (const char* split : {"val", "test"}) {
    call("predict", {"--split", split}).ended(0);
    for (const std::string& row : read_lines(path("run/submission.csv")))
      held_out.insert(row.substr(0, row.find('_')));
  }
  const auto first_of = [&](bool wanted) {
    for (int i = 1; i < 24; ++i)
      if (const std::string name = "p" + std::to_string(i); i % 3 != 0 && held_out.contains(name) == wanted)
        return name;
    return std::string();
  };
  const auto file_of = [&](const std::string& name) {
    return read_text(
        path("structures/" + name + (fs::exists(path("structures/" + name + ".pdb")) ? ".pdb" : ".ent")));
  };
  write_text(path("mine/held_out.pdb"), file_of(first_of(true)));
  const Result unknown = call("evaluate", mine).ended(0);
  EXPECT_THAT(unknown.out + unknown.err, Not(HasSubstr("are training data")))
      << "one is new, the other was held out";

  write_text(path("mine/renamed.pdb"), "REMARK   1 OF MY OWN\n" + file_of(first_of(false)));
  std::string moved = file_of(first_of(false));  // a relative: the same sequence in another place
  for (size_t at = 0; (at = moved.find("  1.00 20.00", at)) != std::string::npos; ++at)
    moved[at - 1] = moved[at - 1] == '9' ? '0' : static_cast<char>(moved[at - 1] + 1);
  write_text(path("mine/relative.pdb"), moved);
  const Result known = call("evaluate", mine).ended(0);
  EXPECT_THAT(known.out + known.err, HasSubstr("samples of task.test_path 1 are training data (renamed_A), "
                                               "and 1 are like some that are (relative_A)"));

  fs::remove_all(path("structures"));
  EXPECT_EQ(call("export").code, 0) << "an export reads no data";
  const Result predicted = call("predict", mine);
  ASSERT_EQ(predicted.code, 0) << predicted.out << predicted.err
                               << "a model can be used where its training data are not";
  EXPECT_THAT(predicted.out + predicted.err,
              HasSubstr("samples of the test split 1 were training data of these weights"));
  EXPECT_THAT(predicted.out + predicted.err, Not(HasSubstr("comparing sequences")));
  EXPECT_THAT(read_text(path("run/submission.csv")), HasSubstr("other_Q,40,40,"));
}

// What was learnt from goes with the weights, and an evaluation refuses it.
class WhatWasLearntFrom : public Protein {
 protected:
  WhatWasLearntFrom() { learn("run", {}); }
  void learn(const std::string& run, const Words& more) {
    call("run", more + Words{"run.dir=" + run, "train.max_steps=1"}).ended(0);
  }
  void expect_refusal(const Words& more, const std::string& what) {
    const Result result = call("evaluate", more).ended(2);
    EXPECT_THAT(result.err, testing::ContainsRegex(what));
    EXPECT_THAT(result.err, HasSubstr("task.test_path"));
  }
  void expect_figures(const Words& more) {
    const Result result = call("evaluate", more).ended(0);
    EXPECT_THAT(result.out + result.err, Not(HasSubstr("were training data")));
  }
};

TEST_F(WhatWasLearntFrom, IsNoTestDataUnderOtherFolds) {
  expect_figures({});
  expect_figures({"--split", "val"});
  expect_refusal({"task.split.fold=2"},
                 "of the [0-9]+ samples of the test split [1-9][0-9]* were training data of these weights");
  expect_refusal({"task.split.fold=1"},
                 "of the test split 0 were training data .* and [1-9][0-9]* more were validation data");
  expect_refusal({"task.split.fold=1", "--split", "val"},
                 "of the validation split [1-9][0-9]* were training data");
}

TEST_F(WhatWasLearntFrom, IsNoTestDataInAFolderThatHasGrown) {
  for (int i = 0; i < 3; ++i)
    write_text(path("structures/new" + std::to_string(i) + ".pdb"),
               helix(made_up_sequence(70 + 10 * i, 900 + static_cast<uint64_t>(i)), 'A') + "END\n");
  expect_refusal({}, "of the [0-9]+ samples of the test split [0-9]+ were training data");
  const Result predicted = call("predict").ended(0);
  EXPECT_THAT(predicted.out + predicted.err, HasSubstr("predictions for them say little about new proteins"));
}

TEST_F(WhatWasLearntFrom, IsNoTestDataAsPartsOfStructuresOrUnderOtherNames) {
  expect_refusal({"task.data.unit=structure", "task.split.fold=3"}, "were training data");
  fs::rename(path("structures"), path("moved"));
  fs::rename(path("moved/p1.ent"), path("moved/renamed.pdb"));
  expect_refusal({"task.pdb_path=moved", "task.split.fold=2"}, "were training data");
}

TEST_F(WhatWasLearntFrom, AddsUpOverTrainingsThatBeginWithEachOther) {
  learn("second", {"task.split.fold=2", "train.init_from=run"});
  expect_refusal({"run.dir=second", "task.split.fold=2"}, "were training data");
  call("export").ended(0);
  const Result third =
      call("run", {"task.split.fold=2", "train.init_from=run/export", "run.dir=third", "train.max_steps=1"})
          .ended(0);
  expect_refusal({"run.dir=third", "task.split.fold=2"}, "were training data");
}

TEST_F(Protein, SamplesThatAreTooShortAreCountedInTheLog) {
  const Result run = call("run", {"task.data.min_residues=40", "train.max_steps=1"}).ended(0);
  EXPECT_THAT(run.out, HasSubstr("left out   10 chains of 269 residues, which have fewer than "
                                 "task.data.min_residues (40) known ones"));
  const Result none = call("run", {"task.data.min_residues=1000", "run.dir=other"}).ended(2);
  EXPECT_THAT(none.err, testing::ContainsRegex("task.pdb_path = .*structures: no sample is left without 28 "
                                               "chains of 1484 residues, which have fewer than"));
  EXPECT_THAT(none.err, HasSubstr("fewer than task.data.min_residues (1000) known ones"));
}

// Two structures whose samples have one name, two whose files would have, and a dimer of which each chain
// lacks residues of the other.
TEST_F(Protein, EverySampleHasFilesOfItsOwn) {
  call("run", {"train.max_steps=1"}).ended(0);
  fs::create_directories(path("mine/x"));
  const auto structure = [&](const std::string& name, uint64_t seed, char chain) {
    write_text(path("mine/" + name), helix(made_up_sequence(30, seed), chain) + "END\n");
  };
  structure("1abc.pdb", 1001, 'A');
  structure("1abc_A.pdb", 1002, ' ');
  structure("x/y.pdb", 1003, 'A');
  structure("x-y.pdb", 1004, 'A');
  call("predict", {"task.test_path=mine"}).ended(0);
  std::set<std::string> ids, contents;
  for (const std::string& row : read_lines(path("run/submission.csv")))
    ids.insert(row.substr(0, row.find(',')));
  EXPECT_EQ(ids, (std::set<std::string>{"id", "1abc:A", "1abc_A", "x/y_A", "x-y_A"}));
  for (const char* file : {"1abc:A", "1abc_A", "x%2Fy_A", "x-y_A"})
    contents.insert(read_text(path("run/submission-files/" + std::string(file) + "-residues.csv")));
  EXPECT_EQ(contents.size(), 4u);
}

TEST_F(Protein, PredictionsDoNotDependOnNeighboursInTheFolder) {
  call("run", {"train.max_steps=1"}).ended(0);
  const auto table = [&](const std::string& folder) {
    call("predict", {"task.test_path=" + folder, "--output", folder + ".csv"}).ended(0);
    return read_text(path(folder + "-files/wanted_A-residues.csv"));
  };
  for (const char* folder : {"alone", "among"}) {
    fs::create_directories(path(folder));
    write_text(path(folder) / "wanted.pdb", helix(made_up_sequence(60, 2001), 'A') + "END\n");
  }
  for (int i = 0; i < 3; ++i)
    write_text(path("among/a" + std::to_string(i) + ".pdb"),
               helix(made_up_sequence(50, 2010 + static_cast<uint64_t>(i)), 'A') + "END\n");
  EXPECT_EQ(table("alone"), table("among"));
}

TEST_F(Protein, CopiesOfAChainInAStructureAreScoredTogether) {
  for (int i = 0; i < 8; ++i) {
    const auto sequence = made_up_sequence(40, 3000 + static_cast<uint64_t>(i));
    const std::vector<std::string> ragged(sequence.begin() + 1, sequence.end());
    write_text(path("structures/dimer" + std::to_string(i) + ".pdb"),
               helix(sequence, 'A') + helix(ragged, 'B', 20) + "END\n");
  }
  const Words whole{"task.data.unit=structure", "task.data.max_residues=128"};
  call("run", whole + Words{"train.max_steps=2"}).ended(0);
  call("evaluate", whole).ended(0);
  call("predict", whole).ended(0);
  int dimers = 0;
  for (const std::string& row : read_lines(path("run/submission.csv")))
    if (row.starts_with("dimer")) {
      ++dimers;
      EXPECT_THAT(row, testing::ContainsRegex("^dimer[0-9],79,79,"));
      EXPECT_EQ(read_lines(path("run/submission-files/" + row.substr(0, 6) + "-residues.csv")).size(), 80u)
          << "a line for each residue of both chains";
    }
  EXPECT_GE(dimers, 1);
}

TEST_F(Protein, NoMoreMaskingsThanResidues) {
  call("run", {"train.max_steps=1"}).ended(0);
  ASSERT_EQ(call("predict", {"task.predict.maskings=1000000000"}).code, 0)
      << "a pass for each residue, and no more";
  EXPECT_THAT(call("check", {"task.mask_ratio=1e-7"}).ended(2).err, HasSubstr("task.mask_ratio"));
}

TEST_F(Protein, BeyondTheExactComparisonPartsAreStillAlignedWithEachOther) {
  const Words beyond{"task.split.exact_up_to=5", "train.max_steps=1"};
  const Result none = call("run", beyond).ended(0);
  EXPECT_THAT(none.out, HasSubstr("28 distinct sequences, more than task.split.exact_up_to (5), compared by "
                                  "prefilter: relatives below 40% identity may be missed"));
  EXPECT_THAT(none.out, HasSubstr("every chain of the test and validation parts was aligned with those of "
                                  "training, and with each other; 0 clusters"));
  EXPECT_THAT(none.out, HasSubstr("and 0 of validation similar to test are in test"));

  // Without this chain pairs of one length would all be in test and validation, or all in training.
  write_text(path("structures/single.pdb"), helix(made_up_sequence(103, 6000), 'A') + "END\n");
  for (int i = 0; i < 16;
       ++i) {  // pairs of which every other residue is the same: no seed of the prefilter is
    auto sequence = made_up_sequence(100 + i, 4000 + static_cast<uint64_t>(i));
    const auto write = [&](const char* name) {
      write_text(path("structures/" + std::string(name) + std::to_string(i) + ".pdb"),
                 helix(sequence, 'A') + "END\n");
    };
    write("one");
    const auto noise = made_up_sequence(100 + i, 5000 + static_cast<uint64_t>(i));
    for (size_t k = 0; k < sequence.size(); k += 2) sequence[k] = noise[k];
    write("other");
  }
  EXPECT_THAT(
      call("run", beyond + Words{"run.dir=missed"}).ended(0).out,
      testing::ContainsRegex("each other; [1-9][0-9]* clusters similar to training data are used for "
                             "training, too, and [1-9][0-9]* of validation similar to test are in test"));
}

using ProteinSameRun = SameRunOf<SmallProteinJob>;

TEST_F(ProteinSameRun, HasTheSameBitsUnderOtherStrategiesAndContinued) {
  train({"single", 1});
  ASSERT_EQ(curve("single_1").size(), 12u);
  const std::string parameters = exported("single_1");
  for (const Arrangement& arrangement :
       {Arrangement{"ddp", 2}, Arrangement{"sharded2", 2}, Arrangement{"sharded3", 2}}) {
    train(arrangement);
    EXPECT_EQ(curve(arrangement.name()), curve("single_1")) << arrangement.name();
    EXPECT_EQ(exported(arrangement.name()), parameters) << arrangement.name();
  }
  train({"sharded2", 3});
  expect_close("sharded2_3", losses("single_1"), 1e-6);
  train({"sharded3", 2}, {"train.max_steps=5"}, "chain");
  train({"single", 1}, {}, "chain");
  EXPECT_EQ(curve("chain"), curve("single_1"));
}

TEST_F(ProteinSameRun, EvaluatesAlikeOnAnyNumberOfProcesses) {
  train({"single", 1}, {"train.max_steps=2"}, "run");
  std::vector<std::string> figures;
  for (const int processes : {1, 2, 3}) {
    const Result run =
        call("evaluate", {"launch.processes=" + std::to_string(processes), "strategy.plugin=auto"}).ended(0);
    figures.push_back(read_json(path("run/evaluation-test.json"))["figures"].dump());
  }
  EXPECT_EQ(figures[1], figures[0]);
  EXPECT_EQ(figures[2], figures[0]);
}

}  // namespace
}  // namespace pipeline::tests
