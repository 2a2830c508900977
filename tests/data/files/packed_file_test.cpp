#include "plugins/data/files/packed_file.hpp"

#include <gmock/gmock.h>

#include <zstd.h>

#include "plugins/data/files/error.hpp"
#include "tests/support/gzip.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::files {
namespace {

using tests::FilesFolder;
using tests::gzip;
using tests::message_of;

std::string zstd(const std::string& text) {
  std::string out(::ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* const context = ::ZSTD_createCCtx();
  ::ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);  // as the program zstd has it
  out.resize(::ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size()));
  ::ZSTD_freeCCtx(context);
  return out;
}

std::string read_all(const std::string& path, size_t at_once) {
  PackedFile file(path);
  std::string all, block(at_once, '\0');
  while (const size_t got = file.read(block.data(), block.size())) all.append(block, 0, got);
  EXPECT_EQ(file.read(block.data(), block.size()), 0u) << "the end stays";
  return all;
}

// Numbers, one a line, cut to this length.
std::string text_of(size_t bytes) {
  std::string text;
  for (uint64_t i = 0; text.size() < bytes; ++i) text += std::to_string(i * 2654435761u) + "\n";
  text.resize(bytes);
  return text;
}

TEST(PackedFile, IsReadAsWhatIsPackedInIt) {
  const FilesFolder folder;
  for (const size_t bytes : {0u, 1u, 3u, 65535u, 65536u, 65537u, 400000u}) {
    const std::string text = text_of(bytes);
    for (const std::string& content :
         {text, gzip(text), zstd(text), gzip(text.substr(0, bytes / 3)) + gzip(text.substr(bytes / 3)),
          zstd(text.substr(0, bytes / 2)) + zstd(text.substr(bytes / 2)),
          gzip(text) + std::string(900, '\0')}) {
      folder.write("file", content);
      for (const size_t at_once : {7u, 4096u, 1u << 20}) EXPECT_EQ(read_all(folder / "file", at_once), text);
    }
  }
}

// Members, empty ones and zeros begin at each place around the end of the block that is read at once.
// Python's gzip reads such files, too.
TEST(PackedFile, WhatFollowsPaddingIsRead) {
  const FilesFolder folder;
  constexpr size_t kBlock = 1 << 16;
  const std::string noise = text_of(kBlock), empty = gzip(""), last = gzip("last");
  for (size_t bytes = kBlock - 60; bytes < kBlock - 10; ++bytes) {
    const std::string first = gzip(noise.substr(0, bytes), 0);  // stored: 23 bytes more
    for (const size_t count : {size_t{0}, size_t{1}, size_t{3}, kBlock - 1, kBlock}) {
      if (count > 3 && bytes % 16 != 0) continue;
      const std::string zeros(count, '\0');
      folder.write("file", first + zeros + empty + zeros + last + zeros);
      EXPECT_TRUE(read_all(folder / "file", 1 << 20) == noise.substr(0, bytes) + "last")
          << bytes << " " << count;
      folder.write("file", first + zeros + "x");
      EXPECT_THAT(message_of<DataError>([&] { read_all(folder / "file", 1 << 20); }),
                  testing::HasSubstr("file: damaged: what follows its gzip data is none (at byte " +
                                     std::to_string(first.size() + count) + " of "));
    }
  }
}

TEST(PackedFile, FramesThatZstdPassesOverArePassedOver) {
  const FilesFolder folder;
  const std::string skipped("\x5e\x2a\x4d\x18\x05\0\0\0plain", 13);
  folder.write("file", skipped + zstd("first") + skipped + skipped + zstd("") + zstd("last") + skipped);
  for (const size_t at_once : {1u, 4096u}) EXPECT_EQ(read_all(folder / "file", at_once), "firstlast");
}

TEST(PackedFile, WhatIsCutOffOrDamagedIsNamed) {
  const FilesFolder folder;
  const std::string text = text_of(300000);
  const auto problem = [&](const std::string& content) {
    folder.write("file", content);
    return message_of<DataError>([&] { read_all(folder / "file", 4096); });
  };
  for (const std::string& packed : {gzip(text), zstd(text)}) {
    for (const size_t size : {size_t{20}, packed.size() / 2, packed.size() - 1})
      EXPECT_THAT(problem(packed.substr(0, size)), testing::HasSubstr("file: cut off: ")) << size;
    std::string damaged = packed;
    for (size_t i = packed.size() / 2; i < packed.size() / 2 + 40; ++i)
      damaged[i] = static_cast<char>(~damaged[i]);
    EXPECT_THAT(problem(damaged), testing::HasSubstr("file: damaged: its ")) << packed.size();
    EXPECT_THAT(problem(packed + "garbage"), testing::HasSubstr("file: ")) << packed.size();
  }
}

// A megabyte of zeros, in 30 bytes, a few thousand times.
TEST(PackedFile, AFewBytesThatFillTheDiskAreRefused) {
  const FilesFolder folder;
  const std::string zeros = zstd(std::string(64 << 20, '\0'));
  std::string bomb;
  for (int i = 0; i < 20; ++i) bomb += zeros;
  folder.write("bomb.zst", bomb);
  EXPECT_THAT(message_of<DataError>([&] { read_all(folder / "bomb.zst", 1 << 20); }),
              testing::HasSubstr("unpacks to more than 1000 times its size"));
}

TEST(PackedFile, EndingsOfPackedFilesAreTakenOff) {
  EXPECT_EQ(without_packing("a.jsonl.gz"), "a.jsonl");
  EXPECT_EQ(without_packing("a.csv.zst"), "a.csv");
  EXPECT_EQ(without_packing("a.csv"), "a.csv");
}

}  // namespace
}  // namespace pipeline::files
