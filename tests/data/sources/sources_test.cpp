#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include <gmock/gmock.h>

#include "plugins/data/sources/mixture.hpp"
#include "plugins/data/sources/source_files.hpp"
#include "tests/support/processor_time.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::sources {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class Sources : public testing::Test {
 protected:
  std::vector<std::string> names(const std::string& pattern) {
    std::vector<std::string> names;
    for (const std::string& path : find(folder_ / pattern).paths) names.push_back(fs::path(path).filename());
    return names;
  }
  std::string problem(const std::string& pattern) {
    const std::string text = tests::message_of<DataError>([&] { find(folder_ / pattern); });
    return text.starts_with(folder_.path() + "/") ? text.substr(folder_.path().size() + 1) : text;
  }
  void put(const std::string& name, const std::string& text = "{}\n") {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    folder_.write(name, text);
  }
  // Whether the content was read for its hash.
  bool reads(const std::string& name, Hash128* hash = nullptr) {
    bool has_read = false;
    files::Hooks hooks;
    hooks.progress = [&](uint64_t, uint64_t) { has_read = true; };
    const SourceFiles source = find_and_hash(folder_ / name, folder_ / "cache", hooks);
    if (hash != nullptr) *hash = source.hash;
    return has_read;
  }

  tests::FilesFolder folder_;
};

// open_clip and WebDataset name archives with braces.
TEST_F(Sources, BracesNameFilesThatAreAllThere) {
  for (const char* name : {"s-0008.tar", "s-0009.tar", "s-0010.tar", "a.jsonl", "b.jsonl", "c{1}.jsonl"})
    put(name);
  EXPECT_THAT(names("s-{0008..0010}.tar"), ElementsAre("s-0008.tar", "s-0009.tar", "s-0010.tar"));
  EXPECT_THAT(names("{b,a}.jsonl"), ElementsAre("b.jsonl", "a.jsonl"));
  EXPECT_THAT(names("s-00{0{8,9},10}.tar"), ElementsAre("s-0008.tar", "s-0009.tar", "s-0010.tar"));
  EXPECT_THAT(names("{[a]*,b.jsonl}"), ElementsAre("a.jsonl", "b.jsonl"));
  EXPECT_THAT(names("c{1}.jsonl"), ElementsAre("c{1}.jsonl"));
  EXPECT_EQ(problem_of(folder_ / "s-{0008..0010}.tar"), "");
  EXPECT_EQ(problem("s-{0008..0012}.tar"), "s-{0008..0012}.tar: there is no " + folder_ / "s-0011.tar" +
                                               ", which this pattern names: check it");
  EXPECT_THAT(problem("s-{0..9999999999}.tar"), HasSubstr("are more than 1000000 names"));
  EXPECT_THAT(problem_of(folder_ / "s-{0..9999999999}.tar"), HasSubstr("are more than 1000000 names"));
}

TEST_F(Sources, AreAFileAPatternOrAFolder) {
  for (const char* name : {"d/b.jsonl", "d/a.jsonl.gz", "d/.hidden.jsonl", "d/README.md", "d/c[1].jsonl"})
    put(name);
  EXPECT_THAT(names("d/b.jsonl"), ElementsAre("b.jsonl"));
  EXPECT_THAT(names("d/[ab].jsonl*"), ElementsAre("a.jsonl.gz", "b.jsonl"));
  EXPECT_THAT(names("d/c[1].jsonl"), ElementsAre("c[1].jsonl")) << "what is there is meant";
  EXPECT_THAT(names("d"), ElementsAre("a.jsonl.gz", "b.jsonl", "c[1].jsonl"));
  EXPECT_EQ(find(folder_ / "d/b.jsonl").name_of(0), "");
  EXPECT_EQ(find(folder_ / "d").name_of(1), "b.jsonl");
  EXPECT_EQ(find(folder_ / "d/").stem(), "d");
  EXPECT_EQ(find(folder_ / "d/[ab]*").stem(), "_ab__");
  EXPECT_EQ(problem_of(folder_ / "d/*.jsonl"), "");
  EXPECT_EQ(problem_of(folder_ / "d/x*"), "no file matches this pattern");
  EXPECT_THAT(problem_of(folder_ / "d/x"), HasSubstr("there is no such file"));
}

TEST_F(Sources, OfOneNameInSeveralFoldersAreCalledByTheirPaths) {
  put("x/a.jsonl");
  put("y/a.jsonl");
  EXPECT_THAT(find(folder_ / "*/a.jsonl").name_of(1), HasSubstr("/y/a.jsonl"));
}

TEST_F(Sources, ThatCannotBeMeantAreNamed) {
  put("mixed/a.jsonl");
  put("mixed/b.csv");
  EXPECT_EQ(problem("mixed"),
            "mixed: has files of several formats (a.jsonl, b.csv): name those to be read, as in "
            "\"folder/*.jsonl\"");
  put("splits/test-00000-of-00001.parquet");
  put("splits/train-00000-of-00001.parquet");
  EXPECT_THAT(problem("splits"),
              HasSubstr("has files of several splits (test-00000-of-00001.parquet, train-"));
  EXPECT_THAT(names("splits/train-*"), ElementsAre("train-00000-of-00001.parquet"));
  put("saved/data-00000-of-00001.arrow");
  put("saved/state.json");
  EXPECT_THAT(problem("saved"), HasSubstr("save_to_disk() writes: write it with to_parquet()"));
  fs::create_directories(folder_ / "empty");
  EXPECT_THAT(problem("empty"), HasSubstr("there is no file in this folder that can be read (.jsonl, "));
  EXPECT_THAT(problem("empty/*"), HasSubstr("no file matches this pattern"));
  put("table.xlsx", "PK\x03\x04 ... [Content_Types].xml");
  EXPECT_THAT(problem("table.xlsx"), HasSubstr("an Office document"));
}

TEST_F(Sources, OfSequencesAreFoundInFoldersOfAnyDepth) {
  for (const char* name : {"d/b.fasta", "d/x/y/a.FA.gz", "d/x/.hidden.fasta", "d/.git/c.fasta", "d/notes.txt",
                           "d/x/more.txt", "d/x/list.bed.gz", "d/README"})
    put(name, ">a\nACD\n");
  fs::create_directory_symlink("..", fs::path(folder_ / "d") / "x/loop");
  const SourceFiles source = find(folder_ / "d/", Content::kSequences);
  EXPECT_THAT(source.paths, ElementsAre(folder_ / "d/b.fasta", folder_ / "d/x/y/a.FA.gz"));
  EXPECT_EQ(source.ignored.text(), "4 files: .txt 2, without an ending 1, .bed.gz 1");
  check_unchanged(source);
  put("d/x/z/new.fasta", ">b\nACD\n");
  EXPECT_THAT(tests::message_of<DataError>([&] { check_unchanged(source); }), HasSubstr("changed while"));
  put("none/x/a.txt");
  EXPECT_THAT(tests::message_of<DataError>([&] { find(folder_ / "none", Content::kSequences); }),
              HasSubstr("there is no file in this folder, or below it, that can be read (.fasta, "));
  EXPECT_THAT(tests::message_of<DataError>([&] { find(folder_ / "none", Content::kSequences); }),
              HasSubstr("but 1 file: .txt 1"));
  put("splits/train/a.fasta");
  put("splits/test/a.fasta");
  EXPECT_THAT(tests::message_of<DataError>([&] { find(folder_ / "splits", Content::kSequences); }),
              HasSubstr("has files of several splits (test/a.fasta, train/a.fasta)"));
}

TEST_F(Sources, OfArchivesNothingElseIsRead) {
  put("shards/0.tar");
  put("shards/sizes.json");
  EXPECT_THAT(names("shards"), ElementsAre("0.tar"));
  put("others/0.tar");
  EXPECT_THAT(problem("*/0.tar"), HasSubstr("has two archives that are called 0.tar"));
}

// An archive may be unpacked, changed and packed again with the times of its files.
TEST_F(Sources, AnArchiveOfTheSameSizeAndTimeIsNotTheSame) {
  Hash128 first, second, renamed;
  put("a.tar", "one");
  const auto time = fs::last_write_time(folder_ / "a.tar");
  reads("a.tar", &first);
  put("a.tar", "two");
  fs::last_write_time(folder_ / "a.tar", time);
  reads("a.tar", &second);
  EXPECT_NE(first, second);
  fs::rename(folder_ / "a.tar", folder_ / "b.tar");
  reads("b.tar", &renamed);
  EXPECT_NE(second, renamed) << "pictures are found by its name";
}

// Comparing the names with each other took 27 s.
TEST_F(Sources, OfAPatternWithManyFilesAreFoundInNoTime) {
  constexpr int kFiles = 20000;
  for (int i = 0; i < kFiles; ++i) folder_.write("n" + std::to_string(i) + ".jsonl", "");
  std::string all;
  EXPECT_LT(tests::processor_seconds([&] {
              const SourceFiles source = find(folder_ / "n*.jsonl");
              ASSERT_EQ(source.paths.size(), static_cast<size_t>(kFiles));
              for (size_t i = 0; i < source.paths.size(); ++i) all += source.name_of(i);
            }),
            5);
  EXPECT_THAT(all, testing::StartsWith("n0.jsonln1.jsonln10.jsonl"));
}

// The clock of file systems has ticks, so that what is a moment old may change unseen.
TEST_F(Sources, AreReadForTheirHashUntilTheyHaveSettled) {
  put("a.jsonl", "one");
  Hash128 first, second;
  EXPECT_TRUE(reads("a.jsonl", &first));
  EXPECT_TRUE(reads("a.jsonl"));
  std::this_thread::sleep_for(std::chrono::milliseconds(3100));
  EXPECT_TRUE(reads("a.jsonl", &second));
  EXPECT_EQ(first, second);
  EXPECT_FALSE(reads("a.jsonl", &second)) << "it is known";
  EXPECT_EQ(first, second);
  put("a.jsonl", "two");
  EXPECT_TRUE(reads("a.jsonl", &second));
  EXPECT_NE(first, second);
}

TEST_F(Sources, ThatChangeAreNoticed) {
  put("d/a.jsonl");
  const SourceFiles source = find(folder_ / "d");
  EXPECT_NO_THROW(check_unchanged(source));
  put("d/b.jsonl");
  EXPECT_THROW(check_unchanged(source), DataError);
}

TEST_F(Sources, CanBeCancelled) {
  put("a.jsonl");
  files::Hooks hooks;
  hooks.cancelled = [] { return true; };
  EXPECT_THROW(find_and_hash(folder_ / "a.jsonl", folder_ / "cache", hooks), files::Cancelled);
}

// How often an epoch has each record of a source.
std::map<uint64_t, int> records_of(const Mixture& mixture, size_t source, uint64_t epoch) {
  std::map<uint64_t, int> counts;
  for (uint64_t sample = 0; sample < mixture.size(); ++sample) {
    const Mixture::Place place = mixture(epoch, sample);
    if (place.source == source) ++counts[place.record];
  }
  return counts;
}

TEST(MixtureTest, WithoutSharesIsOneSourceBehindTheOther) {
  const Mixture mixture({3, 0, 2}, {}, 1);
  ASSERT_EQ(mixture.size(), 5u);
  std::vector<std::pair<size_t, uint64_t>> places;
  for (uint64_t sample = 0; sample < 5; ++sample)
    places.emplace_back(mixture(7, sample).source, mixture(7, sample).record);
  EXPECT_THAT(places, ElementsAre(std::pair(0, 0), std::pair(0, 1), std::pair(0, 2), std::pair(2, 0),
                                  std::pair(2, 1)));
}

TEST(MixtureTest, WeightsDealOutAsManySamplesAsThereAreRecords) {
  const Mixture mixture({1000, 100, 900}, {.weights = {1, 2, 1}, .repeats = {}}, 1);
  EXPECT_EQ(mixture.size(), 2000u);
  EXPECT_EQ(mixture.samples_of(0), 500u);
  EXPECT_EQ(mixture.samples_of(1), 1000u);
  EXPECT_EQ(mixture.samples_of(2), 500u);
  for (uint64_t record = 0; record < 100; ++record) EXPECT_EQ(records_of(mixture, 1, 0)[record], 10);
  EXPECT_EQ(mixture.line("code", 1),
            "source     code: 1000 of 2000 samples of an epoch (50.0%), its 100 records 10.00 times each");
}

TEST(MixtureTest, PassesRunOnFromEpochToEpoch) {
  const Mixture mixture({10, 7}, {.weights = {}, .repeats = {0.3, 1.5}}, 5);
  EXPECT_EQ(mixture.samples_of(0), 3u);
  EXPECT_EQ(mixture.samples_of(1), 11u);
  std::map<uint64_t, int> of_first, of_second;
  std::set<std::set<uint64_t>> epochs;
  for (uint64_t epoch = 0; epoch < 70; ++epoch) {
    std::set<uint64_t> records;
    for (const auto& [record, count] : records_of(mixture, 0, epoch)) {
      of_first[record] += count;
      records.insert(record);
    }
    epochs.insert(records);
    for (const auto& [record, count] : records_of(mixture, 1, epoch)) of_second[record] += count;
  }
  for (uint64_t record = 0; record < 10; ++record) EXPECT_EQ(of_first[record], 21) << record;
  for (uint64_t record = 0; record < 7; ++record) EXPECT_EQ(of_second[record], 110) << record;
  EXPECT_GT(epochs.size(), 20u) << "other records in other epochs";
}

TEST(MixtureTest, IsAFunctionOfTheSeed) {
  const Shares shares{.weights = {}, .repeats = {0.5}};
  std::vector<uint64_t> orders[3];
  for (int i = 0; i < 3; ++i) {
    const Mixture mixture({100}, shares, i == 2 ? 2 : 1);
    for (uint64_t sample = 0; sample < mixture.size(); ++sample)
      orders[i].push_back(mixture(3, sample).record);
  }
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_NE(orders[0], orders[2]);
}

TEST(MixtureTest, AShareThatIsTooSmallIsOneSample) {
  const Mixture mixture({10, 10}, {.weights = {1, 1e-9}, .repeats = {}}, 1);
  EXPECT_EQ(mixture.samples_of(1), 1u);
}

}  // namespace
}  // namespace pipeline::sources
