// Files that change, come and go between two openings.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "plugins/data/files/cache_folder.hpp"
#include "plugins/data/structures/input_files.hpp"
#include "plugins/data/structures/structure_record.hpp"
#include "tests/data/structures/library_folder.hpp"
#include "tests/data/structures/ordinary_user.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/gzip.hpp"

namespace pipeline::structures {
namespace {

using tests::in_child;
using tests::status_of;

// A change within the clock's tick would not show, so files are remembered only once they are older than
// that.
void wait_for_the_clock() { std::this_thread::sleep_for(std::chrono::milliseconds(2100)); }

TEST(StructureLibraryChange, ChangedAddedAndRemovedFilesAreNoticed) {
  LibraryFolder folder;
  folder.write("a.pdb", peptide({"ALA"}));
  folder.write("b.pdb", peptide({"GLY"}));
  wait_for_the_clock();
  EXPECT_EQ(folder.open().counts().read, 2u);
  EXPECT_EQ(folder.open().counts().read, 0u);  // not even read

  const auto time = std::filesystem::last_write_time(folder.files / "a.pdb");
  folder.write("a.pdb", peptide({"TRP"}));  // of the same size
  std::filesystem::last_write_time(folder.files / "a.pdb", time);
  auto library = folder.open();
  EXPECT_EQ(contents_of(library), "a:W b:G");
  EXPECT_EQ(library.counts().read, 1u);
  EXPECT_EQ(library.counts().parsed, 1u);

  folder.write("c.pdb", peptide({"SER"}));
  std::filesystem::remove(folder.files / "b.pdb");
  EXPECT_EQ(contents_of(folder.open()), "a:W c:S");

  folder.write("a.pdb", peptide({"ALA"}));  // its old content is still known
  library = folder.open();
  EXPECT_EQ(contents_of(library), "a:A c:S");
  EXPECT_EQ(library.counts().parsed, 0u);

  std::filesystem::rename(folder.files / "c.pdb", folder.files / "d.pdb");
  EXPECT_EQ(contents_of(folder.open()), "a:A d:S");
}

TEST(StructureLibraryChange, AChangeRightAfterReadingIsNoticed) {
  LibraryFolder folder;
  for (const auto* name : {"ALA", "GLY", "SER", "TRP", "TYR", "LYS"}) {
    folder.write("a.pdb", peptide({name}));
    const auto library = folder.open();
    EXPECT_EQ(sequence_of({"",
                           {library.structure(0).chains[0].residues.begin(),
                            library.structure(0).chains[0].residues.end()}}),
              sequence_of(parse(peptide({name})).chains[0]));
  }
}

TEST(StructureLibraryChange, ADamagedIndexIsBuiltAgain) {
  LibraryFolder folder;
  folder.write("a.pdb", peptide({"ALA"}));
  folder.write("b.pdb", peptide({"GLY"}));
  wait_for_the_clock();
  folder.open();
  const auto path =
      FileIndex::path_in(folder.cache.path(), std::filesystem::canonical(folder.files.path()).string());
  const auto good = tests::read_all(path);
  const auto put = [&](const std::string& bytes) {
    folder.cache.write(std::filesystem::path(path).filename().string(), bytes);
  };
  for (size_t at = 0; at < good.size(); ++at) {
    auto bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    put(bad);
    const auto library = folder.open();
    ASSERT_EQ(contents_of(library), "a:A b:G") << at;
    ASSERT_EQ(library.counts().read, 2u) << at;
    ASSERT_EQ(library.counts().parsed, 0u) << at;
    ASSERT_EQ(folder.notes.size(), 1u) << at;
    ASSERT_NE(folder.notes[0].find("every file is read again"), std::string::npos);
    put(good.substr(0, at));
    ASSERT_EQ(contents_of(folder.open()), "a:A b:G") << at;
  }
  EXPECT_TRUE((folder.open(), folder.notes.empty()));
}

TEST(StructureLibraryChange, AFileThatVanishesOrGrowsWhileItIsReadIsUnusable) {
  LibraryFolder folder;
  for (int i = 0; i < 40; ++i)
    folder.write("f" + std::to_string(i + 10) + ".pdb", peptide({"ALA"}, 'A', i + 1));
  auto hooks = folder.hooks();
  hooks.threads = 1;
  hooks.progress = [&](uint64_t done, uint64_t) {
    if (done == 1) std::filesystem::remove(folder.files / "f49.pdb");
  };
  const auto library = StructureLibrary::open(folder.options(), hooks);
  ASSERT_EQ(library.unusable().size(), 1u);
  EXPECT_EQ(library.unusable()[0].path, "f49.pdb");
  EXPECT_EQ(library.unusable()[0].text, "not there (any more)");
}

// Ranks that open one after the other must not each do the work under the lock.
TEST(StructureLibraryChange, WhatCannotBeReadIsRememberedUntilThatMayHaveChanged) {
  LibraryFolder folder;
  folder.write("a.pdb", peptide({"ALA"}));
  folder.write("large.pdb", peptide({"ALA", "GLY", "SER", "TRP", "TYR"}));
  folder.write("packed.pdb.gz", tests::gzip(peptide({"ALA", "GLY", "SER", "TRP", "LYS"})));
  folder.write("closed.pdb", peptide({"LYS"}));
  std::filesystem::create_symlink(folder.files / "target", folder.files / "dead.pdb");
  ASSERT_EQ(::mkfifo((folder.files / "pipe.pdb").c_str(), 0600), 0);
  wait_for_the_clock();
  as_ordinary_user({folder.files.path(), folder.cache.path()}, [&] {
    std::filesystem::permissions(folder.files / "closed.pdb", std::filesystem::perms::none);
    wait_for_the_clock();
    auto options = folder.options();
    options.limits.max_file_bytes = 1000;
    auto hooks = folder.hooks();
    const auto first = StructureLibrary::open(options, hooks).report();
    EXPECT_EQ(std::count(first.begin(), first.end(), '\n'), 5) << first;
    {
      const files::FileLock lock(folder.cache / kLockName, nullptr, nullptr);
      hooks.cancelled = [&] { return !folder.notes.empty(); };  // it waits for the lock
      const auto library = StructureLibrary::open(options, hooks);
      EXPECT_EQ(contents_of(library), "a:A");
      EXPECT_EQ(library.report(), first);
      std::filesystem::permissions(folder.files / "closed.pdb", std::filesystem::perms::owner_all);
      EXPECT_THROW(StructureLibrary::open(options, hooks), files::Cancelled);
      folder.notes.clear();
      options.limits.max_file_bytes = 2000;
      EXPECT_THROW(StructureLibrary::open(options, hooks), files::Cancelled);
    }
    folder.write("target", peptide({"TYR"}));
    EXPECT_EQ(contents_of(folder.open()), "a:A closed:K dead:Y large:AGSWY packed:AGSWK");
  });
}

TEST(StructureLibraryChange, LimitsAreNotRemembered) {
  LibraryFolder folder;
  folder.write("a.pdb", peptide({"ALA"}));
  folder.write("large.pdb", peptide({"ALA", "GLY", "SER", "TRP", "TYR"}));
  auto options = folder.options();
  options.limits.max_file_bytes = 1000;
  const auto library = StructureLibrary::open(options, folder.hooks());
  EXPECT_EQ(contents_of(library), "a:A");
  EXPECT_EQ(library.unusable().at(0).text,
            "has more than 1000 bytes: raise max_file_bytes if it is to be used");
  EXPECT_EQ(contents_of(folder.open()), "a:A large:AGSWY");
}

TEST(StructureLibraryChange, WhatNothingHasUsedForLongIsRemoved) {
  LibraryFolder folder;
  folder.write("a.pdb", peptide({"ALA"}));
  for (const auto* name :
       {"protein-structures-0.cache", "protein-files-0123456789abcdef0123456789abcdef.index", "others.tokens",
        "protein-unusable-0123abcd.txt.77.part"}) {
    const auto path = folder.cache.write(name, "old");
    std::filesystem::last_write_time(
        path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(24 * 40));
  }
  folder.open();
  ASSERT_EQ(folder.notes.size(), 1u);
  EXPECT_NE(folder.notes[0].find("protein-structures-0.cache"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder.cache / "protein-structures-0.cache"));
  EXPECT_FALSE(std::filesystem::exists(folder.cache / "protein-unusable-0123abcd.txt.77.part"));
  EXPECT_TRUE(std::filesystem::exists(folder.cache / "others.tokens"));
}

// Several processes, and processes that end in the middle.

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
