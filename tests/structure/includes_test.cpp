#include <gmock/gmock.h>
#include <test_paths.hpp>

#include "tests/structure/includes.hpp"
#include "tests/structure/rooms.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

const fs::path kRoot = PIPELINE_SOURCE_DIR;

TEST(Includes, GoWhereTheTableLetsThem) {
  EXPECT_THAT(problems_with_includes(kRoot, read_all(kRoot / "tests/structure/includes.txt")), IsEmpty())
      << "what a folder may include is in tests/structure/includes.txt";
}

// A small tree: core/base, core/top above it, and a plugin.
class IncludeCheck : public testing::Test {
 protected:
  IncludeCheck() {
    for (const char* const folder : {"core/base", "core/top", "plugins/task", "backends"})
      fs::create_directories(fs::path(tree_.path()) / folder);
    tree_.write("core/base/error.hpp", "#include <string>\n");
    tree_.write("core/base/error.cpp", "#include \"core/base/error.hpp\"\n");
    tree_.write("core/top/run.cpp", "#include <fmt/format.h>\n\n#include \"core/base/error.hpp\"\n");
    tree_.write("plugins/task/task.hpp", "#include <torch/torch.h>\n");
    tree_.write("plugins/task/task.cpp", "#include \"task.hpp\"\n");
  }

  std::vector<std::string> problems(const std::string& table = kTable) const {
    return problems_with_includes(tree_.path(), table);
  }

  static constexpr const char* kTable = "core/base:\ncore/top: core/base  # errors\nplugins/task: LibTorch\n";
  FilesFolder tree_;
};

TEST_F(IncludeCheck, IsContentWithATreeThatKeepsToItsTable) { EXPECT_THAT(problems(), IsEmpty()); }

TEST_F(IncludeCheck, NamesFileLineAndTheFolderThatIsNotAllowed) {
  tree_.write("core/top/run.hpp", "");
  tree_.write("core/base/seed.cpp", "// why\n#  include \"core/top/run.hpp\"\n");
  EXPECT_THAT(problems(), ElementsAre("core/base/seed.cpp:2: core/base may not include core/top"));
}

TEST_F(IncludeCheck, FindsAHeaderByTheEndOfItsPath) {
  tree_.write("core/top/run.hpp", "");
  tree_.write("plugins/task/more.cpp", "#include <run.hpp>\n#include \"run.hpp\"\n");
  EXPECT_THAT(problems(), ElementsAre("plugins/task/more.cpp:1: plugins/task may not include core/top",
                                      "plugins/task/more.cpp:2: plugins/task may not include core/top"));
}

TEST_F(IncludeCheck, TakesLibTorchLikeAFolder) {
  tree_.write("core/top/tensor.cpp", "#include <ATen/ATen.h>\n");
  EXPECT_THAT(problems(), ElementsAre("core/top/tensor.cpp:1: core/top may not include LibTorch"));
}

TEST_F(IncludeCheck, WantsExactlyOneFileForAHeader) {
  tree_.write("core/base/run.hpp", "");
  tree_.write("core/top/run.hpp", "");
  tree_.write("plugins/task/more.cpp", "#include \"gone.hpp\"\n#include \"run.hpp\"\n");
  EXPECT_THAT(problems(), ElementsAre("plugins/task/more.cpp:1: there is no file \"gone.hpp\"",
                                      "plugins/task/more.cpp:2: \"run.hpp\" may be core/base/run.hpp or "
                                      "core/top/run.hpp: name it from the root"));
}

TEST_F(IncludeCheck, WantsATableWithAllThatIsThereAndNoMore) {
  EXPECT_THAT(problems("core/base:\ncore/gone:\ncore/top: core/base plugins/task\n"),
              ElementsAre("table: there is no line for plugins/task", "table: core/gone has no sources",
                          "table: core/top may include plugins/task, but does not: take it out"));
}

TEST_F(IncludeCheck, NamesACircleThatTheTableAllows) {
  tree_.write("core/base/seed.cpp", "#include \"plugins/task/task.hpp\"\n");
  tree_.write("plugins/task/more.cpp", "#include \"core/top/run.hpp\"\n");
  tree_.write("core/top/run.hpp", "");
  EXPECT_THAT(problems("core/base: plugins/task\ncore/top: core/base\nplugins/task: LibTorch core/top\n"),
              ElementsAre("table: a circle: core/base -> plugins/task -> core/top -> core/base"));
}

TEST(Rooms, AreFolderLibraryAndNamespaceOfOneName) {
  EXPECT_THAT(problems_with_rooms(PIPELINE_SOURCE_DIR), IsEmpty());
}

// A small tree: a room of data with a folder within it, and a task.
class RoomCheck : public testing::Test {
 protected:
  RoomCheck() {
    for (const char* const folder : {"plugins/data/files/fast", "plugins/tasks/chat"})
      fs::create_directories(fs::path(tree_.path()) / folder);
    tree_.write("plugins/data/files/CMakeLists.txt",
                "# files: what is read\nadd_library(files STATIC file.cpp)\n");
    tree_.write("plugins/data/files/file.hpp", "namespace pipeline::files {\n}\n");
    tree_.write("plugins/data/files/fast/read.hpp", "namespace pipeline::files::fast {\n}\n");
    tree_.write("plugins/tasks/chat/CMakeLists.txt",
                "pipeline_plugin(chat TARGET task_chat KIND task SOURCES task.cpp)\n");
    tree_.write("plugins/tasks/chat/task.hpp",
                "namespace pipeline::files {\nclass File;\n}\nnamespace pipeline::tasks::chat {\n}\n");
  }

  std::vector<std::string> problems() const { return problems_with_rooms(tree_.path()); }

  FilesFolder tree_;
};

TEST_F(RoomCheck, IsContentWithRoomsOfOneName) { EXPECT_THAT(problems(), IsEmpty()); }

TEST_F(RoomCheck, NamesTheHeaderThatOpensAnother) {
  tree_.write("plugins/data/files/file.hpp", "#pragma once\nnamespace pipeline::texts {\n}\n");
  tree_.write("plugins/data/files/none.hpp", "#pragma once\n");
  tree_.write("plugins/tasks/chat/task.hpp", "namespace pipeline::chat {\n}\n");
  EXPECT_THAT(problems(), ElementsAre("plugins/data/files/file.hpp:2: opens pipeline::texts, and must open "
                                      "pipeline::files, for its folder's name",
                                      "plugins/data/files/none.hpp:1: opens no namespace, and must open "
                                      "pipeline::files, for its folder's name",
                                      "plugins/tasks/chat/task.hpp:1: opens pipeline::chat, and must open "
                                      "pipeline::tasks::chat, for its folder's name"));
}

TEST_F(RoomCheck, LetsAFolderWithinARoomHaveANamespaceOfItsOwn) {
  tree_.write("plugins/data/files/fast/read.hpp", "namespace pipeline::fast {\n}\n");
  EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(RoomCheck, NamesTheLibraryOfAnotherName) {
  tree_.write("plugins/data/files/CMakeLists.txt", "# files\nadd_library(task_files STATIC file.cpp)\n");
  EXPECT_THAT(problems(), ElementsAre("plugins/data/files/CMakeLists.txt:2: adds the library task_files, and "
                                      "must add files, for its folder's name"));
}

TEST_F(RoomCheck, WantsALibrary) {
  fs::remove(fs::path(tree_.path()) / "plugins/data/files/CMakeLists.txt");
  EXPECT_THAT(problems(), ElementsAre("plugins/data/files/CMakeLists.txt:1: there is no such file, and must "
                                      "be one that adds a library files"));
}

TEST_F(RoomCheck, WantsTasksWithoutFolders) {
  fs::create_directories(fs::path(tree_.path()) / "plugins/tasks/chat/data");
  tree_.write("plugins/tasks/chat/data/corpus.hpp", "namespace pipeline::tasks::chat {\n}\n");
  EXPECT_THAT(
      problems(),
      ElementsAre(
          "plugins/tasks/chat/data/corpus.hpp:1: a task is one folder: move the file to plugins/tasks/chat"));
}

}  // namespace
}  // namespace pipeline::tests
