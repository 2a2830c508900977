// Pictures that cannot be used, and what is said of them.
#include "plugins/data/picture_texts/pictures.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/data/images/pictures.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::picture_texts {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

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
