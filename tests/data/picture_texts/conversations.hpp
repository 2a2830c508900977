// Reading conversations of a file that a test writes.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "plugins/data/picture_texts/conversation.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::picture_texts {

class Conversations : public testing::Test {
 protected:
  std::vector<Conversation> read(const std::string& name, const std::string& text,
                                 const CaptionColumns& columns = {}) {
    const std::string path = folder_.write(name, text);
    std::vector<Conversation> all;
    read_conversations(
        sources::find(path), columns, [&](Conversation&& c) { all.push_back(std::move(c)); }, report_);
    return all;
  }
  // Why a single object is not used.
  std::string reason(const std::string& object) {
    const std::string good = R"({"conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"a"}]})";
    EXPECT_EQ(read("a.json", "[" + good + "," + object + "]").size(), 1u) << object;
    return report_.drops.empty() ? "" : report_.drops.begin()->first;
  }

  tests::FilesFolder folder_;
  ReadReport report_;
};

}  // namespace pipeline::picture_texts
