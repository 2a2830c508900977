// Files as bytes: packed, too large, not there.
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include "tests/data/structures/pdb_text.hpp"
#include "tests/support/gzip.hpp"

namespace pipeline::structures {
namespace {

const std::string kPdb = peptide({"ALA", "GLY", "SER"});

TEST(Content, PackedFilesAreKnownByTheirContent) {
  EXPECT_EQ(summary_of(tests::gzip(kPdb)), "A:AGS");
  EXPECT_EQ(summary_of(tests::gzip(kPdb) + std::string(100, '\0')), "A:AGS");                  // padding
  EXPECT_EQ(summary_of(tests::gzip(kPdb) + tests::gzip(peptide({"TRP"}, 'B'))), "A:AGS B:W");  // members
  std::string large = kPdb;
  for (int i = 0; i < 20000; ++i) large += "REMARK 999 " + std::to_string(i) + "\n";
  EXPECT_EQ(summary_of(tests::gzip(large + peptide({"TRP"}, 'B'))), "A:AGS B:W");
}

TEST(Content, PackedFilesThatAreDamagedOrCutOffAreReasons) {
  const std::string packed = tests::gzip(kPdb);
  for (size_t size = 3; size < packed.size(); ++size) {
    EXPECT_EQ(summary_of(packed.substr(0, size)), "cut off: its gzip data end early") << size;
  }
  size_t noticed = 0;
  for (size_t at = 2; at < packed.size(); ++at) {
    std::string bad = packed;
    bad[at] = static_cast<char>(bad[at] ^ 0x55);
    noticed += summary_of(bad) != "A:AGS";
  }
  EXPECT_GT(noticed, packed.size() - 12);  // all but the time and such in gzip's header
  EXPECT_EQ(summary_of(tests::gzip("")), "is empty");
}

TEST(Content, WhatIsNoStructureIsNamed) {
  EXPECT_THAT(summary_of("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n"),
              testing::HasSubstr("is a Git LFS pointer"));
  EXPECT_THAT(summary_of("<!DOCTYPE html><html>Not found"), testing::HasSubstr("is a web page"));
  EXPECT_THAT(summary_of(">1ABC_1|Chain A\nMKV\n"), testing::HasSubstr("a FASTA file"));
  EXPECT_EQ(summary_of("BZh91AY&SY"), "compressed with bzip2: unpack it first (bunzip2)");
  EXPECT_EQ(summary_of(std::string("\xfd\x37zXZ\0", 6)), "compressed with xz: unpack it first (unxz)");
  EXPECT_EQ(summary_of("PK\x03\x04 and so on"), "a zip archive: unpack it first (unzip)");
}

TEST(Content, TooMuchIsAReasonWhetherPackedOrNot) {
  const ReadLimits limits{.max_file_bytes = 10000, .option = "task.data.max_file_mb"};
  const tests::FilesFolder folder;
  const auto path = folder.write("a.pdb", std::string(10001, ' '));
  EXPECT_EQ(tests::message_of<files::DataError>([&] { read_structure(path, limits); }),
            path + ": has more than 10000 bytes: raise task.data.max_file_mb if it is to be used");
  const std::string bomb = tests::gzip(std::string(5'000'000, ' '));
  ASSERT_LT(bomb.size(), 10000u);
  EXPECT_EQ(tests::message_of<ReadError>([&] { parse_structure(bomb, limits); }),
            "unpacks to more than 10000 bytes: raise task.data.max_file_mb if it is to be used");
  EXPECT_EQ(tests::message_of<files::DataError>(
                [&] { parse_structure(tests::gzip(std::string(10000, ' ')), limits); }),
            "has no atoms: no ATOM or HETATM records");
}

TEST(Content, AFileThatGrowsWhileItIsReadIsAReason) {
  const tests::FilesFolder folder;
  const auto path = folder.write("a.pdb", std::string(4'000'000, ' '));
  std::atomic<bool> enough = false;
  std::jthread grow([&] {
    std::ofstream stream(path, std::ios::app);
    while (!enough) (stream << "x").flush();
  });
  std::string reason;
  for (int round = 0; round < 1000 && reason.empty(); ++round) {
    try {
      read_content(path, {});
    } catch (const ReadError& error) {
      reason = error.what();
    }
  }
  enough = true;
  EXPECT_EQ(reason, "changed while it was being read");
}

TEST(Content, WhatIsNotAFileIsAReason) {
  const tests::FilesFolder folder;
  EXPECT_EQ(tests::message_of<ReadError>([&] { read_content(folder / "no.pdb", {}); }),
            "not there (any more)");
  EXPECT_EQ(tests::message_of<ReadError>([&] { read_content(folder.path(), {}); }), "not a regular file");
  ASSERT_EQ(::mkfifo((folder / "pipe.pdb").c_str(), 0600), 0);
  EXPECT_EQ(tests::message_of<ReadError>([&] { read_content(folder / "pipe.pdb", {}); }),
            "not a regular file");
}

}  // namespace
}  // namespace pipeline::structures
