// What a task needs of its objective, of masked residues and of labels.
#include <gmock/gmock.h>
#include <pipeline/error.hpp>

#include "plugins/data/proteins/learnt.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/scores/labels/report.hpp"
#include "tests/tasks/protein/small_task.hpp"

namespace pipeline::tasks::protein {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kTable =
    "id,sequence,split,label,kind\n"
    "a,ACDEFGHIKL,train,1,one\n"
    "b,MNPQRSTVWYACD,train,3,two\n"
    "c,KLMNXPQRS,val,5,two\n"
    "d,ACACACAC,test,2,one\n";

std::vector<int64_t> numbers(const at::Tensor& t) {
  return {t.const_data_ptr<int64_t>(), t.const_data_ptr<int64_t>() + t.numel()};
}
std::vector<float> floats(const at::Tensor& t) {
  return {t.const_data_ptr<float>(), t.const_data_ptr<float>() + t.numel()};
}

struct Masked : SmallTask {
  explicit Masked(uint32_t purpose = PL_PURPOSE_TRAIN) : SmallTask(kTable, purpose) {
    config.mask.random = config.mask.keep = 0;
    open(masked_residues(setting()));
  }
};

TEST(MaskedResidues, ATrainingSampleIsAChain) {
  EXPECT_EQ(Masked().objective->sample_count(Split::kTrain), 2u);
}

TEST(MaskedResidues, NeedNoHead) { EXPECT_EQ(Masked().objective->head(), std::nullopt); }

TEST(MaskedResidues, OfATrainingBatchAreHiddenAndAskedFor) {
  const Masked masked;
  const PackedProteins packed = masked.batch(Split::kTrain, {0, 1}).packed;
  ASSERT_EQ(packed.target_rows.size(), 4u) << "15% of 10 and of 13 residues";
  const std::vector<int64_t> tokens = numbers(packed.tokens);
  for (const int64_t row : packed.target_rows)
    EXPECT_EQ(tokens[static_cast<size_t>(row)], residues::kMaskToken);
}

TEST(MaskedResidues, OfAnEvaluationAreEachATargetOnce) {
  const Masked masked;
  uint64_t targets = 0;
  for (uint64_t id = 0; id < masked.objective->sample_count(Split::kVal); ++id)
    targets += masked.batch(Split::kVal, {id}, Purpose::kValidate).packed.target_rows.size();
  EXPECT_EQ(targets, 8u) << "nine residues, of which X is unknown";
}

TEST(MaskedResidues, OfAnEvaluationAreNamedByTheirPass) {
  EXPECT_THAT(Masked().objective->sample_name(Split::kVal, 0), testing::StartsWith("c from 0, masking "));
}

TEST(MaskedResidues, AddUpTheirLoss) {
  Masked masked;
  Sent sent;
  masked.objective->evaluate(masked.batch(Split::kVal, {0, 1}, Purpose::kValidate), masked.inference(),
                             sent.evaluation());
  const auto [sum, weight] = sent.values.at("loss");
  EXPECT_GT(weight, 0);
  EXPECT_NEAR(sum / weight, std::log(20), 1e-5);
}

TEST(MaskedResidues, ArePredictedWithARowAndTablesOfEachSample) {
  Masked masked(PL_PURPOSE_PREDICT);
  Sent sent;
  ProteinBatch batch;
  batch.ids = {0}, batch.split = Split::kTest;
  masked.objective->predict(batch, masked.inference(), sent.prediction());
  EXPECT_EQ(sent.rows.at(0).size(), masked.objective->prediction_columns().size());
  EXPECT_THAT(sent.files, testing::Contains(testing::Key("a-residues.csv")));
  EXPECT_THAT(sent.grown, testing::Contains(testing::Key("mutations.csv")));
}

struct Labelled : SmallTask {
  explicit Labelled(const char* what, const char* column = "label", uint32_t purpose = PL_PURPOSE_TRAIN)
      : SmallTask(kTable, purpose) {
    config.objective = what;
    config.label.column = column;
    objective = learnt_labels(setting());
  }
  Objective& open() {
    objective->open(data(), frequencies);
    return *objective;
  }
};

TEST(LearntLabels, OfNumbersAreInDeviationsOfTheTrainingData) {
  Labelled labels(residues::kRegression);
  labels.open();
  const float deviation = std::sqrt(2.0f);  // of 1 and 3
  EXPECT_THAT(floats(labels.batch(Split::kTrain, {0, 1}).packed.values),
              ElementsAre(testing::FloatEq(-1 / deviation), testing::FloatEq(1 / deviation)));
}

TEST(LearntLabels, GiveTheHeadTheClassesOfTheData) {
  Labelled labels(residues::kClassification, "kind");
  EXPECT_THAT(labels.open().head()->classes, ElementsAre("one", "two"));
}

TEST(LearntLabels, GoIntoTheStateWithTheWeights) {
  Labelled labels(residues::kClassification, "kind");
  proteins::TaskState state;
  labels.open().put_into(state);
  EXPECT_EQ(state.labels->kind, "classification chain");
  EXPECT_EQ(state.labels->where, "kind");
}

TEST(LearntLabels, OfTheWeightsAreUsedWithoutTraining) {
  Labelled labels(residues::kClassification, "kind", PL_PURPOSE_EVALUATE);
  proteins::TaskState state;
  state.labels = records::LabelScale{.classes = {"two", "one"}, .kind = "classification chain"};
  labels.objective->take_from(state);
  EXPECT_THAT(labels.open().head()->classes, ElementsAre("two", "one"));
}

TEST(LearntLabels, OfAnotherKindAreNotTaken) {
  Labelled labels(residues::kClassification, "kind", PL_PURPOSE_EVALUATE);
  proteins::TaskState state;
  state.labels = records::LabelScale{.classes = {"two", "one"}, .kind = "classification residue"};
  labels.objective->take_from(state);
  EXPECT_THAT(labels.open().head()->classes, ElementsAre("one", "two"));
}

TEST(LearntLabels, AreRefusedWhereTheModelHasNoSuchClass) {
  Labelled labels(residues::kClassification, "kind");
  labels.config.label.classes = {"one", "three"};
  EXPECT_THAT(tests::message_of<Error>([&] { labels.open(); }),
              HasSubstr("label.classes: the data has also \"two\", and the model \"one\", \"three\""));
}

TEST(LearntLabels, AddUpSquaredErrors) {
  Labelled labels(residues::kRegression);
  labels.open();
  labels.model.told = at::zeros({2, 1});
  Sent sent;
  labels.objective->evaluate(labels.batch(Split::kTrain, {0, 1}), labels.inference(), sent.evaluation());
  EXPECT_NEAR(sent.values.at("loss").first, 1, 1e-6) << "twice (1 / sqrt 2)^2";
  EXPECT_EQ(sent.values.at("loss").second, 2);
}

TEST(LearntLabels, OfClassesAreCountedByWhatIsPredicted) {
  Labelled labels(residues::kClassification, "kind");
  labels.open();
  labels.model.told = at::tensor({-0.1f, -2.0f, -0.2f, -1.0f}).view({2, 2});
  Sent sent;
  labels.objective->evaluate(labels.batch(Split::kTrain, {0, 1}), labels.inference(), sent.evaluation());
  EXPECT_EQ(sent.values.at("confusion/0").first, 1) << "one, and it is";
  EXPECT_EQ(sent.values.at("confusion/2").first, 1) << "two, taken for one";
  EXPECT_NEAR(sent.values.at("loss").first, 0.1 + 1, 1e-6);
}

TEST(LearntLabels, AreRecordedOfEachSample) {
  Labelled labels(residues::kRegression);
  labels.open();
  labels.model.told = at::tensor({0.5f, -1.0f}).view({2, 1});
  Sent sent;
  labels.objective->evaluate(labels.batch(Split::kTrain, {0, 1}), labels.inference(), sent.evaluation());
  ASSERT_EQ(sent.records.size(), 2u);
  const labels::LabelRecord record = labels::LabelRecord::unpack(sent.records[1]);
  EXPECT_THAT(record.values, ElementsAre(-1.0f));
  EXPECT_THAT(record.right, ElementsAre(3.0));
}

TEST(LearntLabels, ArePredictedInTheDatasOwnNumbers) {
  Labelled labels(residues::kRegression, "label", PL_PURPOSE_PREDICT);
  proteins::TaskState state;
  state.labels = records::LabelScale{.mean = 10, .deviation = 2, .kind = "regression chain"};
  labels.objective->take_from(state);
  labels.open();
  labels.model.told = at::tensor({0.5f}).view({1, 1});
  Sent sent;
  ProteinBatch batch;
  batch.ids = {1}, batch.split = Split::kTest;
  labels.objective->predict(batch, labels.inference(), sent.prediction());
  EXPECT_THAT(sent.rows.at(1), ElementsAre("13", "13", "11", "3"));
}

TEST(LearntLabels, OfContactsWeighChains) {
  Labelled labels(residues::kContacts);
  ProteinBatch batch;
  batch.ids = {4, 5, 6};
  EXPECT_EQ(labels.objective->weight(batch), 3u);
}

// The task's own part of a checkpoint, and what is said of one that is damaged.

proteins::TaskState some_state() {
  proteins::TaskState state;
  for (size_t a = 0; a < residues::kAminoAcidCount; ++a) state.frequencies[a] = 0.01 * static_cast<double>(a);
  state.model = "words of the model";
  const std::vector<uint64_t> training{0, 255, UINT64_MAX}, validation{3};
  state.learnt = proteins::Learnt{.training = proteins::ContentKeys(training),
                                  .validation = proteins::ContentKeys(validation, 99)};
  return state;
}

TEST(TaskState, IsReadAsItWasWritten) {
  const proteins::TaskState state = proteins::state_from(proteins::to_text(some_state()));
  EXPECT_EQ(state.frequencies, some_state().frequencies);
  EXPECT_EQ(state.model, "words of the model");
  EXPECT_EQ(state.learnt.training.keys(), some_state().learnt.training.keys());
  EXPECT_EQ(state.learnt.validation.keys(), some_state().learnt.validation.keys());
  EXPECT_EQ(state.learnt.training.bound(), UINT64_MAX);
  EXPECT_EQ(state.learnt.validation.bound(), 99u);
}

TEST(TaskState, ThatIsDamagedIsAnErrorThatSaysSo) {
  const std::string whole = proteins::to_text(some_state());
  const auto with = [&](const std::string& what, const std::string& instead) {
    std::string text = whole;
    const size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return text.replace(at, what.size(), instead);
  };
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"), whole.substr(0, whole.size() / 2),
        with("0.01", "\"x\""), with("[0.0,", "["), with("\"words of the model\"", "7"),
        with("18446744073709551615", "-1"), with("[3]", "3")}) {
    try {
      proteins::state_from(text);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("the checkpoint's state of the protein task cannot be read")) << text;
    }
  }
}

}  // namespace
}  // namespace pipeline::tasks::protein
