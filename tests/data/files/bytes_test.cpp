#include <gtest/gtest.h>

#include "plugins/data/files/base64.hpp"
#include "plugins/data/files/hash128.hpp"

namespace pipeline::files {
namespace {

TEST(Hash128, EqualsMurmurHash3) {
  EXPECT_EQ(hash128("").hex(), std::string(32, '0'));
  EXPECT_EQ(hash128("hello").hex(), "cbd8a7b341bd9b025b1e906a48ae1d19");
  EXPECT_EQ(hash128("The quick brown fox jumps over the lazy dog").hex(), "e34bbc7bbc071b6c7a433ca9c49a9347");
}

TEST(Hash128, DoesNotDependOnThePieces) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 37);
  for (size_t step = 1; step < 50; ++step) {
    Hasher128 hasher;
    for (size_t at = 0; at < text.size(); at += step) hasher.update(std::string_view(text).substr(at, step));
    EXPECT_EQ(hasher.finish(), hash128(text)) << step;
  }
}

// The examples of RFC 4648, section 10.
TEST(Base64, IsDecoded) {
  for (const auto& [text, bytes] : {std::pair("", ""),
                                    {"Zg==", "f"},
                                    {"Zm8=", "fo"},
                                    {"Zm9v", "foo"},
                                    {"Zm9vYg==", "foob"},
                                    {"Zm9vYmE=", "fooba"},
                                    {"Zm9vYmFy", "foobar"},
                                    {"Zm9vYg", "foob"}})
    EXPECT_EQ(base64_decode(text), bytes) << text;
  EXPECT_EQ(base64_decode("/+8="), "\xff\xef");
}

TEST(Base64, WhatIsNoneIsRefused) {
  for (const char* text : {"Z", "Zm9v\n", "Zm=v", "Zg===", "Zm 9", "\xc3\xbc=="})
    EXPECT_FALSE(base64_decode(text)) << text;
}

}  // namespace
}  // namespace pipeline::files
