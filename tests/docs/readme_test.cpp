// The READMEs say what is so: their commands are accepted, their code is the code, what they name exists.
#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <test_paths.hpp>

#include "tests/e2e/program.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Words = std::vector<std::string>;

const fs::path kRoot = PIPELINE_SOURCE_DIR;

// The program as a reader of the README starts it: in the checkout, with the plugins beside it.
Result run(Words arguments) {
  ::unsetenv("PIPELINE_PLUGIN_PATH");
  arguments.insert(arguments.begin(), PIPELINE_EXECUTABLE);
  return Process(arguments, kRoot).wait();
}

// The text of each ```LANGUAGE block.
Words blocks(const std::string& markdown, const std::string& language) {
  Words found;
  const std::string open = "\n```" + language + "\n", close = "\n```\n";
  for (size_t at = markdown.find(open); at != std::string::npos; at = markdown.find(open, at)) {
    at += open.size();
    const size_t end = markdown.find(close, at - 1);
    if (end == std::string::npos) throw std::runtime_error("a block of code does not end");
    found.push_back(markdown.substr(at, end + 1 - at));
    at = end;
  }
  return found;
}

// The arguments of every line `scripts/pipeline ...`, comments cut off.
std::vector<Words> commands(const std::string& markdown) {
  std::vector<Words> found;
  for (const std::string& block : blocks(markdown, "sh")) {
    std::istringstream lines(block);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream text(line.substr(0, line.find('#')));
      Words words;
      for (std::string word; text >> std::quoted(word);) words.push_back(word);
      if (words.empty() || words.front() != "scripts/pipeline") continue;
      words.erase(words.begin());
      found.push_back(std::move(words));
    }
  }
  return found;
}

// Every match's first group.
Words matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  Words found;
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match)
    found.push_back((*match)[1]);
  return found;
}

// A command that works on a run is not run: its options must be in its help, and its configuration must pass
// the check.
void expect_accepted(const Words& command) {
  const std::string& verb = command.front();
  static const std::set<std::string> kOnRuns{"run",    "evaluate", "predict", "export", "compare",
                                             "report", "ls",       "status",  "plan",   "find-lr"};
  if (!kOnRuns.contains(verb)) {
    const Result result = run(command);
    EXPECT_EQ(result.code, 0) << result.err;
    return;
  }
  const Result help = run({verb, "--help"});
  ASSERT_EQ(help.code, 0) << help.err;
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
    if (word == "--set") {
      ASSERT_LT(i + 1, command.size());
      check.insert(check.end(), {word, command[i + 1]});
    }
    if (word.ends_with(".toml")) check.push_back(word);
  }
  const bool needs_file = verb == "run" || verb == "evaluate" || verb == "predict" || verb == "export" ||
                          verb == "plan" || verb == "find-lr";
  if (check.size() == 1 && !needs_file) return;  // it works on folders
  const Result result = run(check);
  EXPECT_EQ(result.code, 0) << result.err;
}

class Readme : public testing::TestWithParam<const char*> {
 protected:
  std::string text() const { return read_text(kRoot / GetParam()); }
};

TEST_P(Readme, CommandsAreAccepted) {
  for (const Words& command : commands(text())) {
    std::string line;
    for (const std::string& word : command) line += " " + word;
    SCOPED_TRACE(std::string(GetParam()) + ": scripts/pipeline" + line);
    ASSERT_FALSE(command.empty());
    expect_accepted(command);
  }
}

TEST_P(Readme, LinksLeadSomewhere) {
  const fs::path folder = (kRoot / GetParam()).parent_path();
  for (const std::string& link : matches(text(), R"(\]\(([^):#]+)\))"))
    EXPECT_TRUE(fs::exists(folder / link)) << GetParam() << ": " << link;
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
                                         "scripts/bench/README.md", "plugins/strategies/README.md",
                                         "plugins/tasks/protein/README.md",
                                         "plugins/tasks/protein/data/README.md",
                                         "plugins/tasks/summarization/README.md"));

TEST(MainReadme, HasTheCommandsOfTheTour) {
  Words verbs;
  for (const Words& command : commands(read_text(kRoot / "README.md"))) verbs.push_back(command.front());
  for (const char* verb : {"run", "check", "plugins", "explain", "devices", "evaluate", "predict", "export",
                           "compare", "report", "plan", "find-lr"})
    EXPECT_THAT(verbs, testing::Contains(verb));
}

TEST(MainReadme, QuotesTheTemplateAsItIs) {
  EXPECT_THAT(blocks(read_text(kRoot / "README.md"), "cpp"),
              testing::ElementsAre(read_text(kRoot / "plugins/template/template.cpp")));
}

TEST(ConfigsReadme, IsWhatExplainPrints) {
  const Result printed = run({"explain", "--readme", "configs"});
  ASSERT_EQ(printed.code, 0) << printed.err;
  EXPECT_EQ(read_text(kRoot / "configs/README.md"), printed.out)
      << "options or configurations have changed: pipeline explain --readme configs > configs/README.md";
}

}  // namespace
}  // namespace pipeline::tests
