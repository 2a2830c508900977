// The protein task on sequences, as a user runs it: files of several kinds, divided in several ways, and what
// is predicted for them.
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include <zlib.h>

#include <gmock/gmock.h>

#include <test_paths.hpp>

#include "tests/e2e/job.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kFamilies = 12, kMembers = 4;

std::string made_up_letters(size_t length, uint64_t seed) {
  constexpr std::string_view kLetters = "ACDEFGHIKLMNPQRSTVWY";
  std::string letters;
  while (letters.size() < length) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    letters += kLetters[(seed >> 33) % kLetters.size()];
  }
  return letters;
}

void pack(const std::string& text, const fs::path& file) {
  gzFile packed = gzopen(file.c_str(), "wb");
  EXPECT_EQ(gzwrite(packed, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
  EXPECT_EQ(gzclose(packed), Z_OK);
}

// Families of similar sequences: every sixth residue is a member's own.
class Sequences : public testing::Test, public Job {
 protected:
  struct Protein {
    std::string name, letters, family;
  };

  Sequences() {
    std::string fasta, table = "id,sequence,cluster,split\n", members, list = "id\tsplit\n";
    for (int family = 0; family < kFamilies; ++family)
      for (int member = 0; member < kMembers; ++member) {
        const auto seed = static_cast<uint64_t>(family);
        std::string letters = made_up_letters(40 + 3 * static_cast<size_t>(family), seed);
        const std::string others =
            made_up_letters(letters.size(), 1000 + 100 * seed + static_cast<uint64_t>(member));
        for (size_t i = static_cast<size_t>(member); i < letters.size(); i += 6) letters[i] = others[i];
        const std::string number = std::to_string(family * 10 + member),
                          name = "sp|P" + number + "|FAM" + std::to_string(family) + "_X";
        const std::string split = family < 8    ? "train"
                                  : family < 10 ? "Valid"
                                  : family < 11 ? "test"
                                                : "other";
        proteins_.push_back({name, letters, std::to_string(family)});
        fasta +=
            ">" + name + " a protein OS=Nothing\n" + letters.substr(0, 30) + "\n" + letters.substr(30) + "\n";
        table += name + "," + letters + ",c" + std::to_string(family) + "," + split + "\n";
        members += "P" + std::to_string(family * 10) + "\tP" + number + "\n";  // as MMseqs2 writes accessions
        list += "P" + number + "\t" + split + "\n";
      }
    write_text(path("all.fasta"), fasta + ">short\nMKV\n>bad\nMK1V\n");
    write_text(path("all.csv"), table);
    write_text(path("members.tsv"), members);
    write_text(path("list.tsv"), list + "P999\ttest\n");
    write_text(path("train.toml"), config("all.fasta"));
  }

  static std::string config(const std::string& file) {
    return "[run]\ndir = \"run\"\ncache_dir = \"cache\"\ndevice = \"cpu\"\nreproducible = "
           "true\n[task]\nplugin = \"protein\"\nmodel = \"esm2\"\nsequences = \"" +
           file +
           "\"\ndata.max_residues = 64\nsplit = { folds = 4 }\nesm2 = { num_layers = 2, hidden_dim = 16, "
           "num_heads = 2 }\n" +
           kShortTraining;
  }

  // How a run divides the sequences: names by split, and by cluster.
  struct Division {
    std::map<std::string, std::set<std::string>> splits, clusters, splits_of_cluster;
  };
  Division division(const std::string& run) const {
    Division division;
    const auto lines = read_lines(path(run + "/splits.csv"));
    EXPECT_EQ(lines.at(0), "id,cluster,split,reason,residues");
    for (size_t i = 1; i < lines.size(); ++i) {
      std::istringstream fields(lines[i]);
      std::string name, cluster, split;
      std::getline(fields, name, ',');
      std::getline(fields, cluster, ',');
      std::getline(fields, split, ',');
      EXPECT_TRUE(division.splits[split].insert(name).second) << name;
      if (split.empty()) continue;
      division.clusters[cluster].insert(name);
      division.splits_of_cluster[cluster].insert(split);
    }
    return division;
  }
  void expect_families_together(const Division& division) const {
    EXPECT_EQ(division.clusters.size(), size_t{kFamilies});
    for (const auto& [cluster, splits] : division.splits_of_cluster) EXPECT_EQ(splits.size(), 1u) << cluster;
    std::map<std::string, std::set<std::string>> families;
    for (const Protein& protein : proteins_) families[protein.family].insert(protein.name);
    for (const auto& cluster : division.clusters)
      EXPECT_TRUE(std::ranges::any_of(families, [&](const auto& family) {
        return family.second == cluster.second;
      })) << cluster.first;
  }
  // A short run with these settings, in a folder of its own.
  Result run(const std::string& dir, const Words& settings) const {
    return call("run", Words{"run.dir=" + dir, "train.max_steps=2"} + settings);
  }

  std::vector<Protein> proteins_;
};

TEST_F(Sequences, AreDividedBySimilarityAndLearntFrom) {
  const Result trained = call("run").ended(0);
  EXPECT_THAT(trained.out, HasSubstr("sequences  49 in "));
  EXPECT_THAT(
      trained.out + trained.err,
      AllOf(HasSubstr("1 of 50 records of"), HasSubstr("the character \"1\" is no residue (\"bad\")"),
            HasSubstr("left out   1 sequence of 3 residues, which have fewer than"),
            HasSubstr("the test split has 12 sequences of 3 clusters: figures over so few say little")));
  expect_families_together(division("run"));
  EXPECT_THAT(read_text(path("run/splits.csv")),
              HasSubstr("short,,,fewer known residues than task.data.min_residues,3\n"));
  call("evaluate").ended(0);
  // The run's own table, taken as a list, says the same division.
  const Result again = run("again", {"task.split.by=column", "task.split.list=run/splits.csv"}).ended(0);
  EXPECT_EQ(division("again").splits, division("run").splits);
  expect_families_together(division("again"));
}

TEST_F(Sequences, AreDividedByTheUsersClusters) {
  run("members", {"task.split.by=clusters", "task.split.list=members.tsv"}).ended(0);
  expect_families_together(division("members"));
  run("column", {"task.split.by=clusters", "task.sequences=all.csv"}).ended(0);
  expect_families_together(division("column"));
  const Result none = run("none", {"task.split.by=clusters"}).ended(2);
  EXPECT_THAT(none.err, HasSubstr("none of the 48 sequences has a cluster: give them a column \"cluster\""));
}

TEST_F(Sequences, AreDividedByTheUsersSplits) {
  for (const std::string setting : {"task.sequences=all.csv", "task.split.list=list.tsv"}) {
    const Result trained = run("run", {"task.split.by=column", setting}).ended(0);
    const Division found = division("run");
    EXPECT_EQ(found.splits.at("training").size(), 32u);
    EXPECT_EQ(found.splits.at("validation").size(), 8u);
    EXPECT_EQ(found.splits.at("test").size(), 4u);
    EXPECT_THAT(trained.out, AllOf(HasSubstr("left out   4 sequences, of which "),
                                   HasSubstr("does not say train, val or test: sp|P110|FAM11_X"),
                                   HasSubstr("it has \"other\"")));
    EXPECT_EQ(setting.starts_with("task.split"),
              trained.out.find("1 of its 49 names are not in ") != std::string::npos)
        << trained.out;
    fs::remove_all(path("run"));
  }
  // Equal sequences in two splits: the user's own affair, and said.
  write_text(path("twice.csv"),
             read_text(path("all.csv")) + "twin," + proteins_.front().letters + ",c0,test\n");
  const Result twin = run("twin", {"task.split.by=column", "task.sequences=twice.csv"});
  EXPECT_THAT(twin.out,
              HasSubstr("of the 5 sequences of the test split 1 are in the training split, too (twin)"));
}

TEST_F(Sequences, TrainAlikeOnAnyNumberOfProcesses) {
  call("run").ended(0);
  const Result three =
      call("run", {"run.dir=three", "launch.processes=3", "strategy.plugin=sharded", "backend.plugin=shm"})
          .ended(0);
  EXPECT_EQ(curve("three"), curve("run"));
  EXPECT_EQ(read_text(path("three/splits.csv")), read_text(path("run/splits.csv")));
}

TEST_F(Sequences, VariantsOfARuinedModelAreAnError) {
  ASSERT_EQ(call("run", {"optimizer.kind=sgd", "optimizer.lr=1e30", "train.max_steps=1", "evaluate.every=0",
                         "evaluate.at_end=false"})
                .code,
            0);
  const Protein& protein = proteins_.front();
  write_text(path("one.fasta"), ">P0\n" + protein.letters + "\n");
  write_text(path("dms.csv"), "id,mutation\nP0," + protein.letters.substr(0, 1) + "1W\n");
  for (const char* scoring : {"masked", "wild-type", "pseudo-perplexity"}) {
    const Result result = call("predict", {"task.test_path=one.fasta", "task.predict.mutations=dms.csv",
                                           std::string("task.predict.scoring=") + scoring})
                              .ended(2);
    EXPECT_THAT(result.err, HasSubstr("sample \"P0\": score (variants.csv) is nan, must be a number"));
  }
}

TEST_F(Sequences, FilesThatGrowAreThoseOfOneProcessHoweverTheyWereMade) {
  call("run", {"train.max_steps=2"}).ended(0);
  write_text(path("dms.csv"), "id,mutation,dms\nP0," + proteins_.front().letters.substr(0, 1) + "1W,2\nP0," +
                                  proteins_.front().letters.substr(1, 1) + "2G,1\nP1,W999A,1\n");
  std::string many;  // so many that a prediction can be ended within
  for (int i = 0; i < 10; ++i)
    for (const Protein& protein : proteins_) many += ">" + protein.name + "\n" + protein.letters + "\n";
  write_text(path("many.fasta"), many);
  const bool has_parquet = fs::exists(PIPELINE_BUILD_DIR "/lib/pipeline/readers/parquet_reader.so");
  const auto words = [&](const std::string& output) {
    return Words{"task.test_path=many.fasta",
                 "task.predict.what=[\"scores\", \"embeddings\", \"residue_embeddings\"]",
                 std::string("task.predict.formats=[\"safetensors\"") + (has_parquet ? ",\"parquet\"]" : "]"),
                 "task.predict.pictures=false",
                 "task.predict.mutations=dms.csv",
                 "--output",
                 output};
  };
  const Result whole = call("predict", words("whole.csv")).ended(0);
  EXPECT_THAT(whole.out, AllOf(HasSubstr("20 scored (masked), in variants.csv"),
                               HasSubstr("10 of 30 mutations have no score, and their problem beside them: "
                                         "W999A: there is no residue 999; they are numbered 1 to 40")));

  Process process = start("predict", words("killed.csv"));
  ASSERT_TRUE(eventually([&] {
    const auto progress = nlohmann::json::parse(read_text(path("killed.csv.progress")), nullptr, false);
    return progress.is_object() && progress["samples"].get<int>() > 30;
  }));
  process.signal(SIGKILL);
  process.wait();
  EXPECT_FALSE(fs::exists(path("killed-files/embeddings.safetensors"))) << "it gets its name at the end";
  EXPECT_THAT(call("predict", words("killed.csv")).ended(0).out, HasSubstr("by an earlier process"));
  call("predict", words("three.csv") + Words{"launch.processes=3"}).ended(0);
  std::vector<std::string> files{"embeddings.safetensors", "residue-embeddings-00001-of-00001.safetensors",
                                 "variants.csv", "mutations.csv"};
  if (has_parquet) files.insert(files.end(), {"embeddings.parquet", "residue-embeddings.parquet"});
  for (const char* other : {"killed", "three"})
    for (const std::string& file : files) {
      EXPECT_EQ(read_text(path(std::string(other) + "-files/" + file)),
                read_text(path("whole-files/" + file)))
          << other << " " << file;
      EXPECT_FALSE(fs::exists(path(std::string(other) + "-files/" + file + ".part")));
    }
  // Predictions do not replace the file that they are made of.
  EXPECT_THAT(call("predict", words("many.fasta")).ended(2).err,
              HasSubstr("many.fasta: there is a file that is no table of predictions"));
  EXPECT_EQ(read_text(path("many.fasta")), many);
  // Names that are there 10 times have numbers in the files.
  EXPECT_TRUE(fs::exists(path("whole-files/sp-P0-FAM0_X~1-residues.csv")));
}

TEST_F(Sequences, NamesOfFilesAreSafeAndOfOneSequenceEach) {
  call("run", {"train.max_steps=1"}).ended(0);
  const Words names{"sp|P1|ONE", "sp/P1/ONE", "../up", "a", "a", "a-4", "a~4", "-rf", "$(x)"};
  std::string fasta;
  for (size_t i = 0; i < names.size(); ++i)
    fasta += ">" + names[i] + "\nMKTAYIAKQRQISF" + proteins_[i].letters + "\n";
  write_text(path("odd.fasta"), fasta);
  call("predict", {"task.test_path=odd.fasta", "task.predict.what=[\"scores\", \"residue_embeddings\"]",
                   "task.predict.pictures=false"})
      .ended(0);
  std::set<std::string> files, contents;
  for (const auto& entry : fs::recursive_directory_iterator(path("run/submission-files")))
    if (const std::string name = entry.path().filename(); name.ends_with("-residues.csv")) {
      files.insert(name.substr(0, name.size() - std::string("-residues.csv").size()));
      contents.insert(read_text(entry.path()));
    }
  EXPECT_THAT(files, testing::UnorderedElementsAre("sp-P1-ONE~1", "sp-P1-ONE~2", "_.-up", "a~4", "a~5",
                                                   "a-4~6", "a-4~7", "_rf", "_(x)"));
  EXPECT_EQ(contents.size(), names.size());
  // Tensors are called as the proteins are, where there is one of the name.
  const std::string tensors =
      read_text(path("run/submission-files/residue-embeddings-00001-of-00001.safetensors"));
  for (const char* name : {"\"../up\"", "\"$(x)\"", "\"-rf\"", "\"sp-P1-ONE~1\"", "\"a~5\""})
    EXPECT_THAT(tensors, HasSubstr(name));
}

TEST_F(Sequences, OfAFolderAreThoseBelowItAndTheOthersAreCounted) {
  fs::create_directories(path("folder/more/deep"));
  pack(read_text(path("all.fasta")), path("folder/more/deep/all.fasta.gz"));
  write_text(path("folder/one.fa"), ">one\n" + proteins_.front().letters + "\n");
  write_text(path("folder/more/notes.txt"), "");
  EXPECT_THAT(run("run", {"task.sequences=folder"}).ended(0).out,
              AllOf(HasSubstr("sequences  50 in "), HasSubstr("ignored 1 file: .txt 1\n")));
  const Result tested = call("evaluate", {"task.test_path=folder"});
  EXPECT_THAT(tested.out + tested.err, HasSubstr("sequences  50 in ")) << "test data are found alike";
  const Result packed = call("predict", {"run.dir=run", "task.test_path=folder/more/deep/all.fasta.gz",
                                         "task.predict.what=[\"embeddings\"]"});
  EXPECT_THAT(packed.out + packed.err, HasSubstr("sequences  49 in ")) << "a packed file is no structure";
}

TEST_F(Sequences, TooManyThatAreNoneStopTheRunWithTheReasons) {
  std::string fasta = read_text(path("all.fasta"));
  for (int i = 0; i < 60; ++i) fasta += ">bad" + std::to_string(i) + (i % 2 == 0 ? "\nMK1V\n" : "\n\n");
  write_text(path("bad.fasta"), fasta);
  EXPECT_THAT(run("bad", {"task.sequences=bad.fasta"}).ended(2).err,
              AllOf(HasSubstr("bad.fasta: 61 of 110 records cannot be used (55%), at most 50% may be "
                              "(task.data.max_unusable): correct or remove them, or raise it"),
                    HasSubstr("31: the character \"1\" is no residue"),
                    HasSubstr("30: the sequence has no residues")));
  EXPECT_EQ(run("bad", {"task.sequences=bad.fasta", "task.data.max_unusable=0.6"}).code, 0);
}

TEST_F(Sequences, WhatCannotBeIsRefusedByName) {
  const auto problem = [&](Words settings) { return run("wrong", std::move(settings)).ended(2).err; };
  EXPECT_THAT(problem({"task.pdb_path=all.fasta"}),
              HasSubstr("task.pdb_path is there, too: leave one of them out"));
  EXPECT_THAT(problem({"task.sequences=none.fasta"}),
              HasSubstr("task.sequences=none.fasta: there is no such file"));
  EXPECT_THAT(problem({"task.data.unit=chain"}),
              HasSubstr("is of use with structures alone (task.pdb_path)"));
  EXPECT_THAT(problem({"task.split.by=column"}),
              HasSubstr("says train, val or test of none of the 48 sequences"));
  EXPECT_THAT(problem({"task.split.list=list.tsv"}),
              HasSubstr("is of use with task.split.by = \"clusters\""));
  std::string dna = ">gene\n";
  for (int i = 0; i < 100; ++i) dna += "ACGT";
  write_text(path("dna.fasta"), dna + "\n");
  EXPECT_THAT(problem({"task.sequences=dna.fasta"}), HasSubstr("these are nucleic acids"));
  std::string text = read_text(path("train.toml"));
  text.replace(text.find("model = \"esm2\"\n"), 15, "");
  text.replace(text.find("esm2 = {"), text.find("[optimizer]") - text.find("esm2 = {"), "");
  write_text(path("train.toml"), text);
  EXPECT_THAT(problem({}), HasSubstr("have no structure, which task.model = \"encoder-decoder\" needs"));
}

}  // namespace
}  // namespace pipeline::tests
