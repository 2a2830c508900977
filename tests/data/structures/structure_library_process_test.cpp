// Several processes, and processes that end in the middle.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include <gtest/gtest.h>

#include "tests/data/structures/library_folder.hpp"
#include "tests/data/structures/ordinary_user.hpp"
#include "tests/support/child_process.hpp"

namespace pipeline::structures {
namespace {

using tests::in_child;
using tests::status_of;

constexpr int kFiles = 60;

struct ManyFiles : LibraryFolder {
  ManyFiles() {
    for (int i = 0; i < kFiles; ++i)
      write(std::to_string(100 + i) + ".pdb", peptide({"ALA", "GLY"}, 'A', i + 1));
  }
};

TEST(StructureLibraryProcess, OfSeveralOneParses) {
  ManyFiles folder;
  std::vector<pid_t> children;
  for (int process = 0; process < 4; ++process) {
    children.push_back(in_child([&] {
      const auto library = folder.open();
      return library.size() == kFiles ? static_cast<int>(library.counts().parsed) : 99;
    }));
  }
  std::vector<int> parsed;
  for (const pid_t child : children) parsed.push_back(status_of(child));
  std::sort(parsed.begin(), parsed.end());
  EXPECT_EQ(parsed, (std::vector{0, 0, 0, kFiles}));
}

TEST(StructureLibraryProcess, AfterACancellationTheNextGoesOn) {
  ManyFiles folder;
  auto hooks = folder.hooks();
  uint64_t seen = 0;
  hooks.progress = [&](uint64_t done, uint64_t) { seen = done; };
  hooks.cancelled = [&] { return seen == 25; };
  EXPECT_THROW(StructureLibrary::open(folder.options(), hooks), files::Cancelled);
  const auto library = folder.open();
  EXPECT_EQ(library.size(), uint64_t{kFiles});
  EXPECT_EQ(library.counts().parsed, kFiles - 25u);
}

TEST(StructureLibraryProcess, AfterAKillTheNextGoesOn) {
  ManyFiles folder;
  const pid_t child = in_child([&] {
    auto hooks = folder.hooks();
    hooks.progress = [](uint64_t done, uint64_t) {
      if (done == 25) ::raise(SIGKILL);
    };
    StructureLibrary::open(folder.options(), hooks);
    return 0;
  });
  EXPECT_EQ(status_of(child), 200 + SIGKILL);
  const auto library = folder.open();
  EXPECT_EQ(library.size(), uint64_t{kFiles});
  EXPECT_EQ(library.counts().parsed, kFiles - 25u);
}

// A limit on the size of files stands for a full disk.
TEST(StructureLibraryProcess, AFullDiskIsAnErrorAndTheNextGoesOn) {
  ManyFiles folder;
  const pid_t child = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{3000, 3000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto message = tests::message_of<files::DataError>([&] { folder.open(); });
    return message.find("check the free space") != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(status_of(child), 0);
  EXPECT_LT(std::filesystem::file_size(folder.cache_file()), 3000u);
  const auto library = folder.open();
  EXPECT_EQ(library.size(), uint64_t{kFiles});
  EXPECT_LT(library.counts().parsed, uint64_t{kFiles});
  EXPECT_TRUE(folder.notes.empty());  // what did not fit left nothing behind
}

TEST(StructureLibraryProcess, OneThatHasItOpenKeepsItWhileAnotherMendsIt) {
  ManyFiles folder;
  const auto library = folder.open();
  const auto before = contents_of(library);
  auto bytes = tests::read_all(folder.cache_file());
  // Another file under the name, damaged in the middle: the one that is open is not the one that is mended.
  std::filesystem::remove(folder.cache_file());
  bytes[bytes.size() / 2] ^= 1;
  folder.cache.write(std::filesystem::path(folder.cache_file()).filename().string(), bytes);
  EXPECT_EQ(status_of(in_child([&] { return static_cast<int>(folder.open().counts().parsed); })), 1);
  EXPECT_EQ(contents_of(library), before);
  EXPECT_EQ(contents_of(folder.open()), before);
}

// A library that is there serves those who cannot write: what is new is left out, and said.
TEST(StructureLibraryProcess, ThatMayOnlyReadOpensWhatIsThere) {
  ManyFiles folder;
  const auto before = contents_of(folder.open());
  as_ordinary_user({folder.files.path(), folder.cache.path()}, [&] {
    std::filesystem::permissions(folder.cache.path(), std::filesystem::perms(0500));
    EXPECT_EQ(contents_of(folder.open()), before);  // files that are too young to be remembered
    ::sleep(3);
    EXPECT_EQ(contents_of(folder.open()), before);
    EXPECT_TRUE(folder.notes.empty());

    folder.write("new.pdb", peptide({"TRP"}));
    folder.write("closed.pdb", peptide({"TRP"}));
    std::filesystem::permissions(folder.files / "closed.pdb", std::filesystem::perms::none);
    const auto library = folder.open();
    EXPECT_EQ(contents_of(library), before);
    EXPECT_EQ(library.report(),
              "  closed.pdb  cannot be read: Permission denied\n"
              "  new.pdb     not in the cache, to which nothing can be added: Permission denied\n");
    ASSERT_EQ(folder.notes.size(), 2u);
    EXPECT_NE(folder.notes[0].find(
                  "Permission denied: 1 file that is new or changed cannot be kept there and is left out"),
              std::string::npos);
    EXPECT_NE(folder.notes[1].find("the table of unusable files cannot be written there"), std::string::npos);

    LibraryFolder other;
    other.write("a.pdb", peptide({"TRP"}));
    const auto empty = tests::message_of<files::DataError>([&] {
      StructureLibrary::open({.root = other.files.path(), .cache_dir = folder.cache.path()}, other.hooks());
    });
    EXPECT_NE(empty.find("the cache folder must be writable"), std::string::npos) << empty;
    std::filesystem::permissions(folder.cache.path(), std::filesystem::perms(0700));
  });
}

}  // namespace
}  // namespace pipeline::structures
