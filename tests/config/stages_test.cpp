#include "tests/config/config_files.hpp"

namespace pipeline::config {
namespace {

class Stages : public ConfigFiles {
 protected:
  static constexpr std::string_view kTwo =
      "[task]\nplugin = 't'\n"
      "[optimizer]\nlr = 1e-3\nweight_decay = 0.1\n"
      "[[stage]]\nname = 'pretrain'\n"
      "[[stage]]\nname = 'sft'\ninit_from = 'pretrain'\noptimizer.lr = 1e-5\n"
      "[stage.train]\nmax_steps = 7\n"
      "[[stage]]\nname = 'test'\nkind = 'evaluate'\ninit_from = 'sft'\n";
};

TEST_F(Stages, WithoutThemThereIsOneImpliedStage) {
  const Config config = load_text("task.plugin = 't'\n");
  EXPECT_FALSE(config.has_stages());
  EXPECT_EQ(config.stage_names(), std::vector<std::string>{"train"});
  const Config stage = config.for_stage("train");
  EXPECT_EQ(stage.get_string("stage.name"), "train");
  EXPECT_EQ(stage.get_string("stage.kind"), "train");
  EXPECT_EQ(stage.find_string("stage.init_from"), std::nullopt);
}

TEST_F(Stages, OverrideTheTablesAboveThem) {
  const Config config = load_text(kTwo);
  EXPECT_TRUE(config.has_stages());
  EXPECT_EQ(config.stage_names(), (std::vector<std::string>{"pretrain", "sft", "test"}));
  EXPECT_EQ(config.get_float("optimizer.lr"), 1e-3);

  const Config pretrain = config.for_stage("pretrain");
  EXPECT_EQ(pretrain.get_float("optimizer.lr"), 1e-3);
  EXPECT_FALSE(pretrain.is_set("train.max_steps"));

  const Config sft = config.for_stage("sft");
  EXPECT_EQ(sft.get_float("optimizer.lr"), 1e-5);
  EXPECT_EQ(sft.get_float("optimizer.weight_decay"), 0.1);
  EXPECT_EQ(sft.get_int("train.max_steps"), 7);
  EXPECT_EQ(sft.get_string("stage.name"), "sft");
  EXPECT_EQ(sft.get_string("stage.kind"), "train");
  EXPECT_EQ(sft.get_string("stage.init_from"), "pretrain");
  EXPECT_EQ(sft.origin("optimizer.lr").describe(), "x.toml:11");
  EXPECT_EQ(sft.origin("optimizer.weight_decay").describe(), "x.toml:5");

  EXPECT_EQ(config.for_stage("test").get_string("stage.kind"), "evaluate");
  EXPECT_EQ(problems_of([&] { (void)config.for_stage("stf"); }),
            "stage stf: no such stage: did you mean sft?");
}

TEST_F(Stages, SetWinsOverStagesAndCanNameOne) {
  const Config config = load_text(kTwo, {"optimizer.lr=2e-3", "stage.test.optimizer.lr=3e-3"});
  EXPECT_EQ(config.for_stage("pretrain").get_float("optimizer.lr"), 2e-3);
  EXPECT_EQ(config.for_stage("sft").get_float("optimizer.lr"), 2e-3);
  EXPECT_EQ(config.for_stage("test").get_float("optimizer.lr"), 3e-3);
}

TEST_F(Stages, SetOfAStageThatIsNotThere) {
  EXPECT_EQ(problems(kTwo, {"stage.stf.optimizer.lr=1"}),
            "--set stage.stf.optimizer.lr=1: no stage is named so: did you mean sft?");
  EXPECT_EQ(problems(kTwo, {"stage.x.optimizer.lr=1"}),
            "--set stage.x.optimizer.lr=1: no stage is named so: there is pretrain, sft or test");
  EXPECT_EQ(problems(kTwo, {"stage.sft=1"}),
            "--set stage.sft=1: write stage.NAME.TABLE.KEY=VALUE, where NAME is pretrain, sft or test");
  EXPECT_EQ(problems(kTwo, {"stage=1"}),
            "--set stage=1: write stage.NAME.TABLE.KEY=VALUE, where NAME is pretrain, sft or test");
  EXPECT_EQ(problems(kTwo, {"stage.sft.optimizer.lrr=1"}),
            "--set stage.sft.optimizer.lrr=1: unknown key: did you mean optimizer.lr?");
  EXPECT_EQ(problems(kTwo, {"stage.sft.launch.threads=1"}),
            "--set stage.sft.launch.threads=1: cannot differ between the stages of a run: write --set "
            "launch.threads=VALUE");
  EXPECT_EQ(set_problem("stage.train.optimizer.lr=1"),
            "--set stage.train.optimizer.lr=1: this configuration has no [[stage]]: leave stage.NAME. out");
}

TEST_F(Stages, OneCanBeSelected) {
  write("x.toml", kTwo);
  EXPECT_EQ(load({.file = "x.toml", .sets = {}, .stage = "sft"}).stage_names(),
            std::vector<std::string>{"sft"});
  EXPECT_EQ(problems_of([] { load({.file = "x.toml", .sets = {}, .stage = "stf"}); }),
            "--stage stf: no such stage: did you mean sft?");
  EXPECT_EQ(problems_of([] { load({.file = "x.toml", .sets = {}, .stage = "x"}); }),
            "--stage x: no such stage: there is pretrain, sft or test");
  write("x.toml", "task.plugin = 't'\n");
  EXPECT_EQ(problems_of([] { load({.file = "x.toml", .sets = {}, .stage = "sft"}); }),
            "--stage sft: this configuration has no [[stage]]: leave --stage out");
}

TEST_F(Stages, ReplaceThoseOfTheBaseFile) {
  write("base.toml", kTwo);
  EXPECT_EQ(load_text("extends = 'base.toml'\n").stage_names(),
            (std::vector<std::string>{"pretrain", "sft", "test"}));
  EXPECT_EQ(load_text("extends = 'base.toml'\n[[stage]]\nname = 'only'\n").stage_names(),
            std::vector<std::string>{"only"});
}

TEST_F(Stages, MistakesAreNamed) {
  const std::string task = "task.plugin = 't'\n";
  EXPECT_EQ(problems(task + "[[stage]]\nkind = 'train'\n"),
            "x.toml:2: [[stage]]: a stage needs a name: write name = \"...\"");
  EXPECT_EQ(problems(task + "[[stage]]\nname = 'a b'\n"),
            "x.toml:2: stage.name = \"a b\": must be made of letters, digits, _ and -: it becomes the name "
            "of a folder");
  EXPECT_EQ(problems(task + "[[stage]]\nname = 'a'\n[[stage]]\nname = 'a'\n"),
            "x.toml:5: stage.name = \"a\": is the name of the stage at x.toml:2, too: give each its own");
  EXPECT_EQ(problems(task + "[[stage]]\nname = 'a'\nkind = 'trane'\n"),
            "x.toml:4: stage.kind = \"trane\": is not one of train, evaluate, predict, export or pool: did "
            "you mean train?");
  EXPECT_EQ(problems(task + "[[stage]]\nname = 'a'\nmax_steps = 3\n"),
            "x.toml:4: stage.max_steps = 3: unknown key: did you mean train.max_steps?");
  EXPECT_EQ(problems(task + "[[stage]]\nname = 'a'\n[stage.trian]\nx = 3\n"),
            "x.toml:4: [trian]: unknown table: did you mean [train]?");
  EXPECT_EQ(problems(task + "[[stage]]\nname = 'a'\ntrain.max_stepz = 3\n"),
            "x.toml:4: train.max_stepz = 3: unknown key: did you mean train.max_steps?");
  EXPECT_EQ(
      problems(task + "[[stage]]\nname = 'a'\nlaunch.threads = 3\nrun.dir = 'x'\n"),
      "x.toml:4: launch.threads = 3: cannot differ between the stages of a run: put it above the stages\n"
      "x.toml:5: run.dir = \"x\": cannot differ between the stages of a run: put it above the stages");
  EXPECT_EQ(problems(task + "stage = 3\n"),
            "x.toml:2: stage = 3: must be tables: write [[stage]] and its keys below it");
  EXPECT_EQ(problems(task + "[stage]\nname = 'a'\ntrain.max_steps = 3\n"),
            "x.toml:2: [stage]: one stage of several: write [[stage]]");
}

TEST_F(Stages, StartFromAnEarlierOne) {
  const std::string task = "task.plugin = 't'\n";
  EXPECT_EQ(problems(task + "[[stage]]\nname = 'a'\ninit_from = 'b'\n[[stage]]\nname = 'b'\n"),
            "x.toml:4: stage.init_from = \"b\": there is no stage of that name before this one: this is the "
            "first; for a checkpoint or a folder use train.init_from");
  EXPECT_EQ(problems(task + "[[stage]]\nname = 'pretrain'\n[[stage]]\nname = 'b'\ninit_from = 'pretrian'\n"),
            "x.toml:6: stage.init_from = \"pretrian\": there is no stage of that name before this one: did "
            "you mean pretrain?");
  EXPECT_EQ(problems(task + "[[stage]]\nname = 'a'\n[[stage]]\nname = 'b'\ninit_from = 'models/gpt2'\n"),
            "x.toml:6: stage.init_from = \"models/gpt2\": there is no stage of that name before this one: "
            "there is a; for a checkpoint or a folder use train.init_from");
  EXPECT_EQ(problems(task + "[[stage]]\nname = 'a'\ninit_from = 'a'\n"),
            "x.toml:4: stage.init_from = \"a\": a stage cannot start from itself");
}

TEST_F(Stages, EachNeedsATask) {
  EXPECT_EQ(problems("[[stage]]\nname = 'a'\ntask.plugin = 't'\n"), "");
  EXPECT_EQ(
      problems("[[stage]]\nname = 'a'\ntask.plugin = 't'\n[[stage]]\nname = 'b'\n"),
      "x.toml: task.plugin: is required and not given: the task to train, for example \"summarization\"");
}

}  // namespace
}  // namespace pipeline::config
