// FASTA, Stockholm and tables of sequences, as other tools write them.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "plugins/data/residues/alphabet.hpp"
#include "plugins/data/sequences/sequence_store.hpp"
#include "tests/data/sequences/reading.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::sequences {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Fasta, HeadersAreThoseOfUniProtPfamAndTheRest) {
  const Read read = read_text("a.fasta",
                              ">sp|P69905|HBA_HUMAN Hemoglobin subunit alpha OS=Homo sapiens OX=9606\n"
                              "MVLSPADKTN\nVKAAWGKVGA\n"
                              "> B7VJ.1/1-98 after a space\r\nACDE\r\nFG\r\n"
                              ">\tUniRef50_A0A0\tn=3\nMK\n"
                              ">\nMM\n"
                              ">last without a newline\nWYW");
  EXPECT_THAT(read.names,
              ElementsAre("sp|P69905|HBA_HUMAN", "B7VJ.1/1-98", "UniRef50_A0A0", "sequence4", "last"));
  EXPECT_THAT(read.letters, ElementsAre("MVLSPADKTNVKAAWGKVGA", "ACDEFG", "MK", "MM", "WYW"));
  EXPECT_THAT(read.report.notes,
              ElementsAre("1 sequence has no name: sequence1, sequence2, ... by their place in the file"));
}

TEST(Fasta, OddLettersAreReadAndTold) {
  const Read read = read_text("a.fa",
                              ";an old comment\n>small\nacdefX\n>gaps\n--AC.DE--\nF-\n>stop\nACD*\n"
                              ">rare\nUOBZX\n>leu\nAJA\n>spaces\n AC DE \n\nFG\n");
  EXPECT_THAT(read.letters, ElementsAre("ACDEFX", "ACDEF", "ACD", "UOBZX", "AXA", "ACDEFG"));
  EXPECT_THAT(read.report.notes, ElementsAre("1 sequence has small letters, which are read as capitals",
                                             "1 sequence has gaps, which are left out",
                                             "1 sequence has a stop (*) at the end, which is left out",
                                             "1 sequence has J (leucine or isoleucine), which is read as X"));
}

TEST(Fasta, WhatIsNoSequenceIsDroppedWithItsLineAndName) {
  const Read read = read_text(
      "a.faa",
      ">ok\nACD\n>number\n1 ACD\n>none\n\n>stop\nAC*D\n>stops\nACD**\n>late\nAC*\nDE\n>bytes\nA\xc3\xa4\n");
  EXPECT_THAT(read.names, ElementsAre("ok", "stops"));
  EXPECT_EQ(read.report.records, 7u);
  EXPECT_EQ(read.report.used, 2u);
  EXPECT_EQ(
      read.report.table("a.faa"),
      "5 of 7 records of a.faa were dropped\n"
      "  1: the character \"1\" is no residue (\"number\"), line 3: each must be letters of amino acids\n"
      "  1: the sequence has no residues (\"none\"), line 5: each must be letters of amino acids\n"
      "  2: there is a stop (*) within the sequence (\"stop\"), lines 7, 11: each must be letters of amino "
      "acids\n"
      "  1: the character of code 195 is no residue (\"bytes\"), line 14: each must be letters of amino "
      "acids");
}

TEST(Fasta, AHeaderAndASequenceMayGoOverManyBlocks) {
  const std::string long_header(200'000, 'h'), long_sequence(300'001, 'L');
  const Read read = read_text("a.fasta", ">x " + long_header + "\n" + long_sequence + "\n>y\nC");
  EXPECT_THAT(read.names, ElementsAre("x", "y"));
  EXPECT_EQ(read.letters[0], long_sequence);
  ReadOptions options;
  options.max_record_bytes = 1000;
  const Read short_ones = read_text("a.fasta", ">x\n" + long_sequence + "\n>y\nC", {}, options);
  EXPECT_THAT(short_ones.names, ElementsAre("y"));
  EXPECT_THAT(short_ones.report.table("a"), HasSubstr("the record is too long (over 1000 letters), line 1"));
}

TEST(Fasta, TextThatIsNoneIsAnError) {
  EXPECT_EQ(
      error_of("a.fasta", "ACDEF\n"),
      "a.fasta:1: there is text before the first record: FASTA has a line \">NAME\" above each sequence");
  EXPECT_THAT(error_of("a.fasta", ""), HasSubstr("the file is empty"));
  EXPECT_THAT(error_of("a.fasta", ">a\n>b\n"),
              HasSubstr("a.fasta:1: the sequence has no residues (\"a\"); none of the 2 records is usable"));
  std::string dna = ">gene\n";
  for (int i = 0; i < 60; ++i) dna += "ACGTN";
  EXPECT_THAT(error_of("a.fasta", dna),
              HasSubstr("these are nucleic acids: translate them into proteins first"));
}

TEST(Fasta, LinesThatEndAsOnOldMacsAreNamed) {
  for (const char* text : {">a\rACD\r>b\rEFG\r", "\r>a\rACD", ">a\nAC\rDE\n"})
    EXPECT_THAT(error_of("a.fasta", text),
                HasSubstr("has a carriage return (CR) within a line, as where lines end as on old Macs: "
                          "write it again (tr '\\r' '\\n'"));
  EXPECT_THAT(error_of("a.fasta", ">a\nACD\n>b\rEFG\n"), HasSubstr("a.fasta:3: has a carriage return"));
  EXPECT_THAT(error_of("a.sto", "# STOCKHOLM 1.0\rA/1 ACD\r//\r"), HasSubstr("a.sto:1: has a carriage"));
  EXPECT_THAT(read_text("a.fasta", ">a\r\nACD\r\r\n").letters, ElementsAre("ACD"));
}

TEST(Fasta, UnderTheNameOfATableIsNamed) {
  for (const char* name : {"a.csv", "a.tsv", "a.jsonl"})
    EXPECT_THAT(error_of(name, ">a\nACD\n"),
                HasSubstr("begins as FASTA does, with \">\": its name must end in .fasta"));
  EXPECT_THAT(error_of("a.csv", "# STOCKHOLM 1.0\nA/1 ACD\n//\n"),
              HasSubstr("begins as Stockholm does: its name must end in .sto"));
}

TEST(Fasta, AFileOfAnyNameIsKnownByItsStart) {
  EXPECT_THAT(read_text("proteins", ">a\nACD\n").letters, ElementsAre("ACD"));
  EXPECT_THAT(error_of("proteins", "ACD\n"), HasSubstr("it must end in .fasta, .fa, .faa"));
}

TEST(Stockholm, BlocksAndAlignmentsAreJoined) {
  const Read read = read_text("a.sto",
                              "# STOCKHOLM 1.0\n#=GF ID one\n\nA/1-5 AC-DE\nB/2-4 .CDe.\n#=GC RF xxxxx\n\n"
                              "A/1-5 FG\nB/2-4 --\n//\n# STOCKHOLM 1.0\nA/1-5   W*\n//\n");
  EXPECT_THAT(read.names, ElementsAre("A/1-5", "B/2-4", "A/1-5"));
  EXPECT_THAT(read.letters, ElementsAre("ACDEFG", "CDE", "W"));
  EXPECT_THAT(error_of("a.sto", "# STOCKHOLM 1.0\nalone\n//\n"),
              HasSubstr("a.sto:2: \"alone\" must be a name and its letters"));
}

TEST(Table, SequencesHaveColumnsBesideThem) {
  const Columns columns{.others = {"split", "stability"}, .listed = "stability"};
  const Read csv =
      read_text("a.csv", "id,sequence,split,stability\n1,ACD,train,0.5\n2,\"ac-d\",,\n", columns);
  EXPECT_THAT(csv.names, ElementsAre("1", "2"));
  EXPECT_THAT(csv.letters, ElementsAre("ACD", "ACD"));
  EXPECT_EQ(csv.others[0][0], "train");
  EXPECT_EQ(csv.others[1][1], "");
  const Read json = read_text("a.jsonl",
                              R"({"sequence": "ACD", "id": 7, "stability": [1, null, 2.50], "split": null})"
                              "\n"
                              R"({"sequence": "WW", "id": "x", "stability": true})"
                              "\n"
                              R"({"sequence": "WW", "id": "y", "stability": [[1]]})"
                              "\n"
                              R"({"sequence": "W1W", "id": "z"})",
                              columns);
  EXPECT_THAT(json.names, ElementsAre("7", "x"));
  EXPECT_EQ(json.others[0][1], "1,,2.50");
  EXPECT_EQ(json.others[0][0], std::nullopt);
  EXPECT_EQ(json.others[1][1], "1");
  EXPECT_THAT(json.report.table("a.jsonl"), HasSubstr("\"stability\" is a list, line 3"));
  EXPECT_THAT(json.report.table("a.jsonl"), HasSubstr("the character \"1\" is no residue (\"z\"), line 4"));
  const Read chains = read_text("b.jsonl",
                                R"({"sequence": "ACD", "split": ["nucleus", "cytoplasm"], "id": "a"})"
                                "\n"
                                R"({"sequence": "WW", "split": "train", "id": "b"})",
                                columns);
  EXPECT_THAT(chains.names, ElementsAre("b")) << "several of a chain are no value";
  EXPECT_THAT(chains.report.table("b.jsonl"), HasSubstr("\"split\" is a list, line 1"));
  EXPECT_THAT(error_of("a.csv", "id,seq\n1,ACD\n"), HasSubstr("no column \"sequence\"; the header has"));
}

struct Folder {
  tests::FilesFolder files;
  std::string cache = files / "cache";

  SequenceStore open(const std::string& path, const Columns& columns = {}) const {
    const auto source = sources::find_and_hash(path, cache, {}, sources::Content::kSequences);
    return SequenceStore::open(source, {.cache_folder = cache, .columns = columns, .read = {}}, {});
  }
  size_t stores() const {
    return static_cast<size_t>(std::ranges::count_if(fs::directory_iterator(cache), [](const auto& entry) {
      return entry.path().extension() == ".sequences";
    }));
  }
};

std::string letters(const StoredSequence& sequence) {
  std::string text;
  for (const uint8_t code : sequence.codes()) text += residues::letter_of(code);
  return text;
}

TEST(SequenceStore, GivesBackWhatTheFileHas) {
  const Folder folder;
  const auto path = folder.files.write("a.tsv", "sequence\tid\tx\ty\nACXU\tone\t\tb\nWW\ttwo\ta\tlast\n");
  const SequenceStore store = folder.open(path, {.others = {"y", "none", "x"}});
  ASSERT_EQ(store.size(), 2u);
  EXPECT_EQ(store.residues(), 6u);
  EXPECT_EQ(letters(store[0]), "ACXU");
  EXPECT_EQ(store[0].known(), 2u);
  EXPECT_EQ(store[0].name(), "one");
  EXPECT_EQ(store[0].other(0), "b");
  EXPECT_EQ(store[0].other(1), std::nullopt);
  EXPECT_EQ(store[0].other(2), "");
  EXPECT_EQ(store[1].other(0), "last");
  EXPECT_EQ(store[1].other(2), "a");
  EXPECT_EQ(store[1].other(3), std::nullopt);
}

TEST(SequenceStore, IsMadeOnceForAContentAndItsColumns) {
  const Folder folder;
  const auto path = folder.files.write("a.fasta", ">a\nACD\n>b\nA1\n");
  const auto content = folder.open(path).content();
  EXPECT_EQ(folder.open(path).content(), content);
  EXPECT_EQ(folder.stores(), 1u);
  EXPECT_EQ(folder.open(path).report().dropped(), 1u) << "what was dropped is told each time";
  std::ofstream(path, std::ios::app) << ">c\nWW\n";
  EXPECT_NE(folder.open(path).content(), content);
  EXPECT_EQ(folder.stores(), 2u);
}

TEST(SequenceStore, EachOptionGivesAnother) {
  const Folder folder;
  const std::string table = "id,sequence,note,residues\na,ACD,x,ACD\n",
                    path = folder.files.write("a.csv", table);
  const auto stores_with = [&](const StoreOptions& options, const std::string& file) {
    const auto source = sources::find_and_hash(file, folder.cache, {}, sources::Content::kSequences);
    SequenceStore::open(source, options, {});
    return folder.stores();
  };
  const StoreOptions plain{.cache_folder = folder.cache, .columns = {}, .read = {}};
  std::vector<StoreOptions> others(5, plain);
  others[0].columns.sequence = "residues";
  others[1].columns.id = "note";
  others[2].columns.others = {"note"};
  others[3].read.max_record_bytes = 1000;
  others[4].read.quotes = records::Quotes::kText;
  EXPECT_EQ(stores_with(plain, path), 1u);
  for (size_t i = 0; i < others.size(); ++i) EXPECT_EQ(stores_with(others[i], path), 2 + i);
  EXPECT_EQ(stores_with(plain, folder.files.write("same.csv", table)), 7u)
      << "of another name, so of another stem";
  EXPECT_EQ(stores_with(plain, path), 7u);
}

TEST(SequenceStore, DamageIsNoticed) {
  const Folder folder;
  const auto path = folder.files.write("a.fasta", ">a\nACDEFGHIKLMNPQRSTVWY\n>b\nWW\n");
  const auto content = folder.open(path).content();
  for (const auto& entry : fs::directory_iterator(folder.cache)) {
    if (entry.path().extension() != ".sequences") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(60);
    file.put('!');
  }
  const SequenceStore damaged = folder.open(path);
  EXPECT_THROW(damaged[0], files::DataError);
  EXPECT_EQ(damaged.content(), content);
}

}  // namespace
}  // namespace pipeline::sequences
