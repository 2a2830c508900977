#include "tests/config/config_files.hpp"

namespace pipeline::config {
namespace {

using Load = ConfigFiles;

TEST_F(Load, GivesDefaultsForWhatTheFileLeavesOut) {
  const Config config = load_text("[task]\nplugin = 'protein'\n");
  EXPECT_EQ(config.get_string("task.plugin"), "protein");
  EXPECT_EQ(config.get_string("strategy.plugin"), "auto");
  EXPECT_EQ(config.get_string("backend.plugin"), "auto");
  EXPECT_EQ(config.get_int("loader.workers"), 4);
  EXPECT_EQ(config.get_int("loader.prefetch"), 2);
  EXPECT_TRUE(config.get_bool("loader.pin_memory"));
  EXPECT_EQ(config.get_int("evaluate.every"), 0);
  EXPECT_EQ(config.get_string("observe.log_level"), "info");
  EXPECT_FALSE(config.is_set("loader.workers"));
  EXPECT_TRUE(config.has_value("loader.workers"));
  EXPECT_EQ(config.origin("loader.workers").describe(), "default");
}

TEST_F(Load, TellsNotGivenFromGiven) {
  const Config config = load_text("task.plugin = 't'\ntrain.micro_batch = 8\n");
  EXPECT_EQ(config.find_int("train.micro_batch"), 8);
  EXPECT_EQ(config.find_int("train.batch_per_device"), std::nullopt);
  EXPECT_FALSE(config.has_value("train.batch_per_device"));
  EXPECT_EQ(problems_of([&] { config.get_int("train.batch_per_device"); }),
            "x.toml: train.batch_per_device: is needed here and has no default: give it a value");
}

TEST_F(Load, AnIntegerIsFineWhereANumberIsWanted) {
  EXPECT_EQ(load_text("task.plugin = 't'\noptimizer.lr = 1\n").get_float("optimizer.lr"), 1.0);
}

TEST_F(Load, AskingForWhatTheSchemaDoesNotHaveIsAProgramError) {
  const Config config = load_text("task.plugin = 't'\n");
  const auto message = [](auto&& function) -> std::string {
    try {
      function();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), PL_ERROR_FAILED);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message([&] { config.get_int("train.max_stepz"); }),
            "option train.max_stepz was asked for, which the schema does not have");
  EXPECT_EQ(message([&] { config.get_int("optimizer.lr"); }),
            "option optimizer.lr is of type number, and was asked for as integer");
}

TEST_F(Load, ErrorsOfCallersNameWhereTheValueComesFrom) {
  const Config config = load_text("task.plugin = 't'\n[train]\nglobal_batch = 30\n", {"train.micro_batch=8"});
  EXPECT_STREQ(
      config.error("train.global_batch", "is not a multiple of train.micro_batch (8): write 24 or 32").what(),
      "x.toml:3: train.global_batch = 30: is not a multiple of train.micro_batch (8): write 24 or 32");
  EXPECT_STREQ(config.error("train.micro_batch", "too large: write 4").what(),
               "--set train.micro_batch=8: too large: write 4");
  EXPECT_STREQ(config.error("loader.workers", "too many: write 2").what(),
               "x.toml: loader.workers = 4 (default): too many: write 2");
  EXPECT_STREQ(config.error("train.max_steps", "needed: give it").what(),
               "x.toml: train.max_steps: needed: give it");
}

TEST_F(Load, PathsAreTakenFromTheCurrentFolder) {
  const Config config =
      load_text("task.plugin = 't'\nrun.dir = 'runs/a'\nplugins.paths = ['p', '/q', '~/r']\n");
  EXPECT_EQ(config.find_string("run.dir"), "runs/a");
  EXPECT_EQ(config.find_path("run.dir"), (std::filesystem::current_path() / "runs/a").string());
  EXPECT_EQ(config.get_path_list("plugins.paths"),
            (std::vector<std::string>{std::filesystem::current_path() / "p", "/q",
                                      std::string(getenv("HOME")) + "/r"}));
}

TEST_F(Load, ConservativeIsAnotherNameForNone) {
  EXPECT_EQ(load_text("task.plugin = 't'\nschedule.lr_scaling = 'conservative'\n")
                .get_string("schedule.lr_scaling"),
            "none");
}

TEST_F(Load, WithoutAFileThereAreSetsAndDefaults) {
  const Config config = load({.file = "", .sets = {"task.plugin=t"}, .stage = ""});
  EXPECT_EQ(config.get_string("task.plugin"), "t");
  EXPECT_EQ(problems_of([] { load({.file = "", .sets = {}, .stage = ""}); }),
            "task.plugin: is required and not given: the task to train, for example \"summarization\"");
}

TEST_F(Load, AnEmptyFileLacksTheTask) {
  EXPECT_EQ(
      problems(""),
      "x.toml: task.plugin: is required and not given: the task to train, for example \"summarization\"");
  EXPECT_EQ(
      problems("# nothing\n"),
      "x.toml: task.plugin: is required and not given: the task to train, for example \"summarization\"");
}

TEST_F(Load, AByteOrderMarkAndWindowsLineEndsAreFine) {
  EXPECT_EQ(load_text("\xef\xbb\xbf[task]\r\nplugin = 't'\r\n").get_string("task.plugin"), "t");
}

// ------------------------------------------------------------------------------------------------------------
// --set

TEST_F(Load, SetComesLastAndIsNamed) {
  const Config config =
      load_text("task.plugin = 't'\ntrain.max_steps = 5\n", {"train.max_steps=20", "train.max_steps = 30 "});
  EXPECT_EQ(config.get_int("train.max_steps"), 30);
  EXPECT_TRUE(config.is_set("train.max_steps"));
  EXPECT_EQ(config.origin("train.max_steps").describe(), "--set train.max_steps = 30 ");
}

TEST_F(Load, SetTakesTomlValuesAndBareWords) {
  const Config config =
      load_text("task.plugin = 't'\n",
                {"run.dir=runs/x", "run.name=\"a b\"", "optimizer.lr=3e-4", "run.reproducible=true",
                 "plugins.paths=[\"/a\", \"/b\"]", "train={max_steps=7, precision=\"bf16\"}"});
  EXPECT_TRUE(config.find_path("run.dir")->ends_with("/runs/x"));
  EXPECT_EQ(config.get_string("run.name"), "a b");
  EXPECT_EQ(config.get_float("optimizer.lr"), 3e-4);
  EXPECT_TRUE(config.get_bool("run.reproducible"));
  EXPECT_EQ(config.get_path_list("plugins.paths"), (std::vector<std::string>{"/a", "/b"}));
  EXPECT_EQ(config.get_int("train.max_steps"), 7);
  EXPECT_EQ(config.get_string("train.precision"), "bf16");
}

TEST_F(Load, SetTakesWordsThatLookLikeOtherValuesAsStringsWhereAStringIsWanted) {
  for (const char* name : {"2024", "1e5", "true", "2024-01-31", "a#b", "12#b", "nan", "it's", "a,b", "x=y",
                           "l\xc3\xa4ufe/mein lauf 1", "\xe6\x97\xa5\xe6\x9c\xac"})
    EXPECT_EQ(load_text("task.plugin = 't'\n", {std::string("run.name=") + name}).get_string("run.name"),
              name);
}

TEST_F(Load, SetRefusesWhatItCannotUnderstand) {
  EXPECT_EQ(set_problem("train.max_steps"),
            "--set train.max_steps: has no =: write --set KEY=VALUE, for example --set train.max_steps=20");
  EXPECT_EQ(set_problem("=3"),
            "--set =3: is not a dotted key before the =: write for example --set train.max_steps=20");
  EXPECT_EQ(set_problem("train..max_steps=3"),
            "--set train..max_steps=3: is not a dotted key before the =: write for example --set "
            "train.max_steps=20");
  EXPECT_EQ(set_problem("run.name="),
            "--set run.name=: has no value: write --set run.name=\"\" for an empty string");
  EXPECT_EQ(set_problem("plugins.paths=[a, b]"),
            "--set plugins.paths=[a, b]: the value is not valid TOML: check its quotes and brackets (a list "
            "of strings is [\"a\", \"b\"])");
  EXPECT_EQ(set_problem("run.name=\"a"),
            "--set run.name=\"a: the value is not valid TOML: check its quotes and brackets (a list of "
            "strings is [\"a\", \"b\"])");
  EXPECT_EQ(set_problem("run.name=\xff"),
            "--set run.name=\xff: is not UTF-8 text, and paths must be, too: rename the file or folder");
  EXPECT_EQ(set_problem("train.max_steps=x"), "--set train.max_steps=x: must be an integer, is a string");
  EXPECT_EQ(set_problem("train.max_steps=1\ntrain.max_epochs=2"),
            "--set train.max_steps=1\ntrain.max_epochs=2: must be an integer, is a string");
  EXPECT_EQ(set_problem("train.max_stepz=3"),
            "--set train.max_stepz=3: unknown key: did you mean train.max_steps?");
  EXPECT_EQ(set_problem("trian.max_steps=3"),
            "--set trian.max_steps=3: unknown key: did you mean train.max_steps?");
  EXPECT_EQ(set_problem("train.epochs=3"), "--set train.epochs=3: unknown key: write train.max_epochs");
  EXPECT_EQ(set_problem("train={max_steps=1, lr=2}"),
            "--set train={max_steps=1, lr=2}: train.lr = 2: unknown key: did you mean optimizer.lr?");
}

// ------------------------------------------------------------------------------------------------------------
// files

TEST_F(Load, AMissingFileSuggestsItsNeighbours) {
  write("configs/summarization.toml", "");
  const auto missing = [](const char* file) {
    return problems_of([&] { load({.file = file, .sets = {}, .stage = ""}); });
  };
  EXPECT_EQ(missing("configs/sumarization.toml"),
            "configs/sumarization.toml: no such file: did you mean configs/summarization.toml?");
  EXPECT_EQ(missing("configs/summarization"),
            "configs/summarization: no such file: did you mean configs/summarization.toml?");
  EXPECT_EQ(missing("configs/zzz.toml"), "configs/zzz.toml: no such file: there is summarization.toml");
  EXPECT_EQ(missing("config/summarization.toml"),
            "config/summarization.toml: no such file: there is no folder config");
  EXPECT_EQ(missing("x.toml"), "x.toml: no such file: there are no .toml files in that folder");
  write("extending.toml", "extends = 'configs'\n");
  EXPECT_EQ(missing("extending.toml"),
            "extending.toml:1: extends = \"configs\": configs: is a folder: name a .toml file in it");
}

TEST_F(Load, AHugeFileIsRefused) {
  EXPECT_EQ(problems("# " + std::string(2 << 20, 'x')),
            "x.toml: is larger than 1 MiB: this is not a configuration file");
}

TEST_F(Load, ExtendsMergesTablesAndReplacesValuesAndLists) {
  write("base/a.toml",
        "[train]\nmax_steps = 1\nmicro_batch = 4\n[plugins]\npaths = ['/a', '/b']\n[task]\nplugin = 't'\n");
  write("configs/b.toml", "extends = '../base/a.toml'\n[train]\nmax_steps = 2\n[plugins]\npaths = ['/c']\n");
  const Config config = load({.file = "configs/b.toml", .sets = {}, .stage = ""});
  EXPECT_EQ(config.get_int("train.max_steps"), 2);
  EXPECT_EQ(config.get_int("train.micro_batch"), 4);
  EXPECT_EQ(config.get_path_list("plugins.paths"), (std::vector<std::string>{"/c"}));
  EXPECT_EQ(config.origin("train.max_steps").describe(), "configs/b.toml:3");
  EXPECT_EQ(config.origin("train.micro_batch").describe(), "base/a.toml:3");
}

TEST_F(Load, AnInheritedValueCanBeTakenBack) {
  write("base.toml", "task.plugin = 't'\ntrain.global_batch = 256\n");
  const Config config =
      load_text("extends = 'base.toml'\ntrain.global_batch = 'unset'\ntrain.batch_per_device = 16\n");
  EXPECT_FALSE(config.is_set("train.global_batch"));
  EXPECT_EQ(config.find_int("train.global_batch"), std::nullopt);
  EXPECT_EQ(problems("task.plugin = 't'\nloader.workers = 'unset'\n"),
            "x.toml:2: loader.workers = \"unset\": must be an integer, is a string");
}

TEST_F(Load, ProblemsOfABaseFileNameIt) {
  write("base.toml", "task.plugin = 't'\ntrain.max_stepz = 1\n");
  EXPECT_EQ(problems("extends = 'base.toml'\nfoo = 1\n[task]\nplugin = 3\n"),
            "x.toml:2: foo = 1: unknown key: `pipeline explain` lists all keys\n"
            "x.toml:4: task.plugin = 3: must be a string, is an integer: put it in quotes\n"
            "base.toml:2: train.max_stepz = 1: unknown key: did you mean train.max_steps?");
}

TEST_F(Load, ExtendsThatDoesNotWorkShowsTheChain) {
  write("base.toml", "extends = 'sub/other.toml'\n");
  write("sub/other.toml", "extends = '../x.toml'\n");
  EXPECT_EQ(problems("extends = 'base.toml'\n"),
            "sub/other.toml:1: extends = \"../x.toml\": the files extend each other in a circle: x.toml -> "
            "base.toml -> sub/other.toml -> x.toml");
  EXPECT_EQ(problems("extends = 'x.toml'\n"),
            "x.toml:1: extends = \"x.toml\": the files extend each other in a circle: x.toml -> x.toml");
  EXPECT_EQ(problems("\nextends = 'bose.toml'\n"),
            "x.toml:2: extends = \"bose.toml\": bose.toml: no such file: did you mean base.toml?");
  EXPECT_EQ(
      problems("extends = ['base.toml']\n"),
      "x.toml:1: extends = [\"base.toml\"]: must be the name of one file, relative to this one, is a list");
  EXPECT_EQ(problems("extends = ''\n"),
            "x.toml:1: extends = \"\": must be the name of one file, relative to this one, is empty");
}

TEST_F(Load, AVeryLongChainIsRefused) {
  for (int i = 0; i < 20; ++i)
    write(std::to_string(i) + ".toml", "extends = '" + std::to_string(i + 1) + ".toml'\n");
  EXPECT_TRUE(
      problems("extends = '0.toml'\n")
          .starts_with(
              "14.toml:1: extends = \"15.toml\": more than 16 files extend each other: x.toml -> 0.toml"));
}

}  // namespace
}  // namespace pipeline::config
