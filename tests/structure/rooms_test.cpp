#include "tests/structure/rooms.hpp"

#include <gmock/gmock.h>
#include <test_paths.hpp>

#include "tests/support/test_files.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

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
