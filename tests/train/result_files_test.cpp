// Files of results: where they cannot be written, the error says where, why, and what to do.
#include <gtest/gtest.h>

#include "core/base/error.hpp"
#include "core/train/results/result_files.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

std::string result_problem(const std::string& path, const std::string& remedy) {
  return tests::message_of<Error>([&] { ResultFile(path, remedy); });
}

std::string side_problem(const fs::path& folder, const std::string& name) {
  return tests::message_of<Error>([&] { write_side_file(folder, name, std::as_bytes(std::span("abc", 3))); });
}

TEST(ResultFile, IsThereWholeOrNotAtAll) {
  const tests::FilesFolder folder;
  { ResultFile(folder / "new/x.json", ""); }
  EXPECT_TRUE(fs::is_empty(folder / "new"));
  ResultFile file(folder / "new/x.json", "");
  EXPECT_FALSE(fs::exists(file.path()));
  file.write("text");
  EXPECT_EQ(tests::read_all(folder / "new/x.json"), "text");
}

TEST(ResultFile, SaysWhatCanBeDoneAboutAPathThatCannotBeWritten) {
  const tests::FilesFolder folder;
  const std::string file = folder.write("file", "x");
  EXPECT_EQ(result_problem(file + "/x.json", "choose another run.dir"),
            file + ": cannot be written: Not a directory: choose another run.dir");
  EXPECT_EQ(result_problem(folder.path(), "choose another --output"),
            folder.path() + ": cannot be written: Is a directory: choose another --output");
}

TEST(ResultFile, APathThatCannotBeIsAMistakeOfTheOptions) {
  const tests::FilesFolder folder;
  const auto code = [](const auto& act) {
    try {
      act();
    } catch (const Error& error) {
      return error.code();
    }
    return uint32_t{0};
  };
  for (const std::string& path :
       {folder.path(), std::string("/proc/x.csv"), folder.write("file", "x") + "/x.csv",
        std::string("/dev/null"), folder / std::string(300, 'n')}) {
    EXPECT_EQ(code([&] { require_file_place(path, "choose another --output"); }), PL_ERROR_CONFIG) << path;
    if (path != folder.path()) {
      EXPECT_EQ(code([&] { require_folder_place(path + "/x", "choose another --output"); }), PL_ERROR_CONFIG)
          << path;
    }
  }
  EXPECT_EQ(tests::message_of<Error>([] { require_file_place("/proc/x.csv", "choose another --output"); }),
            "/proc/x.csv: cannot be written: No such file or directory: choose another --output");
  fs::remove(folder / "file");
  require_file_place(folder / "new/x.csv", "");
  require_folder_place(folder / "new/x", "");
  EXPECT_TRUE(fs::is_empty(folder / "new"));
}

TEST(SideFiles, AreNamedAfterTheResult) {
  EXPECT_EQ(side_files_of("results/x.csv"), "results/x-files");
  EXPECT_EQ(side_files_of("x"), "x-files");
}

TEST(SideFiles, GoIntoAFolderThatIsMadeAndReplaceOthers) {
  const tests::FilesFolder folder;
  for (const char* text : {"longer", "abc"})
    write_side_file(folder / "x-files", "a", std::as_bytes(std::span(std::string_view(text))));
  EXPECT_EQ(tests::read_all(folder / "x-files/a"), "abc");
}

TEST(SideFiles, ErrorsSayPathAndCause) {
  const tests::FilesFolder folder;
  const std::string file = folder.write("file", "x");
  EXPECT_EQ(side_problem(file, "a"), file + ": cannot be written: Not a directory");
  EXPECT_EQ(side_problem(file + "/below", "a"), file + "/below: cannot be written: Not a directory");
  fs::create_directory(folder / "a");
  EXPECT_EQ(side_problem(folder.path(), "a"), folder / "a: cannot be written: Is a directory");
}

TEST(SideFiles, AFullDiskHasItsOwnCodeAndRemedy) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  try {
    write_side_file("/dev", "full", std::as_bytes(std::span("abc", 3)));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), PL_ERROR_NO_SPACE);
    EXPECT_STREQ(error.what(),
                 "/dev/full: cannot be written: No space left on device: free some space there");
  }
}

// Predictions of x.csv into x-files.
class SideRecord : public testing::Test {
 protected:
  using Names = std::vector<std::string>;

  void write(SideFileRecord& record, const Names& names) const {
    record.add(names);
    for (const std::string& name : names) write_side_file(folder_ / "x-files", name, {});
  }
  // Predicts from the first sample to the last.
  void predict(const Names& names, const char* result = "x.csv") const {
    SideFileRecord record(folder_ / result);
    record.begin();
    write(record, names);
    record.remove_others();
  }
  // Predicts, and is killed before the end.
  void begin(const Names& names) const {
    SideFileRecord record(folder_ / "x.csv");
    record.begin();
    write(record, names);
  }
  Names files() const {
    Names names;
    if (fs::exists(folder_ / "x-files"))
      for (const auto& entry : fs::directory_iterator(folder_ / "x-files"))
        if (const std::string name = entry.path().filename(); !name.starts_with('.')) names.push_back(name);
    std::ranges::sort(names);
    return names;
  }

  tests::FilesFolder folder_;
};

TEST_F(SideRecord, WhatAnEarlierPredictionWroteGoesAndOtherFilesStay) {
  predict({"a", "b"});
  folder_.write("x-files/notes", "mine");
  predict({"b", "c"});
  EXPECT_EQ(files(), (Names{"b", "c", "notes"}));
  predict({"d"});
  EXPECT_EQ(files(), (Names{"d", "notes"}));
  predict({});
  EXPECT_EQ(files(), Names{"notes"});
}

TEST_F(SideRecord, WhereNothingIsLeftTheFolderGoesToo) {
  predict({"a"});
  predict({});
  EXPECT_FALSE(fs::exists(folder_ / "x-files"));
  predict({});
  EXPECT_FALSE(fs::exists(folder_ / "x-files"));
}

TEST_F(SideRecord, AKilledPredictionTakesNothingAwayAndWhatItWroteGoesWithTheNext) {
  predict({"a"});
  begin({"b"});
  EXPECT_EQ(files(), (Names{"a", "b"}));
  begin({"c"});
  predict({"d"});
  EXPECT_EQ(files(), Names{"d"});
}

TEST_F(SideRecord, APredictionThatGoesOnKeepsWhatItWroteBefore) {
  predict({"a"});
  begin({"b"});
  SideFileRecord goes_on(folder_ / "x.csv");
  write(goes_on, {"c"});
  goes_on.remove_others();
  EXPECT_EQ(files(), (Names{"b", "c"}));
}

TEST_F(SideRecord, ResultsThatShareAFolderLeaveEachOthersFiles) {
  predict({"a", "b"});
  predict({"b", "c"}, "x.txt");
  predict({"d"});
  EXPECT_EQ(files(), (Names{"b", "c", "d"}));
}

TEST_F(SideRecord, ALineThatAKillCutShortIsNoName) {
  predict({"a"});
  folder_.write("x-files/long", "mine");
  folder_.write("x-files/.written-by-x.csv", "a\nlong");  // of "longer"
  predict({"b"});
  EXPECT_EQ(files(), (Names{"b", "long"}));
}

TEST_F(SideRecord, NamesThatLeadElsewhereAreNotFollowed) {
  predict({"a"});
  const std::string thesis = folder_.write("thesis", "years of work");
  folder_.write("x-files/.written-by-x.csv", "../thesis\n..\n.\n" + thesis + "\na\n");
  predict({"b"});
  EXPECT_EQ(files(), Names{"b"});
  EXPECT_TRUE(fs::exists(thesis));
}

}  // namespace
}  // namespace pipeline::train
