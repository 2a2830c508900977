#include "core/config/explain.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "core/config/option.hpp"
#include "tests/config/config_files.hpp"
#include "tests/config/plugin_options.hpp"

namespace pipeline::config {
namespace {

TEST(Explain, ListsKeyTypeDefaultAndHelpByTable) {
  static constexpr pl_str kChoices[] = {{"gelu", 4}, {"relu", 4}};
  pl_option options[] = {
      make_option("show", PL_OPTION_INT, "3", PL_OPTION_MAY_CHANGE | PL_OPTION_HAS_MINIMUM),
      make_option("data.train", PL_OPTION_PATH, "", PL_OPTION_REQUIRED),
      make_option("data.files", PL_OPTION_STRING_LIST, "[\"a long default\", \"that needs a line\"]"),
      make_option("model.activation", PL_OPTION_STRING, "\"gelu\"")};
  options[0].unit = str("samples");
  options[0].help = str("how many to show");
  options[1].help =
      str("pairs to learn from, one object in a line, with a document and its summary in columns that can be "
          "named");
  options[3].choices = kChoices;
  options[3].choice_count = 2;
  EXPECT_EQ(explain(options, "task.", 80),
            "[task]\n"
            "show*       integer          3                 how many to show (samples, >= 0)\n"
            "\n"
            "[task.data]\n"
            "train       path             required          pairs to learn from, one object\n"
            "                                               in a line, with a document and\n"
            "                                               its summary in columns that can\n"
            "                                               be named\n"
            "files       list of strings  [\"a long default\", \"that needs a line\"]\n"
            "                                               help\n"
            "\n"
            "[task.model]\n"
            "activation  string           \"gelu\"            help (gelu or relu)\n"
            "\n"
            "* may change when a run is continued\n");
}

TEST(Explain, FitsTheWidthAndNamesEveryKey) {
  std::istringstream lines(explain(core_options()));
  size_t keys = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100u) << line;
    if (!line.empty() && line[0] != ' ' && line[0] != '[' && line[0] != '*' && line[0] != '+') ++keys;
  }
  EXPECT_EQ(keys, core_options().size());
}

TEST(Explain, MarksWhatMayChangeByNameOfTheCoreAlone) {
  const pl_option option = make_option("lr", PL_OPTION_FLOAT, "1.0", kChangesByName);
  EXPECT_NE(explain(std::span(&option, 1), "").find("lr+ "), std::string::npos);
  EXPECT_NE(explain(std::span(&option, 1), "").find("\n+ may, if named: "), std::string::npos);
  EXPECT_EQ(explain(std::span(&option, 1), "task.").find('+'), std::string::npos);
}

TEST(Explain, MarkdownIsOneRowForEachOption) {
  pl_option option = make_option("a|b", PL_OPTION_INT, "3", PL_OPTION_MAY_CHANGE);
  option.help = str("this | that");
  EXPECT_EQ(explain_markdown(std::span(&option, 1), "task."),
            "| key | type | default | meaning |\n"
            "| --- | --- | --- | --- |\n"
            "| `task.a|b`* | integer | `3` | this \\| that |\n");
}

using Readme = ConfigFiles;

TEST_F(Readme, ListsTheFilesWithTheirFirstCommentAndAllOptions) {
  write("configs/b.toml", "# Trains B,\n#   slowly.\n\n# not this\n[train]\n");
  write("configs/a.toml", "[train]\n");
  write("configs/notes.txt", "");
  const std::vector<ConfigFile> files = list_configs("configs");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].name, "a.toml");
  EXPECT_EQ(files[0].summary, "");
  EXPECT_EQ(files[1].summary, "Trains B, slowly.");

  const auto options = task_options();
  const PluginSchema plugins[] = {{"task", "tiny", "A tiny task", {options.begin(), options.end()}},
                                  {"backend", "gloo", "Over TCP", {}}};
  const std::string readme = configs_readme(files, core_options(), plugins);
  EXPECT_NE(readme.find("- [`a.toml`](a.toml)\n- [`b.toml`](b.toml): Trains B, slowly.\n"),
            std::string::npos);
  EXPECT_NE(
      readme.find("| `train.max_steps`* | integer | - | end after this many optimizer steps (steps, >= 1) |"),
      std::string::npos);
  EXPECT_NE(readme.find("## `task.plugin = \"tiny\"`\n\nA tiny task\n\n| key |"), std::string::npos);
  EXPECT_NE(readme.find("| `task.data.train` | path | required | help |"), std::string::npos);
  EXPECT_TRUE(readme.ends_with("## `backend.plugin = \"gloo\"`\n\nOver TCP\n"));
  EXPECT_EQ(problems_of([] { list_configs("nowhere"); }),
            "nowhere: cannot be listed: No such file or directory");
}

}  // namespace
}  // namespace pipeline::config
