// `pipeline new`: which files it makes, and what it refuses.
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <test_paths.hpp>

#include "core/base/error.hpp"
#include "core/templates/project.hpp"
#include "tests/e2e/program.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using plugins::Kind;
using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  Kind kind;
  const char* language;
  const char* old_name;  // the name as a string in the tree's source
};

TEST(Templates, AreRenamedThroughout) {
  for (const Case& each : {Case{Kind::kTask, "c++", "template"}, Case{Kind::kTask, "c", "linear_regression"},
                           Case{Kind::kStrategy, "c++", "host_sgd"}, Case{Kind::kStrategy, "c", "plain_sgd"},
                           Case{Kind::kBackend, "c++", "\"shm\""}, Case{Kind::kOptimizer, "c++", "signum"},
                           Case{Kind::kOptimizer, "c", "sign_sgd"}}) {
    std::set<std::string> paths;
    std::string sources, build;
    for (const templates::File& file : templates::make_project(each.kind, each.language, "my_own")) {
      EXPECT_TRUE(paths.insert(file.path.string()).second) << file.path << " is there twice";
      EXPECT_THAT(file.text, Not(HasSubstr("@NAME@"))) << file.path;
      if (file.path == "CMakeLists.txt") build = file.text;
      if (file.path.extension() == ".toml" || file.path.extension() == ".md") continue;
      EXPECT_THAT(file.text, Not(HasSubstr(each.old_name))) << file.path;
      sources += file.text;
    }
    EXPECT_THAT(sources, HasSubstr("\"my_own\"")) << "no plugin is called so";
    for (const std::string& path : paths)
      EXPECT_EQ(build.find(' ' + path) != std::string::npos, path.ends_with(".cpp") || path.ends_with(".c"));
    for (const char* file : {"CMakeLists.txt", "README.md", "my_own.toml"}) EXPECT_TRUE(paths.contains(file));
  }
}

TEST(Templates, NamesAreIdentifiers) {
  for (const char* good : {"my_task", "a", "sine2"}) EXPECT_NO_THROW(templates::check_name(good)) << good;
  for (const char* bad : {"", "2sine", "_x", "My", "my-task", "a b", "../x", "a/b", "test", "auto", "ä"})
    EXPECT_THROW(templates::check_name(bad), Error) << bad;
}

std::string why_not(std::string_view name) {
  return message_of<Error>([&] { templates::check_name(name); });
}

TEST(Templates, NamesMeanNothingElse) {
  for (const char* word : {"class", "int", "template", "import", "lambda", "co_await", "not"})
    EXPECT_THAT(why_not(word), HasSubstr(std::string(": choose another, such as my_") + word));
  EXPECT_THAT(why_not("class"), HasSubstr("it is a reserved word of C, C++ or Python"));
  EXPECT_THAT(why_not("math"), HasSubstr("a header of the C library"));
  EXPECT_THAT(why_not("m"), HasSubstr("to CMake"));
  EXPECT_NO_THROW(templates::check_name("classes"));
}

// Names of plugins that are not built here are refused, too.
TEST(Templates, NamesAreNotThoseOfThisTreesPlugins) {
  int plugins = 0;
  for (const char* folder : {"plugins", "backends"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(PIPELINE_SOURCE_DIR) / folder)) {
      if (entry.path().filename() != "CMakeLists.txt") continue;
      const std::string build = read_text(entry.path());
      constexpr std::string_view kMakes = "pipeline_plugin(";
      for (size_t at = 0; (at = build.find(kMakes, at)) != std::string::npos;) {
        at += kMakes.size();
        if (build.substr(at, build.find(')', at) - at).find("TEST_ONLY") != std::string::npos) continue;
        ++plugins;
        EXPECT_THAT(why_not(std::string_view(build).substr(at, build.find(' ', at) - at)),
                    HasSubstr("a plugin of this name comes with pipeline"));
      }
    }
  EXPECT_GT(plugins, 5);
}

class New : public ::testing::Test {
 protected:
  // A refusal, which makes nothing.
  std::string refusal(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "new");
    const Result result = pipeline(arguments, folder_.path()).ended(2);
    return result.err;
  }
  TemporaryFolder folder_;
};

TEST_F(New, MakesAFolderWhoseTasksConfigurationIsRead) {
  const Result result =
      pipeline({"new", "task", "mine", "--language", "c", "--output", "some/where"}, folder_.path());
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("cd some/where/mine"));
  EXPECT_THAT(read_text(folder_.path() / "some/where/mine/mine.toml"), HasSubstr("plugin = \"mine\""));
}

TEST_F(New, OverwritesNothing) {
  fs::create_directories(folder_.path() / "mine");
  EXPECT_THAT(refusal({"task", "mine"}), HasSubstr("mine is there already"));
  EXPECT_TRUE(fs::is_empty(folder_.path() / "mine"));
  fs::create_symlink("nowhere", folder_.path() / "link");
  EXPECT_THAT(refusal({"task", "link"}), HasSubstr("link is there already"));
}

TEST_F(New, RefusesWhatCannotBeMade) {
  EXPECT_THAT(refusal({"task", "linear_regression"}), HasSubstr("tests/plugins/tasks/linear_regression.so"));
  EXPECT_THAT(refusal({"strategy", "linear_regression"}),
              HasSubstr("a plugin of this name is there already"));
  EXPECT_THAT(refusal({"task", "my-task"}), HasSubstr("'my-task' cannot be a plugin's name"));
  EXPECT_THAT(refusal({"tasks", "mine"}), HasSubstr("did you mean task?"));
  EXPECT_THAT(refusal({"strategy", "mine", "--language", "rust"}),
              HasSubstr("--language rust: a strategy is made in c++ or c"));
  write_text(folder_.path() / "file", "");
  EXPECT_THAT(refusal({"task", "mine", "--output", "file"}), HasSubstr("choose another --output"));
  EXPECT_THAT(refusal({"task", "mine", "--output", "/proc/none"}), HasSubstr("choose another --output"));
  EXPECT_THAT(refusal({"task", "mine", "--output", std::string(300, 'x')}),
              HasSubstr("File name too long: choose another --output"));
  EXPECT_FALSE(fs::exists(folder_.path() / "mine"));
}

}  // namespace
}  // namespace pipeline::tests
