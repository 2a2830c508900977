// Tar archives as tar itself writes them, and WebDataset's samples in them.
#include "plugins/data/picture_texts/conversation.hpp"

#include <gmock/gmock.h>

#include <sys/stat.h>

#include <cstdlib>

#include "plugins/data/picture_texts/tar_archive.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::picture_texts {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class Shards : public testing::Test {
 protected:
  Shards() { fs::create_directories(folder_ / "in"); }

  void put(const std::string& name, const std::string& text) {
    fs::create_directories(fs::path(folder_ / ("in/" + name)).parent_path());
    folder_.write("in/" + name, text);
  }
  // Packs the files that were put, and removes them.
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
        sources::find(path), columns, [&](Conversation&& c) { all.push_back(std::move(c)); }, report_);
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
    fs::create_hard_link(folder_ / "in/a.png", folder_ / "in/hard.png");
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
    EXPECT_EQ(text(index.read("hard.png")), "first") << options;
    EXPECT_EQ(
        problem(index, "link.png"),
        folder_ / "x.tar: link.png: is a symbolic link to a.png: pack the file itself (tar --dereference)")
        << options;
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
  EXPECT_EQ(problem(index, "a.png"), "a.png: is in 1.tar and in 2.tar: write 1.tar/a.png");
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

// Every header is summed, so a bit that is wrong in one never hides a file.
TEST_F(Shards, NoChangedBitOfAHeaderLosesAFile) {
  for (const char* name : {"a.png", "b.png", "c.png"}) put(name, name);
  const std::string path = pack("x.tar", "--format=ustar", "*"), good = tests::read_all(path);
  for (const size_t header : {0, 1024, 2048}) {
    for (size_t at = header; at < header + 512; at += 23) {
      folder_.write("x.tar", std::string(good).replace(at, 1, 1, static_cast<char>(good[at] ^ 4)));
      EXPECT_THAT(tests::message_of<DataError>([&] { TarIndex({path}); }),
                  HasSubstr("must be a whole tar archive"))
          << at;
    }
  }
}

TEST_F(Shards, AnArchiveHasItsEndAndNothingAfterIt) {
  put("a.png", std::string(50'000, 'a'));
  const std::string path = pack("x.tar", "--format=ustar -b 1", "*"), good = tests::read_all(path);
  const auto problem = [&](const std::string& bytes) {
    folder_.write("x.tar", bytes);
    return tests::message_of<DataError>([&] { TarIndex({path}); });
  };
  EXPECT_EQ(problem(good.substr(0, good.size() - 512)), "(nothing was thrown)") << "one of two zero headers";
  for (const size_t size : {good.size() - 513, good.size() - 1024, good.size() - 30'000})
    EXPECT_THAT(problem(good.substr(0, size)),
                StartsWith(path + ": what follows a.png: is cut off or damaged"))
        << size;
  EXPECT_THAT(problem(good + good), HasSubstr("is the end of the archive, and yet there is more"));
  EXPECT_THAT(problem(good + std::string(1 << 20, '\0')), HasSubstr("has not been written completely"));
}

TEST_F(Shards, TwoFilesOfOneNameInAnArchiveAreAnError) {
  put("a.png", "1");
  pack("x.tar");
  put("a.png", "2");
  EXPECT_EQ(std::system(("cd '" + folder_ / "in" + "' && tar -rf ../x.tar a.png").c_str()), 0);
  EXPECT_EQ(
      tests::message_of<DataError>([&] { TarIndex({folder_ / "x.tar"}); }),
      folder_ /
          "x.tar: holds a.png twice, and which one is meant is not known: unpack it, and pack it again");
}

TEST_F(Shards, WhatIsNoFileIsNamed) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe.tar").c_str(), 0600), 0);
  EXPECT_EQ(tests::message_of<DataError>([&] { TarIndex(tar_archives(folder_.path())); }),
            folder_ / "pipe.tar: is a pipe (FIFO), must be a regular file");
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
  put("002.json", R"({"conversations": [{"from": "human", "value": "<image> What?"}, {"from": "gpt",)"
                  R"("value": "A bee."}]})");
  put("003.jpg", "no text");
  put("004.txt", "no picture");
  put("005.gif", "g");
  put("005.txt", "caf\xe9");
  put("006.gif", "g");
  put("006.json", "{");
  put("007.gif", "g");
  put("007.png", "p");
  put("007.txt", "which?");
  put("008.gif", "g");
  put("008.caption", "this");
  put("008.txt", "or that?");
  put("009.gif", "g");
  fs::create_hard_link(folder_ / "in/008.txt", folder_ / "in/009.txt");
  put("010.gif", "g");
  fs::create_symlink("009.txt", folder_ / "in/010.txt");
  put("README", "none of a sample's");
  pack("shards/1.tar");

  const auto all = read(folder_ / "shards");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].id, "000");
  EXPECT_THAT(all[0].images, ElementsAre("0.tar/000.jpg"));
  EXPECT_EQ(all[0].turns.at(0).text, "<image>");
  EXPECT_EQ(all[0].turns.at(1).text, "a cat");
  EXPECT_EQ(all[1].id, "sub/001");
  EXPECT_THAT(all[1].images, ElementsAre("0.tar/sub/001.PNG"));
  EXPECT_EQ(all[1].turns.at(1).text, "a dog");
  EXPECT_THAT(all[2].images, ElementsAre("1.tar/002.webp"));
  EXPECT_EQ(all[2].turns.at(0).text, "<image> What?");
  EXPECT_THAT(all[3].images, ElementsAre("1.tar/009.gif"));
  EXPECT_EQ(all[3].turns.at(1).text, "or that?");
  EXPECT_EQ(report_.records, 11u);
  std::vector<std::string> reasons;
  for (const auto& [reason, drop] : report_.drops) reasons.push_back(reason + ": " + drop.first);
  EXPECT_THAT(
      reasons,
      ElementsAre(
          HasSubstr("<image> in the text, and no picture: 1.tar: 004"),
          HasSubstr("JSON of another form: 1.tar: 006"),
          HasSubstr("a text that is a link to no file of the archive: pack the file (tar --dereference): "
                    "1.tar: 010"),
          HasSubstr("no answer to the last question: 1.tar: 003"),
          HasSubstr("text that is not UTF-8: 1.tar: 005"),
          HasSubstr("two captions in one sample: 1.tar: 008"),
          HasSubstr(
              "two pictures in one sample, without numbers of their own, as in 0001.0.jpg: 1.tar: 007")));
  EXPECT_EQ(read(folder_ / "shards/0.tar").size(), 2u) << "one shard alone";
  fs::create_directories(folder_ / "empty");
  EXPECT_THAT(tests::message_of<DataError>([&] { read(folder_ / "empty"); }),
              HasSubstr("there is no file in this folder that can be read"));
}

TEST_F(Shards, SeveralPicturesOfASampleHaveNumbers) {
  for (const char* name : {"1.0.jpg", "1.10.jpg", "1.2.png", "1.mask.png", "2.0.jpg", "2.1.jpg", "3.jpg",
                           "3.0.jpg", "4.1.jpg", "4.01.png", "5.0.jpg", "5.1.jpg"})
    put(name, "picture");
  put("1.txt", "three");
  put("2.json",
      R"({"conversations":[{"from":"human","value":"<image> or <image>?"},{"from":"gpt","value":"b"}]})");
  put("3.txt", "which?");
  put("4.txt", "the same number");
  put("5.json", R"({"question":"Same?","caption":"no","answers":["no","yes"]})");
  const auto all = read(pack("several.tar"));
  ASSERT_EQ(all.size(), 3u) << report_.table("several.tar");
  EXPECT_THAT(all[0].images,
              ElementsAre("several.tar/1.0.jpg", "several.tar/1.2.png", "several.tar/1.10.jpg"));
  EXPECT_EQ(all[0].turns.at(0).text, "<image>\n<image>\n<image>");
  EXPECT_EQ(all[0].turns.at(1).text, "three");
  EXPECT_EQ(all[1].images.size(), 2u);
  EXPECT_EQ(all[2].turns.at(0).text, "<image>\n<image>\nSame?");
  EXPECT_THAT(all[2].answers, ElementsAre("no", "yes"));
  EXPECT_EQ(report_.drops.begin()->second.count, 2u);
  EXPECT_THAT(report_.drops.begin()->first,
              HasSubstr("two pictures in one sample, without numbers of their own"));
}

TEST_F(Shards, AreReadAgainWhenTheyHaveChanged) {
  fs::create_directories(folder_ / "shards");
  for (const std::string caption : {"a cat", "a dog and more"}) {
    put("0.jpg", "j");
    put("0.txt", caption);
    pack("shards/0.tar");
    for (int times = 0; times < 2; ++times) {  // made, then opened
      const ConversationStore store(
          folder_ / "cache",
          source_of(sources::find_and_hash(folder_ / "shards/", folder_ / "cache", {}), {}, {}), {});
      ASSERT_EQ(store.size(), 1u);
      EXPECT_EQ(store[0].turns.at(1).text, caption);
    }
  }
}

// Turns have the forms of other files, and the picture is the sample's, whatever the record calls it.
TEST_F(Shards, ASampleMayHaveTurnsInAnyForm) {
  put("1.png", "p");
  put("1.json", R"({"image":"https://x.org/1.png","messages":[{"role":"user","content":[{"type":"image"},)"
                R"({"type":"text","text":"What?"}]},{"role":"assistant","content":"A cat."}]})");
  put("2.png", "p");
  put("2.json", R"({"caption":"A dog.","caption":"A cow."})");
  put("3\n.png", "p");
  put("3\n.txt", "caf\xe9");
  const auto all = read(pack("q.tar", "--format=gnu"));
  ASSERT_EQ(all.size(), 1u) << report_.table("q.tar");
  EXPECT_THAT(all[0].images, ElementsAre("q.tar/1.png"));
  EXPECT_EQ(all[0].turns.at(0).text, "<image>\nWhat?");
  EXPECT_EQ(all[0].turns.at(1).text, "A cat.");
  EXPECT_THAT(report_.table("q.tar"), HasSubstr("2: its JSON: key \"caption\" stands twice in one object"));
  EXPECT_THAT(report_.table("q.tar"), HasSubstr("text that is not UTF-8; the first is q.tar: 3\\x0a"));
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
  EXPECT_THAT(report_.table("q.tar"), testing::HasSubstr("\"question\" is a number, must be text"));
}

// The pictures lie in a folder, and in no archive.
TEST_F(Shards, PicturesMayHaveTheirTextsBesideThem) {
  put("d/cat.v2.jpg", "1");
  put("d/cat.v2.txt", "a cat\n");
  put("d/b.PNG", "2");
  put("d/b.json", R"({"caption":"a dog","url":"x"})");
  put("d/both.jpg", "3");
  put("d/both.txt", "text");
  put("d/both.json", R"({"caption":"what a downloader has noted"})");
  put("d/alone.jpg", "4");
  put("d/README.md", "none of them");
  const std::string folder = folder_ / "in/d";
  std::vector<Conversation> all;
  read_conversations(
      sources::find(folder, sources::Content::kPictures), {},
      [&](Conversation&& c) { all.push_back(std::move(c)); }, report_);
  ASSERT_EQ(all.size(), 3u) << report_.table(folder);
  EXPECT_EQ(all[0].id, "b");
  EXPECT_THAT(all[0].images, ElementsAre("b.PNG"));
  EXPECT_EQ(all[0].turns.at(1).text, "a dog");
  EXPECT_EQ(all[1].turns.at(1).text, "text");
  EXPECT_EQ(all[2].id, "cat.v2");
  EXPECT_EQ(all[2].turns.at(1).text, "a cat");
  EXPECT_EQ(report_.drops.at("no text of the picture's name beside it").first, "alone");
  EXPECT_EQ(sources::find(folder).format, sources::Format::kJson) << "what other tasks can read of it";

  put("d/metadata.jsonl", R"({"file_name":"alone.jpg","text":"by name"})");
  const auto source = sources::find(folder, sources::Content::kPictures);
  EXPECT_NE(source.format, sources::Format::kPictures) << "records come first";
}

}  // namespace
}  // namespace pipeline::picture_texts
