// What a run keeps as config.toml loads as that run again.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/config/config_files.hpp"
#include "tests/config/plugin_options.hpp"

namespace pipeline::config {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

class RunConfig : public ConfigFiles {
 protected:
  // Writes the config.toml of a run that was started here, with a path of its own.
  void keep(const std::string& folder, const std::string& run_dir) {
    const Config config = load_text(run_dir + "\n[task]\nplugin = 't'\n[plugins]\npaths = ['more']\n");
    write(folder + "/config.toml", stored_config(config, config.to_toml(true), folder));
  }
  Config load_run(const std::string& file, Strings sets = {}) const {
    return load({.file = file, .sets = std::move(sets), .stage = ""});
  }
  std::string here(const std::string& path) const { return folder_.path() / path; }
};

TEST_F(RunConfig, LoadsByTheNameOfItsFolder) {
  for (const char* run_dir : {"run.dir = 'runs/x'", ""}) {
    keep("runs/x", run_dir);
    const Config config = load_run("runs/x/");
    EXPECT_EQ(config.file(), "runs/x/config.toml");
    EXPECT_EQ(config.find_path("run.dir"), here("runs/x"));
    EXPECT_EQ(config.get_path_list("plugins.paths"), Strings{here("more")});
    EXPECT_EQ(load_run("runs/x", {"run.dir=runs/other"}).find_path("run.dir"), here("runs/other"));
  }
}

TEST_F(RunConfig, ItsPathsAreRelativeToWhereItWasStarted) {
  keep("runs/x", "run.dir = 'runs/x'");
  fs::create_directory("elsewhere");
  fs::current_path("elsewhere");
  const Config config = load_run("../runs/x", {"run.cache_dir=cache"});
  EXPECT_EQ(config.find_path("run.dir"), here("runs/x"));
  EXPECT_EQ(config.get_path_list("plugins.paths"), Strings{here("more")});
  EXPECT_EQ(config.find_path("run.cache_dir"), here("elsewhere/cache")) << "of the command line, as ever";
  // A configuration that was loaded so may be kept again.
  const std::string kept = stored_config(config, config.to_toml(true), "../runs/x");
  EXPECT_EQ(kept.substr(0, kept.find('#')), "started_in = \"../..\"  ");
  EXPECT_NE(kept.find("paths = [\"more\"]"), std::string::npos) << kept;
  EXPECT_NE(kept.find("cache_dir = \"" + here("elsewhere/cache")), std::string::npos) << kept;
  fs::current_path(here("runs/x"));
  EXPECT_EQ(load_run(".").get_path_list("plugins.paths"), Strings{here("more")});
}

TEST_F(RunConfig, ADefaultThatWasKeptWasNotSet) {
  keep("runs/x", "optimizer.lr = 0.5");
  const Config config = load_run("runs/x");
  EXPECT_TRUE(config.is_set("optimizer.lr"));
  EXPECT_FALSE(config.is_set("optimizer.momentum"));
  EXPECT_EQ(config.show("run.dir"), "\"runs/x\"");
}

// On another number of processes "auto" may be another strategy, and no backend.
TEST_F(RunConfig, OptionsOfTheStrategyThatItHadAreNoneOfAnother) {
  const std::string text = "[task]\nplugin = 't'\n[strategy]\nplugin = 'auto'\noverlap = true\nzebra = 1\n";
  const FindOwners owners = [](std::string_view) -> Owners { return {{"overlap", {"ddp"}}}; };
  const auto problems = [&](const std::string& file) {
    return problems_of([&] { load_run(file).plugin("strategy", task_options(), owners); });
  };
  write("x.toml", text);
  EXPECT_NE(problems("x.toml").find("overlap = true: unknown key: it is an option of the strategy ddp"),
            std::string::npos);
  write("runs/x/config.toml", text);
  EXPECT_EQ(problems("runs/x").find("overlap"), std::string::npos) << problems("runs/x");
  EXPECT_NE(problems("runs/x").find("strategy.zebra = 1: unknown key"), std::string::npos)
      << problems("runs/x");
}

// A kept default is not replaced by the model's value, unless the option must be the model's.
TEST_F(RunConfig, ADefaultThatWasKeptIsAValueThatItHad) {
  const Config config = load_text("[task]\nplugin = 't'\ndata.train = 'a.csv'\n");
  const pl_config task = config.plugin("task", task_options());
  const PluginConfig* plugins[] = {&task};
  write("runs/x/config.toml", stored_config(config, config.to_toml(true, plugins), "runs/x"));
  const std::vector<ModelOption> model{{.key = "model.n_head", .value = "20", .from = "m", .must_be = true},
                                       {.key = "model.bias", .value = "false", .from = "m"}};
  const auto bias = [&](const Config& now) {
    return now.plugin("task", task_options(), {}, model).get_bool("model.bias");
  };
  EXPECT_FALSE(bias(config));
  EXPECT_TRUE(bias(load_run("runs/x")));
  EXPECT_EQ(load_run("runs/x").plugin("task", task_options(), {}, model).get_int("model.n_head"), 20);
}

TEST_F(RunConfig, WhereItBeganIsAFolder) {
  write("runs/x/config.toml", "started_in = 5\n[task]\nplugin = 't'\n");
  EXPECT_EQ(
      problems_of([&] { load_run("runs/x"); }),
      "runs/x/config.toml:1: started_in = 5: must be the folder that paths are relative to, is an integer");
}

// A run that begins elsewhere with the weights of another one, by the command line.
TEST_F(RunConfig, InitFromOfTheCommandLineIsKeptAsThatFolder) {
  keep("runs/x", "run.dir = 'runs/x'");
  fs::create_directory("elsewhere");
  fs::current_path("elsewhere");
  const Config config = load_run("../runs/x", {"train.init_from=theirs", "run.dir=y"});
  EXPECT_EQ(config.get_string("train.init_from"), here("elsewhere/theirs"));
}

TEST_F(RunConfig, APathThatFollowsAnotherRunIsThatFile) {
  const std::vector<pl_option> options{make_option("tokenizer", PL_OPTION_PATH, "")};
  const Config config = load_text("[task]\nplugin = 't'\n");
  const auto following = [&](const std::string& base) {
    const std::vector<ModelOption> model{{.key = "tokenizer", .value = "'it'", .from = "m", .base = base}};
    return config.plugin("task", options, {}, model);
  };
  const pl_config same = following(""), below = following(here("sub")), far = following("/far");
  EXPECT_EQ(same.get_string("tokenizer"), "it");
  EXPECT_EQ(below.get_string("tokenizer"), "sub/it");
  EXPECT_EQ(below.find_path("tokenizer"), here("sub/it"));
  EXPECT_EQ(far.get_string("tokenizer"), "/far/it");
  // A run that goes on elsewhere has not changed.
  const PluginConfig *then[] = {&same}, *now[] = {&far};
  EXPECT_TRUE(differences(config.to_toml(true, then), config, now).empty());
}

TEST_F(RunConfig, TheFolderMayBeMoved) {
  keep("a/runs/x", "run.dir = 'a/runs/x'");
  fs::rename("a/runs/x", "a/runs/y");
  EXPECT_EQ(load_run("a/runs/y").find_path("run.dir"), here("a/runs/y"));
  EXPECT_EQ(load_run("a/runs/y").get_path_list("plugins.paths"), Strings{here("more")});
}

TEST_F(RunConfig, OutsideOfWhereItWasStartedThatIsKeptWhole) {
  fs::create_directory("project");
  fs::current_path("project");
  keep("../scratch/x", "run.dir = '../scratch/x'");
  fs::current_path("..");
  EXPECT_EQ(load_run("scratch/x").get_path_list("plugins.paths"), Strings{here("project/more")});
}

TEST_F(RunConfig, ACopyIsAConfigurationLikeAnyOther) {
  keep("runs/x", "run.dir = 'runs/x'");
  fs::create_directory("configs");
  fs::copy_file("runs/x/config.toml", "configs/copy.toml");
  EXPECT_EQ(problems_of([&] { load_run("configs/copy.toml"); }),
            "configs/copy.toml:1: started_in = \"../..\": counts in the folder of a run alone: name that "
            "folder in place of the file, or remove this line from a copy: its paths are relative to where "
            "the program is started");
  std::ifstream file("runs/x/config.toml");
  const std::string kept(std::istreambuf_iterator<char>(file), {});
  write("configs/copy.toml", kept.substr(kept.find('\n')));
  EXPECT_EQ(load_run("configs/copy.toml").find_path("run.dir"), here("runs/x"));
  EXPECT_EQ(load_run("configs/copy.toml").get_path_list("plugins.paths"), Strings{here("more")});
  write("runs/x/.lock", "");
  fs::rename("runs/x", "runs/y");
  EXPECT_EQ(load_run("runs/y/config.toml").find_path("run.dir"), here("runs/y"))
      << "this one is the run's own";
}

TEST_F(RunConfig, OfOneStageIsInTheRunsFolder) {
  const Config config = load_text("[task]\nplugin = 't'\n[[stage]]\nname = 'a'\n[[stage]]\nname = 'b'\n");
  write("runs/x/config.toml", stored_config(config, config.to_toml(true), "runs/x"));
  write("runs/x/b/config.toml", stored_config(config, config.for_stage("b").to_toml(true), "runs/x/b"));
  const Config whole = load_run("runs/x"), one = load_run("runs/x/b");
  EXPECT_EQ(whole.stage_names(), (Strings{"a", "b"}));
  EXPECT_EQ(one.stage_names(), Strings{"b"});
  EXPECT_EQ(whole.find_path("run.dir"), here("runs/x"));
  EXPECT_EQ(one.find_path("run.dir"), here("runs/x"));
  EXPECT_FALSE(whole.is_of_one_stage());
  EXPECT_TRUE(one.is_of_one_stage());
  fs::rename("runs/x/b", "runs/x/c");
  EXPECT_EQ(problems_of([&] { load_run("runs/x/c"); }),
            "runs/x/c/config.toml: is of the stage b, so its folder must be called that, and lie in the "
            "folder of the run");
}

TEST_F(RunConfig, AFolderThatIsNoRunIsNamed) {
  fs::create_directory("configs");
  EXPECT_EQ(problems_of([&] { load_run("configs"); }),
            "configs: is a folder without a config.toml: name a .toml file, or the folder of a run, or of a "
            "stage of it, that has begun to train");
}

TEST_F(RunConfig, AModelsFolderIsWhatARunBeginsWith) {
  fs::create_directory("esm2");
  std::ofstream("esm2/config.json") << "{}";
  EXPECT_EQ(problems_of([&] { load_run("esm2"); }),
            "esm2: is the folder of a model, which a run begins with: name a .toml file that says what is "
            "learnt, with train.init_from = \"esm2\"; evaluate, predict and export take the folder itself");
}

}  // namespace
}  // namespace pipeline::config
