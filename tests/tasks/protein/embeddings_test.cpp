// Embeddings of samples and of residues, as files that grow.
#include <cstring>

#include <gmock/gmock.h>

#include "tests/tasks/protein/small_task.hpp"

namespace pipeline::tasks::protein {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace pipeline::tasks::protein
