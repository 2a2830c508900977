#include "core/plugins/registry.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/plugins/zoo.hpp"

namespace pipeline::plugins {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A folder of its own for each test, with links to plugins of the zoo.
class RegistryTest : public ::testing::Test {
 protected:
  RegistryTest() : folder_(fs::path(::testing::TempDir()) / ("registry-" + std::to_string(::getpid()))) {
    ::unsetenv("PIPELINE_PLUGIN_PATH");
    fs::create_directories(folder_);
  }
  ~RegistryTest() override { fs::remove_all(folder_); }

  // A copy, not a link: two files are two plugins.
  fs::path put(const std::string& plugin, const fs::path& place) {
    fs::create_directories(folder_ / place);
    const fs::path file = folder_ / place / (plugin + ".so");
    fs::copy_file(zoo(plugin), file);
    return file;
  }
  Registry registry(std::vector<std::string> places = {""}) {
    std::vector<SearchFolder> folders;
    for (const std::string& place : places) folders.push_back({folder_ / place, "test"});
    return Registry(folders);
  }
  std::string error_of(Registry registry, Kind kind, const std::string& name) {
    try {
      registry.find(kind, name);
      return {};
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), PL_ERROR_CONFIG);
      return e.what();
    }
  }

  fs::path folder_;
};

TEST_F(RegistryTest, FindsInTheKindsFolderAndInTheFlatOne) {
  put("good", "tasks");
  put("newer_minor", "");
  Registry found = registry();
  EXPECT_EQ(found.find(Kind::kTask, "good").name(), "good");
  EXPECT_EQ(found.find(Kind::kTask, "newer_minor").name(), "newer_minor");
  EXPECT_EQ(&found.find(Kind::kTask, "good"), &found.find(Kind::kTask, "good"));
}

TEST_F(RegistryTest, FindingOneLoadsNoOther) {
  put("good", "tasks");
  put("exits", "tasks");
  put("hangs", "");
  EXPECT_EQ(registry().find(Kind::kTask, "good").name(), "good");
}

TEST_F(RegistryTest, TwoOfOneNameAreAnErrorThatListsBoth) {
  const fs::path first = put("good", "a/tasks"), second = put("good", "b");
  EXPECT_EQ(error_of(registry({"a", "b"}), Kind::kTask, "good"),
            "task.plugin = \"good\": 2 files have this name, must be one; remove or rename the others, or "
            "leave out their folders:\n  " +
                first.string() + " (test)\n  " + second.string() + " (test)");
  EXPECT_EQ(registry({"a", "b"}).files("good"), (std::vector<fs::path>{first, second}));
}

TEST_F(RegistryTest, OneFileInTwoFoldersIsNoDuplicate) {
  put("good", "a");
  EXPECT_EQ(registry({"a", "a"}).find(Kind::kTask, "good").name(), "good");
  EXPECT_EQ(registry({"a", "a"}).list().size(), 1u);
}

TEST_F(RegistryTest, AMisspeltNameIsAnsweredWithTheNearestAndTheFolders) {
  put("good", "tasks");
  put("newer_minor", "tasks");
  EXPECT_EQ(error_of(registry(), Kind::kTask, "newer_minro"),
            "task.plugin = \"newer_minro\": no task of this name; did you mean \"newer_minor\"?\nSearched "
            "for tasks/newer_minro.so and newer_minro.so in:\n  " +
                (folder_ / "").string() + " (test)");
  EXPECT_THAT(error_of(registry(), Kind::kTask, "protein"),
              HasSubstr("; there are: good, newer_minor, python\n"));
  EXPECT_THAT(error_of(registry({"none"}), Kind::kTask, "protein"), HasSubstr("; there is no task at all\n"));
  EXPECT_THAT(error_of(registry({"none"}), Kind::kTask, "protein"), HasSubstr("none (test, not there)"));
}

TEST_F(RegistryTest, WhatACheckoutCanBuildIsKnownBeforeItIs) {
  put("good", "tasks");
  std::ofstream(folder_ / "plugins.txt") << "tasks/protein\ntasks/vlm\nstrategies/ddp\n";
  EXPECT_THAT(error_of(registry(), Kind::kTask, "protien"), HasSubstr("; did you mean \"protein\"?\n"));
  EXPECT_THAT(error_of(registry(), Kind::kTask, "xxxxxx"),
              HasSubstr("; there are: good, protein, python, vlm\n"));
  EXPECT_THAT(error_of(registry(), Kind::kTask, "vlm"),
              HasSubstr("; it is not built: run the command with "));
  EXPECT_THAT(error_of(registry(), Kind::kStrategy, "dpd"), HasSubstr("; did you mean \"ddp\"?\n"));
}

TEST_F(RegistryTest, ATaskIsNoStrategy) {
  const fs::path file = put("good", "");
  EXPECT_EQ(error_of(registry(), Kind::kStrategy, "good"),
            "strategy.plugin = \"good\": " + file.string() + " is a task, must be a strategy");
}

TEST_F(RegistryTest, ListShowsGoodAndBadAndSurvivesBoth) {
  put("good", "tasks");
  put("crashes", "tasks");
  put("exits", "tasks");
  put("missing_slot", "tasks");
  put("newer_minor", "strategies");
  put("prints", "");
  std::map<std::string, Listing> by_name;
  for (const Listing& listing : registry().list()) by_name[listing.name] = listing;
  EXPECT_EQ(by_name.size(), 6u);
  EXPECT_EQ(by_name["good"].problem, "");
  EXPECT_EQ(by_name["good"].kind, "task");
  EXPECT_EQ(by_name["good"].version, "1.2");
  EXPECT_EQ(by_name["good"].abi, std::to_string(PL_ABI_MAJOR) + "." + std::to_string(PL_ABI_MINOR));
  EXPECT_EQ(by_name["good"].options, "");
  EXPECT_THAT(by_name["crashes"].problem, HasSubstr("ended by signal 6"));
  EXPECT_EQ(by_name["exits"].problem, "ended the process with exit code 3");
  EXPECT_EQ(by_name["missing_slot"].problem, "the required slot 'train' of its pl_task_api is NULL");
  EXPECT_EQ(by_name["newer_minor"].problem, "is a task, but lies in a folder for the kind strategy");
  EXPECT_EQ(by_name["prints"].kind, "task");
}

TEST_F(RegistryTest, ALinkToNothingIsFoundAndNamed) {
  fs::create_symlink("nowhere.so", folder_ / "lost.so");
  const std::string file = (folder_ / "lost.so").string();
  EXPECT_EQ(error_of(registry(), Kind::kTask, "lost"),
            file + ": is a link to nowhere.so, which is not there");
  EXPECT_EQ(registry().list().front().problem, "is a link to nowhere.so, which is not there");
}

TEST_F(RegistryTest, ListMarksBothOfOneName) {
  const fs::path first = put("needs_option", "a"), second = put("needs_option", "b/tasks");
  const std::vector<Listing> listings = registry({"a", "b"}).list();
  ASSERT_EQ(listings.size(), 2u);
  EXPECT_EQ(listings[0].problem, "cannot be used: " + second.string() + " has the same name");
  EXPECT_EQ(listings[1].problem, "cannot be used: " + first.string() + " has the same name");
  EXPECT_THAT(listings[0].options, HasSubstr("required"));
}

TEST_F(RegistryTest, RootRefusesWhatOthersCanChange) {
  const fs::path file = put("good", "tasks");
  const auto problem = [&](uid_t owner, mode_t mode, uid_t user) {
    struct stat info {};
    info.st_uid = owner;
    info.st_gid = 50;
    info.st_mode = S_IFREG | mode;
    return trust_problem(info, user);
  };
  EXPECT_EQ(problem(0, 0755, 0), "");
  EXPECT_EQ(problem(1000, 0777, 1000), "");
  EXPECT_THAT(problem(1000, 0755, 0), HasSubstr("belongs to user 1000"));
  EXPECT_THAT(problem(0, 0775, 0), HasSubstr("by group 50 (mode 775)"));
  EXPECT_THAT(problem(0, 0757, 0), HasSubstr("by everybody (mode 757)"));
  if (::geteuid() != 0) return;  // the rest needs root
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  EXPECT_THAT(error_of(registry(), Kind::kTask, "good"), HasSubstr(file.string() + ": can be written to"));
  EXPECT_THAT(registry().list().front().problem, HasSubstr("chmod go-w"));
}

TEST_F(RegistryTest, SearchOrderIsGivenThenEnvironmentThenBesideTheProgram) {
  for (const char* name : {"given", "one", "two"}) fs::create_directories(folder_ / name);
  const std::string path = (folder_ / "one").string() + "::" + (folder_ / "two").string();
  ::setenv("PIPELINE_PLUGIN_PATH", path.c_str(), 1);
  const std::vector<SearchFolder> folders = search_folders({{folder_ / "given", "plugins.paths"}});
  ASSERT_EQ(folders.size(), 4u);
  EXPECT_EQ(folders[0].path, folder_ / "given");
  EXPECT_EQ(folders[0].origin, "plugins.paths");
  EXPECT_EQ(folders[1].path, folder_ / "one");
  EXPECT_EQ(folders[1].origin, "PIPELINE_PLUGIN_PATH");
  EXPECT_EQ(folders[2].path, folder_ / "two");
  EXPECT_EQ(folders[3].origin, "beside the program");
  EXPECT_TRUE(folders[3].path.string().ends_with("lib/pipeline/plugins"));
}

TEST_F(RegistryTest, AFolderThatIsNotThereIsAnError) {
  const auto message = [](const std::vector<SearchFolder>& given) {
    try {
      search_folders(given);
      return std::string();
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  EXPECT_EQ(message({{"no/such/folder", "plugins.paths"}}),
            "plugins.paths = no/such/folder: there is no such folder");
  std::ofstream(folder_ / "file") << "x";
  EXPECT_THAT(message({{folder_ / "file", "--plugin-path"}}),
              HasSubstr("must be a folder that holds plugins"));
  ::setenv("PIPELINE_PLUGIN_PATH", "no/such/folder", 1);
  EXPECT_EQ(message({}), "PIPELINE_PLUGIN_PATH = no/such/folder: there is no such folder");
}

}  // namespace
}  // namespace pipeline::plugins
