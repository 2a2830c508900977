#include <array>
#include <bit>
#include <cstdint>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "core/base/hash.hpp"

namespace pipeline {
namespace {

// FIPS 180-4's examples, and the lengths around which the padding takes another block.
TEST(KeyedHash, IsSha256) {
  EXPECT_EQ(to_hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(to_hex(sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(to_hex(sha256(std::string(55, 'a'))),
            "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT_EQ(to_hex(sha256(std::string(56, 'a'))),
            "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  EXPECT_EQ(to_hex(sha256(std::string(63, 'a'))),
            "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34");
  EXPECT_EQ(to_hex(sha256(std::string(64, 'a'))),
            "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
  EXPECT_EQ(to_hex(sha256(std::string(65, 'a'))),
            "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0");
}

// RFC 4231, cases 1, 2, 6 (a key longer than a block) and 7.
TEST(KeyedHash, IsHmacSha256) {
  EXPECT_EQ(to_hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(to_hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      to_hex(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(
      to_hex(hmac_sha256(std::string(131, '\xaa'),
                         "This is a test using a larger than block-size key and a larger than block-size "
                         "data. The key needs to be hashed before being used by the HMAC algorithm.")),
      "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(KeyedHash, ComparesWholeTexts) {
  EXPECT_TRUE(same_in_constant_time("abc", "abc"));
  EXPECT_FALSE(same_in_constant_time("abc", "abd"));
  EXPECT_FALSE(same_in_constant_time("abc", "ab"));
}

TEST(KeyedHash, SecretsDiffer) {
  EXPECT_EQ(random_secret().size(), 64u);
  EXPECT_NE(random_secret(), random_secret());
}

// The values are part of every run's results: they may never change.
TEST(Seed, HasItsGoldenValues) {
  EXPECT_EQ(derive_seed(0, ""), 0xe4d2b06ded92692ull);
  EXPECT_EQ(derive_seed(0, "shuffle"), 0x6bcbd1e5676cc94dull);
  EXPECT_EQ(derive_seed(1, "shuffle"), 0xe9e48caae27ca35bull);
  EXPECT_EQ(derive_seed(1, "shuffle", 1, 2, 3), 0x3d8bdf0887ba1cbcull);
  EXPECT_EQ(derive_seed(~0ull, "dropout", ~0ull, ~0ull, ~0ull), 0xdfb95bb380d51e4full);
}

TEST(Seed, DependsOnEveryArgumentAndItsPlace) {
  std::set<std::uint64_t> seen;
  std::size_t calls = 0;
  for (std::uint64_t seed : {0, 1, 2})
    for (const char* stream : {"", "a", "b", "ab", "ba"})
      for (std::uint64_t a : {0, 1, 2})
        for (std::uint64_t b : {0, 1, 2})
          for (std::uint64_t c : {0, 1, 2}) seen.insert(derive_seed(seed, stream, a, b, c)), ++calls;
  EXPECT_EQ(seen.size(), calls);
}

// Neighbouring steps must not have related dropout: one changed input bit changes half of the output bits.
TEST(Seed, MixesEveryInputBitIntoTheOutput) {
  for (int bit = 0; bit < 64; ++bit) {
    double flipped = 0;
    for (std::uint64_t step = 0; step < 500; ++step)
      flipped += std::popcount(derive_seed(7, "dropout", step, 3) ^
                               derive_seed(7, "dropout", step ^ (1ull << bit), 3));
    EXPECT_NEAR(flipped / 500, 32, 1) << "input bit " << bit;
  }
}

TEST(Seed, IsUniformInItsLowBits) {
  std::array<int, 256> count{};
  for (std::uint64_t i = 0; i < 256 * 200; ++i) ++count[derive_seed(1, "shuffle", i) & 255];
  double chi_square = 0;
  for (int n : count) chi_square += (n - 200.0) * (n - 200.0) / 200.0;
  EXPECT_LT(chi_square, 400);  // 255 expected, 99.9999th percentile near 380
  EXPECT_GT(chi_square, 150);
}

}  // namespace
}  // namespace pipeline
