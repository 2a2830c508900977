#include "plugins/data/files/base64.hpp"

#include <gtest/gtest.h>

namespace pipeline::files {
namespace {

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
