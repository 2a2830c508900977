#include "plugins/data/files/hash128.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace pipeline::files
