// Tar archives as tar itself writes them, and WebDataset's samples in them.
#include "plugins/tasks/vlm/data/shards.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "plugins/tasks/vlm/data/conversation_store.hpp"
#include "plugins/tasks/vlm/data/tar_archive.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::vlm {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class Shards : public testing::Test {
 protected:
  Shards() { fs::create_directories(folder_ / "in"); }

  void put(const std::string& name, const std::string& text) {
    fs::create_directories(fs::path(folder_ / ("in/" + name)).parent_path());
    folder_.write("in/" + name, text);
  }
  // Packs what was put, and puts no more of it into the next.
  std::string pack(const std::string& name, const std::string& options = "--format=gnu",
                   const std::string& what = ".") {
    const std::string command = "cd '" + folder_ / "in" + "' && LC_ALL=C tar --sort=name " + options +
                                " -cf ../" + name + " " + what + " && rm -rf ./*";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return folder_ / name;
  }
  std::vector<Conversation> read(const std::string& path, const CaptionColumns& columns = {}) {
    std::vector<Conversation> all;
    read_conversations(
        path, columns, [&](Conversation&& c) { all.push_back(std::move(c)); }, report_);
    return all;
  }
  static std::string text(const std::optional<std::vector<std::byte>>& bytes) {
    return bytes ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()) : "(none)";
  }
  std::string problem(const TarIndex& index, const std::string& name) {
    return tests::message_of<DataError>([&] { index.read(name); });
  }

  tests::FilesFolder folder_;
  ReadReport report_;
};

TEST_F(Shards, FilesAreFoundInEveryFormOfTar) {
  const std::string deep = std::string(90, 'd') + "/" + std::string(90, 'f') + ".png", foreign = "猫/né.png";
  for (const char* options : {"--format=gnu", "--format=pax", "--format=ustar", "--format=v7",
                              "--format=gnu --sparse", "--format=pax --sparse", "--format=pax -b 1"}) {
    const bool is_short = std::string(options).find("v7") != std::string::npos;
    put("a.png", "first");
    put("folder/b.png", std::string(100'000, 'b'));
    put("empty.png", "");
    put(foreign, "cat");
    put("holes.png", "x");
    fs::resize_file(folder_ / "in/holes.png", 300'000);
    fs::create_symlink("a.png", folder_ / "in/link.png");
    if (!is_short) put(deep, "deep");
    const TarIndex index({pack("x.tar", options)});
    EXPECT_EQ(text(index.read("a.png")), "first") << options;
    EXPECT_EQ(text(index.read("./a.png")), "first") << options;
    EXPECT_EQ(text(index.read("x.tar/a.png")), "first") << options;
    EXPECT_EQ(text(index.read("folder/b.png")), std::string(100'000, 'b')) << options;
    EXPECT_EQ(text(index.read("x.tar/folder/b.png")), std::string(100'000, 'b')) << options;
    EXPECT_EQ(text(index.read("empty.png")), "") << options;
    EXPECT_EQ(text(index.read(foreign)), "cat") << options;
    EXPECT_EQ(text(index.read("holes.png")), "x" + std::string(299'999, '\0')) << options;
    EXPECT_EQ(text(index.read("link.png")), "(none)") << options;
    EXPECT_EQ(text(index.read("folder")), "(none)") << options;
    EXPECT_EQ(text(index.read("y.tar/a.png")), "(none)") << options;
    if (!is_short) {
      EXPECT_EQ(text(index.read(deep)), "deep") << options;
    }
  }
}

TEST_F(Shards, ANameInTwoArchivesNeedsTheArchives) {
  put("a.png", "1");
  put("only.png", "o");
  const std::string one = pack("1.tar");
  put("a.png", "2");
  const TarIndex index({one, pack("2.tar")});
  EXPECT_EQ(text(index.read("only.png")), "o");
  EXPECT_EQ(problem(index, "a.png"), "is in 1.tar and in 2.tar: write 1.tar/a.png");
  EXPECT_EQ(text(index.read("1.tar/a.png")), "1");
  EXPECT_EQ(text(index.read("2.tar/a.png")), "2");
}

TEST_F(Shards, ABrokenArchiveIsAnError) {
  const auto problem = [](const std::string& path) {
    return tests::message_of<DataError>([&] { TarIndex index({path}); });
  };
  EXPECT_THAT(problem(folder_ / "none.tar"), HasSubstr("No such file"));
  EXPECT_THAT(problem(folder_.write("text.tar", std::string(2000, 'x'))),
              HasSubstr("must be a whole tar archive that is not compressed"));
  put("a.png", "first");
  EXPECT_THAT(problem(pack("z.tar", "-z")), HasSubstr("that is not compressed"));
  put("a.png", std::string(5000, 'a'));
  const std::string path = pack("cut.tar");
  fs::resize_file(path, 3000);
  EXPECT_THAT(tests::message_of<DataError>([&] { TarIndex({path}).read("a.png"); }), HasSubstr("cut.tar: "));
}

TEST_F(Shards, SamplesAreFilesOfOneName) {
  fs::create_directories(folder_ / "shards");
  put("000.jpg", "j");
  put("000.txt", "a cat\n");
  put("000.json", R"({"caption": "noted by the downloader", "width": 3})");
  put("sub/001.PNG", "p");
  put("sub/001.json", R"({"caption": "a dog"})");
  pack("shards/0.tar", "--format=gnu", "000.jpg 000.json 000.txt sub");
  put("002.webp", "w");
  put("002.json",
      R"({"conversations": [{"from": "human", "value": "<image> What?"}, {"from": "gpt", "value": "A bee."}]})");
  put("003.jpg", "no text");
  put("004.txt", "no picture");
  put("005.gif", "g");
  put("005.txt", "caf\xe9");
  put("006.gif", "g");
  put("006.json", "{");
  put("README", "none of a sample's");
  pack("shards/1.tar");

  const auto all = read(folder_ / "shards");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].id, "000");
  EXPECT_EQ(all[0].image, "0.tar/000.jpg");
  EXPECT_EQ(all[0].turns.at(0).text, "<image>");
  EXPECT_EQ(all[0].turns.at(1).text, "a cat");
  EXPECT_EQ(all[1].id, "sub/001");
  EXPECT_EQ(all[1].image, "0.tar/sub/001.PNG");
  EXPECT_EQ(all[1].turns.at(1).text, "a dog");
  EXPECT_EQ(all[2].image, "1.tar/002.webp");
  EXPECT_EQ(all[2].turns.at(0).text, "<image> What?");
  EXPECT_EQ(report_.records, 7u);
  std::vector<std::string> reasons;
  for (const auto& [reason, drop] : report_.drops) reasons.push_back(reason + ": " + drop.first);
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("<image> in the text, and no picture: 1.tar: 004"),
                                   HasSubstr("JSON of another form: 1.tar: 006"),
                                   HasSubstr("no answer to the last question: 1.tar: 003"),
                                   HasSubstr("text that is not UTF-8: 1.tar: 005")));
  EXPECT_EQ(read(folder_ / "shards/0.tar").size(), 2u) << "one shard alone";
  fs::create_directories(folder_ / "empty");
  EXPECT_THAT(tests::message_of<DataError>([&] { read(folder_ / "empty"); }),
              HasSubstr("there is no *.tar file in this folder"));
}

TEST_F(Shards, AreReadAgainWhenTheyHaveChanged) {
  fs::create_directories(folder_ / "shards");
  for (const std::string caption : {"a cat", "a dog and more"}) {
    put("0.jpg", "j");
    put("0.txt", caption);
    pack("shards/0.tar");
    for (int times = 0; times < 2; ++times) {  // made, then opened
      const ConversationStore store(folder_ / "cache", folder_ / "shards/", {}, {});
      ASSERT_EQ(store.size(), 1u);
      EXPECT_EQ(store[0].turns.at(1).text, caption);
    }
  }
}

TEST_F(Shards, AQuestionIsAskedAndTheCaptionAnswersIt) {
  put("1.png", "p");
  put("1.json", R"({"caption":"A cat.","question":"What?"})");
  put("2.png", "p");
  put("2.json", R"({"caption":"A dog.","question":" "})");
  put("3.png", "p");
  put("3.json", R"({"caption":"A cow.","question":7})");
  const auto all = read(pack("q.tar", "--format=gnu"));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].turns.at(0).text, "<image>\nWhat?");
  EXPECT_EQ(all[0].turns.at(1).text, "A cat.");
  EXPECT_EQ(all[1].turns.at(0).text, "<image>");
  EXPECT_THAT(report_.table("q.tar"), testing::HasSubstr("its \"question\" is no text"));
}

}  // namespace
}  // namespace pipeline::vlm
