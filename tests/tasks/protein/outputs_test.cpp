// Embeddings of samples and of residues, as files that grow.
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>

#include "plugins/scores/labels/report.hpp"
#include "plugins/tasks/protein/label_files.hpp"
#include "tests/tasks/protein/small_task.hpp"

namespace pipeline::tasks::protein {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Of = LabelForm::Of;

struct Embedded : SmallTask {
  explicit Embedded(const std::string& what)
      : SmallTask("id,sequence\na,ACD\nb,YYYY\nc,AC\n", PL_PURPOSE_PREDICT) {
    config.predict.what = {what};
  }
  void predict() {
    ProteinBatch batch;
    batch.ids = {0, 1, 2}, batch.split = Split::kTest;
    prediction = embeddings(setting(), data());
    prediction->predict(batch, inference(), sent.prediction());
  }
  // The values behind the header of a file.
  std::vector<float> values(const std::string& name) const {
    const std::string& bytes = sent.grown.at(name);
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), sizeof header);
    std::vector<float> all((bytes.size() - 8 - header) / sizeof(float));
    std::memcpy(all.data(), bytes.data() + 8 + header, all.size() * sizeof(float));
    return all;
  }

  std::unique_ptr<Prediction> prediction;
  Sent sent;
};

TEST(Embeddings, OfASampleAreTheMeanOverItsResidues) {
  Embedded embedded("embeddings");
  embedded.predict();
  EXPECT_THAT(embedded.values("embeddings.safetensors"), ElementsAre(201, 201, 219, 201.5, 200.5, 200.5));
}

TEST(Embeddings, AreOfTheLayerThatIsAskedFor) {
  Embedded embedded("embeddings");
  embedded.config.predict.layer = 0;
  embedded.predict();
  EXPECT_THAT(embedded.values("embeddings.safetensors"), ElementsAre(1, 1, 19, 1.5, 0.5, 0.5));
}

TEST(Embeddings, MayBeThatOfTheFirstToken) {
  Embedded embedded("embeddings");
  embedded.config.predict.pooling = "cls";
  embedded.predict();
  EXPECT_THAT(embedded.values("embeddings.safetensors"), ElementsAre(7, 8, 7, 8, 7, 8));
}

TEST(Embeddings, OfATokenThatTheModelLacksAreRefused) {
  Embedded embedded("embeddings");
  embedded.config.predict.pooling = "cls";
  embedded.model.has_cls = false;
  EXPECT_THAT(tests::message_of<Error>([&] { embedded.predict(); }),
              HasSubstr("predict.pooling: = \"cls\": the encoder-decoder has no such token"));
}

TEST(Embeddings, OfALayerThatTheModelLacksAreRefused) {
  Embedded embedded("embeddings");
  embedded.config.predict.layer = 3;
  EXPECT_THAT(tests::message_of<Error>([&] { embedded.predict(); }),
              HasSubstr("predict.layer: must be at most 2"));
}

TEST(Embeddings, OfResiduesHaveATensorForEachSample) {
  Embedded embedded("residue_embeddings");
  embedded.predict();
  const std::string name = "residue-embeddings-00001-of-00001.safetensors";
  EXPECT_THAT(embedded.sent.grown.at(name), HasSubstr(R"("b":{"dtype":"F32","shape":[4,2],)"));
  EXPECT_EQ(embedded.values(name).size(), 9u * 2);
}

TEST(Embeddings, AreDrawnAsAMap) {
  Embedded embedded("embeddings");
  embedded.predict();
  embedded.folder.write("embeddings.safetensors", embedded.sent.grown.at("embeddings.safetensors"));
  embedded.prediction->finish(Split::kTest, embedded.folder.path(), embedded.inference(),
                              embedded.sent.prediction());
  EXPECT_THAT(embedded.sent.files.at("embeddings.svg"), HasSubstr("embeddings of 3 proteins, by esm2"));
}

// Predicted labels as tables and pictures.

// Eight residues, ACDEFGHX.
const proteins::Sample& sample() {
  static const proteins::Sample one =
      proteins::make_sample(std::vector<uint8_t>{0, 1, 2, 3, 4, 5, 6, residues::kUnknown});
  return one;
}

LabelledSample labelled(std::span<const float> predicted, const std::string& file = "") {
  return {.sample = sample(),
          .id = 0,
          .name = "p",
          .file = file,
          .chain = "A",
          .labels = {.problem = "unknown"},
          .predicted = predicted};
}

TEST(LabelFiles, OfChainsHaveTheProbabilityOfEachClass) {
  const auto files = label_files_of({.of = Of::kSamples, .classes = {"in", "out"}});
  const std::vector<float> told{std::log(0.25f), std::log(0.75f)};
  EXPECT_THAT(files->columns(), ElementsAre("residues", "known", "prediction", "p_in", "p_out", "label"));
  EXPECT_THAT(files->row(labelled(told)), ElementsAre("8", "7", "out", "0.250000", "0.750000", ""));
}

TEST(LabelFiles, OfResiduesAreLettersWhereAllNamesAre) {
  const auto letters = label_files_of({.of = Of::kParts, .classes = {"H", "E"}}),
             words = label_files_of({.of = Of::kParts, .classes = {"in", "out"}});
  std::vector<float> told(16, -1.0f);
  told[1] = 0;
  EXPECT_THAT(letters->row(labelled(told)), ElementsAre("8", "7", "EHHHHHHH"));
  EXPECT_THAT(words->row(labelled(told)), ElementsAre("8", "7"));
}

TEST(LabelFiles, OfResiduesHaveARowForEach) {
  const auto files = label_files_of({.of = Of::kParts, .are_numbers = true, .mean = 1});
  Sent sent;
  files->write(labelled(std::vector<float>(8, 0.5f)), sent.prediction());
  EXPECT_THAT(sent.grown.at("labels.csv"),
              testing::StartsWith("id,chain,number,insertion,residue,prediction,label\np,A,1,,A,1.5,\n"));
}

TEST(Contacts, OfPairsThatAreFarEnoughApartAreExpected) {
  const auto files = label_files_of({.of = Of::kPairs});
  EXPECT_THAT(files->row(labelled(std::vector<float>(64, 0.0f))), ElementsAre("8", "7", "1.5"))
      << "three pairs are six apart or more, each with probability 1/2";
}

TEST(Contacts, AreListedFromTheLikeliest) {
  const auto files = label_files_of({.of = Of::kPairs});
  std::vector<float> told(64, -2.0f);
  told[7] = 3;  // residues 1 and 8
  Sent sent;
  files->write(labelled(told), sent.prediction());
  EXPECT_THAT(sent.grown.at("contacts.csv"), HasSubstr("contact\np,A,1,,A,8,,X,0.952574,\n"));
}

TEST(Contacts, AreDrawnForASampleThatHasAFile) {
  const auto files = label_files_of({.of = Of::kPairs});
  const std::vector<float> told(64, 0.0f);
  Sent without, with;
  files->write(labelled(told), without.prediction());
  files->write(labelled(told, "p"), with.prediction());
  EXPECT_TRUE(without.files.empty());
  EXPECT_THAT(with.files.at("p-contacts.svg"), testing::StartsWith("<svg "));
}

// What an evaluation of labels keeps.

TEST(LabelRecord, IsThereAndBack) {
  const labels::LabelRecord record{
      .group = 0xfedcba9876543210, .right = {5000000.07, 0.1}, .values = {1, -2.5f, NAN}};
  const labels::LabelRecord back = labels::LabelRecord::unpack(record.pack());
  EXPECT_EQ(back.group, record.group);
  EXPECT_EQ(back.right, record.right);
  ASSERT_EQ(back.values.size(), 3u);
  EXPECT_EQ(back.values[1], -2.5f);
  EXPECT_TRUE(std::isnan(back.values[2]));
}

}  // namespace
}  // namespace pipeline::tasks::protein
