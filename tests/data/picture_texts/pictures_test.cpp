// The pictures that conversations and captions name, or have within.
#include <sys/stat.h>

#include <map>

#include <gmock/gmock.h>
#include <test_paths.hpp>

#include "plugins/data/picture_texts/pictures.hpp"
#include "tests/data/images/pictures.hpp"
#include "tests/data/picture_texts/conversations.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::picture_texts {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class ConversationPictures : public Conversations {};

// Each picture stands where its turn has it, whichever way it is named there.
TEST_F(ConversationPictures, MayHaveSeveralPicturesInAnyTurn) {
  const auto names = [&](const std::string& record) {
    const auto all = read("a.jsonl", record + "\n");
    std::string text;
    for (const auto& picture : all.at(0).images) text += picture.name + " ";
    for (const Turn& turn : all.at(0).turns) text += "| " + turn.text + " ";
    return text;
  };
  const std::string gpt = R"({"from":"gpt","value":"a"})";
  EXPECT_EQ(names(R"({"image":["1.png","2.png","3.png"],"conversations":[{"from":"human","value":)"
                  R"("<image> or <image>?"},)" +
                  gpt + R"(,{"from":"human","value":"none"},)" + gpt +
                  R"(,{"from":"human","value":"and\n<image>"},)" + gpt + "]}"),
            "1.png 2.png 3.png | <image> or <image>? | a | none | a | and\n<image> | a ");
  const auto parts = [](const std::string& list) {
    return R"({"role":"user","content":[)" + list + R"(]},{"role":"assistant","content":"a"})";
  };
  const std::string plain = R"({"type":"image"})", text = R"({"type":"text","text":"which?"})";
  EXPECT_EQ(
      names(R"({"images":["1.png","2.png"],"messages":[)" + parts(plain + "," + plain + "," + text) + "]}"),
      "1.png 2.png | <image>\n<image>\nwhich? | a ");
  const std::string by_path = R"({"type":"image","path":"p.png"})",
                    by_url = R"({"type":"image","url":"u.png"})",
                    by_image = R"({"type":"image","image":"i.png"})";
  EXPECT_EQ(
      names(R"({"messages":[)" + parts(text + "," + by_path + "," + by_url) + "," + parts(by_image) + "]}"),
      "p.png u.png i.png | which?<image>\n<image> | a | <image> | a ");
  // The pictures of the list stand at the other marks; one that is named twice is one.
  EXPECT_EQ(names(R"({"images":["1.png","i.png","2.png"],"messages":[)" + parts(plain) + "," +
                  parts(by_image) + "," + parts(by_path + "," + plain) + "]}"),
            "1.png i.png p.png 2.png | <image> | a | <image> | a | <image>\n<image> | a ");
  const auto within =
      read("b.jsonl", R"({"id":"x","images":["data:;base64,AAAA",{"bytes":"data:;base64,AAAB"}],)"
                      R"("messages":[)" +
                          parts(plain + "," + plain) + "]}\n" + R"({"id":"y","messages":[)" +
                          parts(R"({"type":"image","base64":"AAAC"})") + "]}\n");
  ASSERT_EQ(within.size(), 2u) << report_.table("b.jsonl");
  EXPECT_EQ(within[0].images.at(0).name, "(picture 1 in the record x)");
  EXPECT_EQ(within[0].images.at(1).bytes, std::string("\0\0\1", 3));
  EXPECT_EQ(within[1].images.at(0).bytes, std::string("\0\0\2", 3));
  const Conversation again = Conversation::unpack(within[0].pack());
  EXPECT_EQ(again.images, within[0].images);
  EXPECT_EQ(again.turns.size(), 2u);
  EXPECT_EQ(pictures_until(within[0], 0), 2u);
  EXPECT_EQ(reason(R"({"messages":[)" + parts(R"({"type":"image","image":["a.png","b.png"]})") + "]}"),
            "several pictures in one part of a turn: each is a part of its own");
  EXPECT_EQ(reason(R"({"images":["a.png"],"messages":[)" + parts(plain + "," + plain) + "]}"),
            "more <image> in the text than pictures");
}

TEST_F(ConversationPictures, CaptionsMayBeOfSeveralPictures) {
  const auto all =
      read("a.jsonl", R"({"image":["1.png","2.png"],"caption":"both"})"
                      "\n"
                      R"({"image":[{"path":"1.png"},{"path":"2.png"}],"question":"Same?","caption":"no"})"
                      "\n"
                      R"({"image":["1.png","2.png"],"question":"Is <image> as <image>?","caption":"no"})"
                      "\n"
                      R"({"image":["1.png","2.png"],"question":"What is <image>?","caption":"a"})"
                      "\n"
                      R"({"image":[],"caption":"nothing"})"
                      "\n");
  ASSERT_EQ(all.size(), 3u) << report_.table("a.jsonl");
  EXPECT_EQ(all[0].turns.at(0).text, "<image>\n<image>");
  EXPECT_EQ(all[1].turns.at(0).text, "<image>\n<image>\nSame?");
  EXPECT_EQ(all[2].turns.at(0).text, "Is <image> as <image>?");
  for (const Conversation& one : all) EXPECT_THAT(one.images, ElementsAre("1.png", "2.png"));
  EXPECT_THAT(report_.table("a.jsonl"), AllOf(HasSubstr("1: more pictures than <image> in the text"),
                                              HasSubstr("1: no picture as \"image\"")));
}

// A red pixel as RFC 2397 writes it, and as Hugging Face's data sets have it.
TEST_F(ConversationPictures, MayHaveTheirPictureWithin) {
  const std::string data =
      "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/"
      "pLvAAAAAElFTkSuQmCC";
  const std::string turns =
      R"("messages":[{"role":"user","content":[{"type":"image"},{"type":"text","text":"q"}]},)"
      R"({"role":"assistant","content":"a"}])";
  const std::string url =
      R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":")" + data +
      R"("}}]},{"role":"assistant","content":"a"}]})";
  const auto all =
      read("a.jsonl", R"({"id":"x","image":")" + data + "\"," + turns + "}\n" + R"({"images":[{"bytes":")" +
                          data + R"(","path":"b.png"}],)" + turns + "}\n" + url + "\n" +
                          R"({"image":"data:image/png;base64,????",)" + turns + "}\n");
  ASSERT_EQ(all.size(), 3u) << report_.table("a.jsonl");
  EXPECT_EQ(all[0].images.at(0).name, "(in the record x)");
  EXPECT_EQ(all[1].images.at(0).name, "b.png");
  EXPECT_EQ(report_.drops.begin()->first,
            "the picture within the record is not what \"data:image/...;base64,\" says");
  Pictures::Options options;
  options.folder = folder_.path();
  options.tiles.square.size = 1;
  const Pictures pictures(options);
  folder_.write("c.png", images::encode_png({1, 1, {255, 0, 0}}));
  const auto expected = pictures.load("c.png");
  ASSERT_TRUE(expected);
  for (const Conversation& one : all) {
    const Conversation kept = Conversation::unpack(one.pack());
    EXPECT_EQ(kept.images, one.images);
    const auto loaded = pictures.load(kept.images.at(0));
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->pixels, expected->pixels);
  }
}

TEST_F(ConversationPictures, CaptionsMayHaveTheirPictureWithin) {
  for (const std::string image :
       {R"("data:image/png;base64,AAAA")", R"({"bytes":"data:;base64,AAAA","path":null})"}) {
    const auto all = read("a.jsonl", R"({"image":)" + image + R"(,"caption":"a cat","id":7})" + "\n");
    ASSERT_EQ(all.size(), 1u) << report_.table("a.jsonl");
    EXPECT_EQ(all[0].images.at(0).bytes, std::string(3, '\0'));
    EXPECT_EQ(all[0].id, "7");
    EXPECT_EQ(all[0].turns.at(1).text, "a cat");
  }
}

// Pictures within and named ones may alternate, whatever the first record's form is, and in tables, too.
TEST_F(ConversationPictures, AreWithinOneRecordAndNamedByTheNext) {
  const std::string within = "data:image/png;base64,AAAA", bytes(3, '\0');
  const auto pictures = [&](const std::string& name, const std::string& text) {
    std::vector<messages::Picture> found;
    for (const Conversation& one : read(name, text))
      for (const messages::Picture& picture : one.images) found.push_back(picture);
    return found;
  };
  const auto lines = pictures("a.jsonl", R"({"image":"a.jpg","caption":"c"}
{"image":")" + within + R"(","caption":"c"}
{"image":["b.jpg",{"bytes":")" + within + R"("}],"caption":"c"}
{"image":"c.jpg","conversations":[{"from":"human","value":"<image>"},{"from":"gpt","value":"a"}]}
{"image":"d.jpg","caption":["one","another"],"answers":["one"]}
)");
  ASSERT_EQ(lines.size(), 6u) << report_.table("a.jsonl");
  EXPECT_EQ(lines[0], "a.jpg");
  EXPECT_EQ(lines[1].bytes, bytes);
  EXPECT_EQ(lines[1].name, "(in the record 2)");
  EXPECT_EQ(lines[3].bytes, bytes);
  EXPECT_EQ(lines[4], "c.jpg");
  const auto table = pictures("a.csv", "image,caption,id\na.jpg,c,x\n\"" + within + "\",c,y\n");
  ASSERT_EQ(table.size(), 2u) << report_.table("a.csv");
  EXPECT_EQ(table[0], "a.jpg");
  EXPECT_EQ(table[1].bytes, bytes);
  EXPECT_EQ(table[1].name, "(in the record y)");
}

TEST_F(ConversationPictures, WhatIsNoPathIsNamedForWhatItIs) {
  const std::string address = "https://example.org/a.jpg", bare = "/9j/" + std::string(600, 'A');
  for (const char* form : {"a.csv", "a.jsonl"}) {
    const bool is_table = std::string(form) == "a.csv";
    std::string text = is_table ? "image,caption\n" : "";
    for (const std::string& image : {std::string("a.jpg"), address, bare})
      text += is_table ? image + ",c\n" : R"({"image":")" + image + R"(","caption":"c"})" + "\n";
    EXPECT_EQ(read(form, text).size(), 1u);
    const std::string table = report_.table(form);
    EXPECT_THAT(table, testing::HasSubstr("the picture is a web address: download it, and name the file"));
    EXPECT_THAT(table,
                testing::HasSubstr("the picture is base64 by itself: write \"data:image/jpeg;base64,\""));
    EXPECT_THAT(table, testing::Not(testing::HasSubstr("AAAA")));
  }
}

// metadata.jsonl and metadata.csv.
TEST_F(ConversationPictures, AreNamedAsInHuggingFacesFolders) {
  for (const auto& [name, text] : std::map<std::string, std::string>{
           {"metadata.jsonl", R"({"file_name":"p/1.jpg","text":"a cat"})"},
           {"metadata.csv", "file_name,text\np/1.jpg,a cat\n"},
           {"blank.csv", "\n\r\nfile_name,text\np/1.jpg,a cat\n"},
           {"other.jsonl", R"({"file_name":"p/1.jpg","caption":"a cat","text":"another"})"}}) {
    const auto all = read(name, text);
    ASSERT_EQ(all.size(), 1u) << report_.table(name);
    EXPECT_THAT(all[0].images, ElementsAre("p/1.jpg"));
    EXPECT_EQ(all[0].turns.at(1).text, "a cat");
  }
  EXPECT_EQ(read("both.jsonl", R"({"image":"a.jpg","file_name":"b.jpg","caption":"c"})").at(0).images.at(0),
            "a.jpg");
}

TEST_F(ConversationPictures, AreNamedByCocosAnnotations) {
  const std::string
      info = R"("info":{"year":2014,"by":{"file_name":"x","id":1}},)",
      images = R"("images":[{"id":7,"file_name":"7.jpg","size":[1,{"id":3}]},{"file_name":"9.jpg","id":9}],)",
      annotations = R"("annotations":[{"image_id":9,"id":1,"caption":"a dog"},)"
                    R"({"image_id":7,"id":2,"caption":"a \"cat\""},{"image_id":7,"id":3,"caption":"again"},)"
                    R"({"image_id":8,"id":4,"caption":"none"},{"image_id":7,"id":5}],)",
      licenses = R"("licenses":[{"id":1}]})";
  for (const std::string& text :
       {"{" + info + images + annotations + licenses, "{\n  " + annotations + images + info + licenses}) {
    const auto all = read("captions.json", text);
    ASSERT_EQ(all.size(), 3u) << report_.table("captions.json");
    EXPECT_THAT(all[0].images, ElementsAre("9.jpg"));
    EXPECT_THAT(all[1].images, ElementsAre("7.jpg"));
    EXPECT_EQ(all[1].turns.at(1).text, "a \"cat\"");
    EXPECT_EQ(all[2].id, "3");
    EXPECT_EQ(report_.drops.at("an \"image_id\" that no picture of the file has").first, "annotation 4");
    EXPECT_EQ(report_.drops.at("no \"caption\", or one without text").first, "annotation 5");
  }
  const std::string path = folder_.write("cut.json", "{" + images + annotations);
  EXPECT_THAT(
      tests::message_of<DataError>([&] {
        read_conversations(
            sources::find(path), {}, [](Conversation&&) {}, report_);
      }),
      testing::HasSubstr("cut.json: begins as COCO's annotations do, and it is no JSON after its byte"));
}

// tests/parity/record_picture_tables.py has written bytes, lists of bytes, and lists of structs.
TEST_F(ConversationPictures, AndSoMayTheRowsOfParquet) {
  const auto rows = [&](const std::string& name) {
    std::vector<Conversation> all;
    report_ = {};
    read_conversations(
        sources::find(PIPELINE_SOURCE_DIR "/tests/data/picture_texts/fixtures/" + name), {},
        [&](Conversation&& c) { all.push_back(std::move(c)); }, report_);
    return all;
  };
  Pictures::Options options;
  options.tiles.square = {.size = 1, .mean = {0, 0, 0}, .deviation = {1, 1, 1}};
  const Pictures pictures(options);
  const auto colours = [&](const Conversation& one) {
    std::string text;
    for (const messages::Picture& picture : one.images) {
      const auto loaded = pictures.load(picture);
      text += !loaded ? "?" : loaded->pixels.at(0) > 0.5f ? "r" : loaded->pixels.at(1) > 0.5f ? "g" : "x";
    }
    return text;
  };
  const auto turns = rows("messages.parquet");
  ASSERT_EQ(turns.size(), 2u) << report_.table("messages.parquet");
  EXPECT_EQ(colours(turns[0]), "rg");
  EXPECT_EQ(turns[0].turns.at(0).text, "<image>\nor<image>");
  EXPECT_EQ(turns[0].images.at(1).name, "green.png");
  EXPECT_THAT(turns[1].images, IsEmpty());
  EXPECT_THAT(report_.table("m"), HasSubstr("1: more <image> in the text than pictures; the first is row 3"));
  const auto bytes = rows("bytes.parquet");
  ASSERT_EQ(bytes.size(), 2u);
  EXPECT_EQ(colours(bytes[0]) + colours(bytes[1]), "rg");
  const auto lists = rows("lists.parquet");
  ASSERT_EQ(lists.size(), 2u);
  EXPECT_EQ(colours(lists[0]), "rg");
  EXPECT_EQ(lists[0].turns.at(0).text, "<image>\n<image>\nSame?");
  EXPECT_EQ(colours(lists[1]), "g");
}

// Pictures that cannot be used, and what is said of them.

class UnusablePictures : public testing::Test {
 protected:
  // What is said of the picture, or "" if it can be used.
  std::string said(const std::string& name) {
    std::string warning;
    const Pictures pictures({.folder = folder_.path(),
                             .archives = tar_archives(folder_.path()),
                             .decode = {},
                             .tiles = {.square = {.size = 1}, .grids = {}},
                             .most_broken = 1,
                             .is_asked = false,
                             .warn = [&](const std::string& line) { warning = line; }});
    const bool is_loaded = pictures.load(name).has_value();
    EXPECT_EQ(is_loaded, warning.empty());
    return warning;
  }

  tests::FilesFolder folder_;
};

TEST_F(UnusablePictures, AreNamedForWhatTheyAre) {
  folder_.write("good.png", tests::picture("colour8.png"));
  EXPECT_EQ(said("good.png"), "");
  EXPECT_THAT(said("none.png"), StartsWith(folder_ / "none.png: No such file or directory: "));
  EXPECT_THAT(said("../x.png"), HasSubstr("leads out of the pictures' folder"));
  folder_.write("text.png", "hello");
  EXPECT_THAT(said("text.png"), StartsWith(folder_ / "text.png: no picture in a known format"));
  folder_.write("lfs.png", "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, '7') +
                               "\nsize 5171\n");
  EXPECT_THAT(said("lfs.png"), StartsWith(folder_ / "lfs.png: is a Git LFS pointer"));
  ASSERT_EQ(::mkfifo((folder_ / "pipe.png").c_str(), 0600), 0);
  EXPECT_EQ(said("pipe.png"),
            folder_ / "pipe.png: is a pipe (FIFO), must be a regular file: its sample is skipped");
}

// What is kept of a picture belongs to its content, whatever its file is called, and however long it is.
TEST_F(UnusablePictures, AnotherPictureOfTheSameNameAndSizeIsAnother) {
  const auto bitmap = [](uint8_t red) { return images::encode_png({1, 1, {red, 1, 1}}); };
  ASSERT_EQ(bitmap(255).size(), bitmap(254).size());
  const Pictures pictures({.folder = folder_.path(),
                           .archives = {},
                           .decode = {},
                           .tiles = {.square = {.size = 1}, .grids = {}},
                           .most_broken = 0,
                           .is_asked = false,
                           .warn = {}});
  std::vector<files::Hash128> contents;
  std::vector<std::vector<float>> pixels;
  const auto see = [&](const messages::Picture& picture) {
    const auto loaded = pictures.load(picture, [&](const files::Hash128& content) {
      contents.push_back(content);
      return false;
    });
    pixels.push_back(loaded->pixels);
  };
  for (const uint8_t red : {255, 254}) {
    folder_.write("a.png", bitmap(red));
    see("a.png");
  }
  messages::Picture within("b.png");
  within.bytes = bitmap(255);
  see(within);
  EXPECT_NE(contents.at(0), contents.at(1));
  EXPECT_NE(pixels.at(0), pixels.at(1));
  EXPECT_EQ(contents.at(0), contents.at(2)) << "and one content is one picture";
  EXPECT_EQ(pixels.at(0), pixels.at(2));
}

TEST_F(UnusablePictures, AnArchiveThatIsReadForThemSaysWhy) {
  folder_.write("beside.tar", "no archive");
  EXPECT_EQ(tests::message_of<files::DataError>([&] { said("a.png"); }),
            folder_ /
                    "beside.tar: its start: is no tar header: must be a whole tar archive that is not "
                    "compressed: it is read because pictures are looked for in the *.tar files of " +
                folder_.path() + ": mend it, or move it away");
}

}  // namespace
}  // namespace pipeline::picture_texts
