// The protein task as a user runs it.
#include <cmath>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  const Result run = call("run");
  ASSERT_EQ(run.code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("structures 24 in "));
  EXPECT_THAT(run.out, HasSubstr("ignored 1 file: .txt 1"));
  EXPECT_THAT(run.out + run.err, HasSubstr("broken.pdb"));
  const auto metrics = read_lines(path("run/metrics.jsonl"));
  ASSERT_EQ(metrics.size(), 12u);
  const auto first = nlohmann::json::parse(metrics.front());
  EXPECT_NEAR(first["loss"].get<double>(), std::log(20), 0.3) << "a fresh model knows nothing";
  EXPECT_EQ(first["padding"].get<double>(), 0);
  EXPECT_GT(first["mfu"].get<double>(), 0);

  const Result evaluated = call("evaluate");
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_THAT(evaluated.out, HasSubstr("95% intervals over"));
  const auto figures = nlohmann::json::parse(read_text(path("run/evaluation-test.json")))["figures"];
  EXPECT_NEAR(figures["perplexity"].get<double>(), std::exp(figures["loss"].get<double>()), 1e-9);
  EXPECT_LE(figures["accuracy_low"].get<double>(), figures["accuracy"].get<double>());
  EXPECT_GE(figures["accuracy_high"].get<double>(), figures["accuracy"].get<double>());
  EXPECT_THAT(read_text(path("run/evaluation-test-files/confusion.svg")), StartsWith("<svg "));

  ASSERT_EQ(call("predict").code, 0);
  const auto rows = read_lines(path("run/submission.csv"));
  ASSERT_GE(rows.size(), 3u);
  EXPECT_EQ(rows[0], "id,residues,known,recovery,perplexity,entropy");
  const std::string sample = rows[1].substr(0, rows[1].find(','));
  std::string file = sample;
  std::replace(file.begin(), file.end(), '/', '-');
  const auto residues = read_lines(path("run/submission-files/" + file + "-residues.csv"));
  EXPECT_EQ(residues[0], "chain,number,insertion,residue,probability,top1,p1,top2,p2,top3,p3,entropy");
  EXPECT_EQ(std::to_string(residues.size() - 1), rows[1].substr(sample.size() + 1, rows[1].find(',', sample.size() + 1) - sample.size() - 1));
  EXPECT_EQ(read_lines(path("run/submission-files/" + file + "-mutations.csv")).size(), residues.size());
  EXPECT_THAT(read_text(path("run/submission-files/" + file + "-mutations.svg")), StartsWith("<svg "));

  ASSERT_EQ(call("export").code, 0);
  // The exported folder is a start like any other.
  const Result again = call("run", {"--set", "run.dir=again", "--set", "train.init_from=run/export", "--set", "optimizer.lr=0.0", "--set", "train.max_steps=1"});
  ASSERT_EQ(again.code, 0) << again.out << again.err;
  EXPECT_LT(nlohmann::json::parse(read_lines(path("again/metrics.jsonl")).front())["loss"].get<double>(), first["loss"].get<double>());
}

class Esm2 : public testing::Test, public SmallEsm2Job {};

TEST_F(Esm2, TrainsOnTheSameData) {
  const Result run = call("run");
  ASSERT_EQ(run.code, 0) << run.out << run.err;
  EXPECT_NEAR(nlohmann::json::parse(read_lines(path("run/metrics.jsonl")).front())["loss"].get<double>(), std::log(33), 0.5);
  ASSERT_EQ(call("evaluate").code, 0);
  ASSERT_EQ(call("export").code, 0);
  for (const char* file : {"config.json", "model.safetensors", "vocab.txt"}) EXPECT_TRUE(fs::exists(path("run/export") / file)) << file;
}

TEST_F(Protein, OptionsOfTheOtherModelAreRefused) {
  const Result structure = call("check", {"--set", "task.model=esm2"});
  EXPECT_EQ(structure.code, 2);
  EXPECT_THAT(structure.err, HasSubstr("hidden_dim = 16: is of no use with task.model = \"esm2\""));
  const Result sequence = call("check", {"--set", "task.esm2.num_layers=3"});
  EXPECT_EQ(sequence.code, 2);
  EXPECT_THAT(sequence.err, HasSubstr("task.esm2.num_layers=3: is of no use without task.model"));
}

TEST_F(Protein, APathThatIsNotThereIsNamedWithItsKey) {
  const Result run = call("run", {"--set", "task.pdb_path=nowhere"});
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("task.pdb_path=nowhere: there is no such folder or file"));
}

TEST_F(Protein, HiddenDistancesArePredictedByOption) {
  const Result run = call("run", {"--set", "task.distogram=0.3", "--set", "task.data.unit=structure", "--set", "task.data.crop=spatial", "--set", "task.mask.span=3"});
  ASSERT_EQ(run.code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr(" structures of "));
  EXPECT_NEAR(nlohmann::json::parse(read_lines(path("run/metrics.jsonl")).front())["loss"].get<double>(), std::log(20) + 0.3 * std::log(32), 0.3);
  const auto figures = nlohmann::json::parse(read_lines(path("run/eval.jsonl")).front());
  EXPECT_LT(figures["distance_loss"].get<double>(), std::log(32)) << "in these helices half of the distances are far";
  ASSERT_EQ(call("predict", {"--set", "task.distogram=0.3", "--set", "task.data.unit=structure"}).code, 0);
}

TEST_F(Protein, StructuresAreParsedOnceAndChangesAreNoticed) {
  ASSERT_EQ(call("run", {"--set", "train.max_steps=2"}).code, 0);
  write_text(path("structures/new.pdb"), helix(made_up_sequence(40, 999), 'A') + "END\n");
  const Result changed = call("run", {"--set", "train.max_steps=4"});
  EXPECT_NE(changed.code, 0) << "the run went on with other data";
  EXPECT_THAT(changed.err, HasSubstr("data"));
  fs::remove(path("structures/new.pdb"));
  EXPECT_EQ(call("run", {"--set", "train.max_steps=4"}).code, 0);
}

TEST_F(Protein, StructuresAndCacheMayBeInOneFolder) {
  const std::vector<std::string> together{"--set", "task.cache_dir=structures"};
  const Result first = call("run", together);
  ASSERT_EQ(first.code, 0) << first.out << first.err;
  const Result second = call("evaluate", together);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.out, HasSubstr("structures 24 in "));
  EXPECT_THAT(second.out, HasSubstr("ignored 1 file: .txt 1"));
}

TEST_F(Protein, TooManyUnusableFilesStopTheRunWithTheTable) {
  for (int i = 0; i < 30; ++i) write_text(path("structures/bad" + std::to_string(i) + ".pdb"), i % 2 == 0 ? "" : "HEADER nothing\nEND\n");
  const Result run = call("run");
  EXPECT_EQ(run.code, 2) << run.out;
  EXPECT_THAT(run.err, HasSubstr("bad1.pdb"));
  EXPECT_THAT(run.err, HasSubstr("and 11 more"));
  EXPECT_EQ(call("run", {"--set", "task.data.max_unusable=0.9", "--set", "train.max_steps=1"}).code, 0);
}

TEST_F(Protein, ACrossValidationAddsUpItsParts) {
  std::string stages;
  for (int fold = 0; fold < 2; ++fold) {
    const std::string number = std::to_string(fold);
    stages += "[[stage]]\nname = \"learn-" + number + "\"\n[stage.task.split]\nfold = " + number + "\n";
    stages += "[[stage]]\nname = \"test-" + number + "\"\nkind = \"evaluate\"\ninit_from = \"learn-" + number + "\"\n[stage.task.split]\nfold = " + number + "\n";
  }
  write_text(path("train.toml"), config() + stages + "[[stage]]\nname = \"all\"\nkind = \"pool\"\n");
  const Result run = call("run", {"--set", "train.max_steps=3"});
  ASSERT_EQ(run.code, 0) << run.out << run.err;
  const auto read = [&](const std::string& stage) { return nlohmann::json::parse(read_text(path("run/" + stage + "/evaluation-test.json"))); };
  const auto a = read("test-0"), b = read("test-1"), all = read("all");
  EXPECT_EQ(all["samples"].get<int>(), a["samples"].get<int>() + b["samples"].get<int>());
  const double low = std::min(a["figures"]["loss"].get<double>(), b["figures"]["loss"].get<double>());
  const double high = std::max(a["figures"]["loss"].get<double>(), b["figures"]["loss"].get<double>());
  EXPECT_GT(all["figures"]["loss"].get<double>(), low);
  EXPECT_LT(all["figures"]["loss"].get<double>(), high);
  const Result again = call("run", {"--set", "train.max_steps=3"});
  EXPECT_THAT(again.out, HasSubstr("run/all is finished already"));
}

TEST_F(Protein, APoolNeedsEvaluationsBeforeIt) {
  write_text(path("train.toml"), config() + "[[stage]]\nname = \"learn\"\n[[stage]]\nname = \"all\"\nkind = \"pool\"\n");
  const Result run = call("run", {"--set", "train.max_steps=1"});
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("there is no stage before this one that evaluates"));
}

TEST_F(Protein, OwnTestDataOnlyAddFiguresAndSimilarOnesAreCounted) {
  ASSERT_EQ(call("run", {"--set", "train.max_steps=2"}).code, 0);
  fs::create_directories(path("mine"));
  write_text(path("mine/known.pdb"), read_text(path("structures/p1.ent")));
  write_text(path("mine/other.pdb"), helix(made_up_sequence(40, 777), 'Q') + "END\n");
  const std::vector<std::string> mine{"--set", "task.test_path=mine"};
  const Result evaluated = call("evaluate", mine);
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  fs::remove_all(path("structures"));
  EXPECT_EQ(call("export").code, 0) << "an export reads no data";
  const Result predicted = call("predict", mine);
  ASSERT_EQ(predicted.code, 0) << predicted.out << predicted.err << "a model can be used where its training data are not";
  EXPECT_THAT(read_text(path("run/submission.csv")), HasSubstr("other_Q,40,40,"));
}

using ProteinSameRun = SameRunOf<SmallProteinJob>;

TEST_F(ProteinSameRun, HasTheSameBitsUnderOtherStrategiesAndContinued) {
  train({"single", 1});
  ASSERT_EQ(curve("single_1").size(), 12u);
  const std::string parameters = exported("single_1");
  for (const Arrangement& arrangement : {Arrangement{"ddp", 2}, Arrangement{"sharded2", 2}, Arrangement{"sharded3", 2}}) {
    train(arrangement);
    EXPECT_EQ(curve(arrangement.name()), curve("single_1")) << arrangement.name();
    EXPECT_EQ(exported(arrangement.name()), parameters) << arrangement.name();
  }
  train({"sharded2", 3});
  expect_close("sharded2_3", losses("single_1"), 1e-6);
  train({"sharded3", 2}, {"--set", "train.max_steps=5"}, "chain");
  train({"single", 1}, {}, "chain");
  EXPECT_EQ(curve("chain"), curve("single_1"));
}

TEST_F(ProteinSameRun, EvaluatesAlikeOnAnyNumberOfProcesses) {
  train({"single", 1}, {"--set", "train.max_steps=2"}, "run");
  std::vector<std::string> figures;
  for (const int processes : {1, 2, 3}) {
    const Result run = call("evaluate", {"--set", "launch.processes=" + std::to_string(processes), "--set", "strategy.plugin=auto"});
    ASSERT_EQ(run.code, 0) << run.err;
    figures.push_back(nlohmann::json::parse(read_text(path("run/evaluation-test.json")))["figures"].dump());
  }
  EXPECT_EQ(figures[1], figures[0]);
  EXPECT_EQ(figures[2], figures[0]);
}

}  // namespace
}  // namespace pipeline::tests
