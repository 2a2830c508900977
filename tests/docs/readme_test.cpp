// The READMEs say what is so: their commands are accepted, their code is the code, what they name exists.
#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string>

#include <gmock/gmock.h>

#include "tests/docs/document.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A task in Python needs a Python with torch: tests/python runs those.
bool is_python(const Words& command) {
  return std::ranges::any_of(command, [](const std::string& word) {
    return word.starts_with("configs/python/") || word.ends_with(".py");
  });
}

// What stands for a configuration where a command names the folder of a model in its place: such a task, with
// what `check` wants of one that trains.
std::string instead_of(const std::string& model) {
  const std::string data = "data.train = \"train.jsonl\"\n";
  return std::string("train.max_steps = 1\n[task]\n") +
         (model.starts_with("models/esm2")    ? "plugin = \"protein\"\npdb_path = \"structures\"\n"
          : model.starts_with("models/llava") ? "plugin = \"vlm\"\n" + data
                                              : "plugin = \"chat\"\n" + data);
}

// A command that works on a run is not run: its options must be in its help, and its configuration must pass
// the check.
void expect_accepted(const Checkout& checkout, const Words& command) {
  const std::string& verb = command.front();
  static const std::set<std::string> kOnRuns{"run",     "evaluate", "predict", "export", "compare",
                                             "report",  "csv",      "ls",      "status", "plan",
                                             "find-lr", "chat",     "sweep",   "gguf",   "verify"};
  if (!kOnRuns.contains(verb)) {
    checkout.run(command).ended(0);
    return;
  }
  const Result help = checkout.run({verb, "--help"}).ended(0);
  Words check = {"check"};
  for (size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (verb == "predict" && word.starts_with("--") &&
        help.out.find("  " + word + " ") == std::string::npos) {
      ASSERT_LT(i + 1, command.size());  // one of what the task can be asked
      check.insert(check.end(), {"--set", "task.ask." + word.substr(2) + "=\"" + command[++i] + "\""});
    } else if (word.starts_with("-")) {
      EXPECT_THAT(help.out, HasSubstr("  " + word + " ")) << verb << " has no such option";
    }
    if (word == "--set" && verb != "sweep") {  // which takes several values
      ASSERT_LT(i + 1, command.size());
      check.insert(check.end(), {word, command[i + 1]});
    }
    if (word.ends_with(".toml")) check.push_back(word);
  }
  if (command.size() > 1 && command[1].starts_with("models/")) {
    write_text(checkout.path() / "of-model.toml", instead_of(command[1]));
    check.push_back("of-model.toml");
  }
  const bool needs_file = verb == "run" || verb == "evaluate" || verb == "predict" || verb == "export" ||
                          verb == "plan" || verb == "find-lr";
  if (check.size() == 1 && !needs_file) return;  // it works on folders
  static std::set<Words> accepted;
  if (!accepted.insert(check).second) return;
  checkout.run(check).ended(0);
}

class Readme : public testing::TestWithParam<std::string> {
 protected:
  std::string text() const { return read_text(kRoot / GetParam()); }
};

TEST_P(Readme, CommandsAreAccepted) {
  const Checkout checkout(text());
  for (const Words& command : commands(text())) {
    std::string line;
    for (const std::string& word : command) line += " " + word;
    SCOPED_TRACE(GetParam() + ": scripts/pipeline" + line);
    ASSERT_FALSE(command.empty());
    if (!is_python(command)) expect_accepted(checkout, command);
  }
}

TEST_P(Readme, LinksLeadSomewhere) {
  const fs::path file = kRoot / GetParam();
  for (const std::string& link : matches(text(), R"(\]\(([^):]+)\))")) {
    const size_t hash = std::min(link.find('#'), link.size());
    const fs::path target = hash == 0 ? file : file.parent_path() / link.substr(0, hash);
    ASSERT_TRUE(fs::exists(target)) << GetParam() << ": " << link;
    if (hash == link.size()) continue;
    EXPECT_THAT(anchors(read_text(target)), testing::Contains(link.substr(hash + 1)))
        << GetParam() << ": " << link;
  }
}

TEST_P(Readme, FilesOfThisProjectExist) {
  for (const std::string& path :
       matches(text(), R"(`((?:core|plugins|backends|configs|scripts|tests|cmake)/[A-Za-z0-9_./-]+)[` ])"))
    EXPECT_TRUE(fs::exists(kRoot / path)) << GetParam() << ": " << path;
}

TEST_P(Readme, TestsThatItNamesExist) {
  std::string sources;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "tests"))
    if (entry.path().extension() == ".cpp") sources += read_text(entry.path());
  const std::string all = text();
  const std::regex named("`([A-Z][A-Za-z]+)\\.([A-Z][A-Za-z0-9]+|[a-z]+(?:_[a-z]+)+)`");
  for (std::sregex_iterator match(all.begin(), all.end(), named), end; match != end; ++match)
    EXPECT_TRUE(sources.find("(" + (*match)[1].str() + ", " + (*match)[2].str() + ")") != std::string::npos)
        << GetParam() << ": there is no test " << match->str();
}

INSTANTIATE_TEST_SUITE_P(All, Readme,
                         testing::Values("README.md", "configs/README.md", "core/README.md",
                                         "core/abi/README.md", "scripts/bench/README.md",
                                         "plugins/strategies/README.md", "plugins/tasks/protein/README.md",
                                         "plugins/data/structures/README.md",
                                         "plugins/tasks/summarization/README.md"));
INSTANTIATE_TEST_SUITE_P(Guides, Readme, testing::ValuesIn(guides()));

TEST(MainReadme, HasTheCommandsOfTheTour) {
  Words verbs;
  for (const Words& command : commands(read_text(kRoot / "README.md"))) verbs.push_back(command.front());
  for (const char* verb : {"run", "check", "plugins", "explain", "devices", "evaluate", "predict", "export",
                           "compare", "report", "plan", "find-lr"})
    EXPECT_THAT(verbs, testing::Contains(verb));
}

TEST(MainReadme, IsReadInTwoMinutes) {
  EXPECT_LE(std::ranges::count(read_text(kRoot / "README.md"), '\n'), 180);
}

TEST(MainReadme, QuotesTheExampleAsItIs) {
  EXPECT_THAT(blocks(read_text(kRoot / "README.md"), "python"),
              testing::ElementsAre(read_text(kRoot / "configs/python/sine.py")));
}

TEST(PythonGuide, QuotesTheExampleAsItIs) {
  EXPECT_THAT(blocks(read_text(kRoot / "docs/python.md"), "python"),
              testing::Contains(read_text(kRoot / "configs/python/causal_lm.py")));
}

TEST(CppGuide, QuotesTheTemplateAsItIs) {
  EXPECT_THAT(blocks(read_text(kRoot / "docs/cpp.md"), "cpp"),
              testing::ElementsAre(read_text(kRoot / "plugins/template/template.cpp")));
}

TEST(ConfigsReadme, IsWhatExplainPrints) {
  const Result printed = Checkout("").run({"explain", "--readme", "configs"}).ended(0);
  EXPECT_EQ(read_text(kRoot / "configs/README.md"), printed.out)
      << "options or configurations have changed: pipeline explain --readme configs > configs/README.md";
}

TEST(ConfigsSchema, IsWhatExplainPrints) {
  const Result printed = Checkout("").run({"explain", "--schema"}).ended(0);
  EXPECT_TRUE(read_text(kRoot / "configs/pipeline.schema.json") == printed.out)
      << "options have changed: pipeline explain --schema > configs/pipeline.schema.json";
}

TEST(ConfigsSchema, IsNamedByEveryConfiguration) {
  int configurations = 0;
  for (const auto& entry : fs::directory_iterator(kRoot / "configs")) {
    if (entry.path().extension() == ".toml") {
      ++configurations;
      EXPECT_TRUE(read_text(entry.path()).starts_with("#:schema ./pipeline.schema.json\n")) << entry.path();
    }
  }
  EXPECT_GT(configurations, 10);
}

}  // namespace
}  // namespace pipeline::tests
