// The head for contacts, which no other package has, against its formula; all heads under sharding's rules.
#include <cmath>
#include <map>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include "plugins/data/residues/alphabet.hpp"

#include "plugins/models/encoder/sequences.hpp"
#include "tests/support/unit_recorder.hpp"
#include "tiny_model.hpp"

namespace pipeline::encoder::testing {
namespace {

using Numbers = std::vector<int64_t>;

Config with(protein::LabelForm::Of of, std::vector<std::string> classes = {}, bool are_numbers = false) {
  Config config = tiny_config();
  config.label = protein::LabelForm{.of = of, .are_numbers = are_numbers, .classes = std::move(classes)};
  return config;
}

// Two chains; every residue is asked for, and pairs at least three apart have a label.
protein::PackedProteins pairs_batch() {
  protein::PackedProteins batch = batch_of({{"MKTAYIAKQ"}, {"ACD--EFGH"}});
  batch.target_rows.resize(static_cast<size_t>(batch.sequences.rows()));
  for (size_t row = 0; row < batch.target_rows.size(); ++row)
    batch.target_rows[row] = static_cast<int64_t>(row);
  batch.targets = at::zeros({batch.sequences.rows()}, at::kLong);
  std::vector<uint8_t> labels;
  for (int64_t s = 0; s < batch.sequences.sequences(); ++s)
    for (int64_t i = 0; i < batch.sequences.length(s); ++i)
      for (int64_t j = 0; j < batch.sequences.length(s); ++j)
        labels.push_back(std::abs(i - j) < 3 ? residues::kNoPair
                         : (i + j) % 4 == 0  ? residues::kContact
                                             : residues::kNoContact);
  batch.pair_labels = at::tensor(labels, at::kByte);
  return batch;
}

double number(const at::Tensor& t) { return t.item<double>(); }

TEST(LabelHeadOfPairs, IsItsFormula) {
  ProteinEncoder model(esm2(), with(protein::LabelForm::Of::kPairs));
  fill_with_numbers(model);
  const protein::PackedProteins batch = pairs_batch();
  const at::Tensor residues = model.embeddings(batch, {}, model.layers()).residues;
  std::map<std::string, at::Tensor> p;
  for (const auto& [name, value] : named(model)) p[name] = value.detach();
  const auto vectors = [&](const std::string& side) {
    return residues.matmul(p.at("pair_head." + side + ".weight")) + p.at("pair_head." + side + ".bias");
  };
  const at::Tensor left = vectors("left"), right = vectors("right"), odds = model.labels(batch, {});
  double loss = 0;
  int64_t at = 0;
  for (int64_t s = 0; s < 2; ++s) {
    const int64_t first = batch.sequences.start(s), length = batch.sequences.length(s);
    double sum = 0, count = 0;
    for (int64_t i = 0; i < length; ++i)
      for (int64_t j = 0; j < length; ++j, ++at) {
        const int64_t apart = (batch.positions[first + i] - batch.positions[first + j]).abs().item<int64_t>();
        const double expected =
            number(left[first + i].dot(right[first + j]) + left[first + j].dot(right[first + i])) /
                (2 * std::sqrt(static_cast<double>(protein::LabelHead::kPairWidth))) +
            number(p.at("pair_head.separation")[apart][0]);
        ASSERT_NEAR(number(odds[at]), expected, 1e-4 * (1 + std::abs(expected))) << s << " " << i << " " << j;
        const auto label = batch.pair_labels[at].item<uint8_t>();
        if (label == residues::kNoPair) continue;
        sum += std::log1p(std::exp(label == residues::kContact ? -expected : expected));
        count += 1;
      }
    loss += sum / count;
  }
  EXPECT_NEAR(number(model.loss(batch, {}).sum), loss, 1e-4 * loss);
}

TEST(LabelHeadOfPairs, HasTheGradientOfItsLoss) {
  ProteinEncoder model(esm2(), with(protein::LabelForm::Of::kPairs));
  fill_with_numbers(model);
  const protein::PackedProteins batch = pairs_batch();
  zero_gradients(model);
  model.loss(batch, {}).sum.backward();
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : named(model)) {
    // Along the gradient the loss changes most: what rounds is small beside it.
    const at::Tensor direction = parameter.grad() / parameter.grad().norm(), start = parameter.clone();
    const double step = 1e-2, slope = number(parameter.grad().norm());
    ASSERT_GT(slope, 0) << name;
    at::Tensor value = parameter;
    value.copy_(start + step * direction);
    const double above = number(model.loss(batch, {}).sum);
    value.copy_(start - step * direction);
    const double below = number(model.loss(batch, {}).sum);
    value.copy_(start);
    EXPECT_NEAR((above - below) / (2 * step), slope, 0.02 * slope + 1e-4) << name;
  }
}

TEST(LabelHead, TakesTheParametersOfUnitsOnlyWithinThem) {
  for (const protein::LabelForm::Of of :
       {protein::LabelForm::Of::kSamples, protein::LabelForm::Of::kParts, protein::LabelForm::Of::kPairs}) {
    ProteinEncoder model(esm2(),
                         with(of, of == protein::LabelForm::Of::kPairs ? std::vector<std::string>()
                                                                       : std::vector<std::string>{"a", "b"}));
    fill_with_numbers(model);
    protein::PackedProteins batch = pairs_batch();
    if (of == protein::LabelForm::Of::kSamples)
      batch.target_rows = {0, batch.sequences.start(1)}, batch.targets = at::ones({2}, at::kLong);
    const double expected = number(model.loss(batch, {}).sum);
    std::vector<at::Tensor> values;
    for (const auto& parameter : model.parameters()) values.push_back(parameter.tensor.detach().clone());
    for (const auto& parameter : model.parameters()) parameter.tensor.detach().fill_(NAN);
    tests::UnitRecorder recorder([&](uint32_t unit, uint32_t /*pass*/, bool entered) {
      for (size_t i = 0; i < values.size(); ++i) {
        if (model.parameters()[i].unit != unit) continue;
        at::Tensor value = model.parameters()[i].tensor.detach();
        entered ? value.copy_(values[i]) : value.fill_(NAN);
      }
    });
    ForwardPass pass;
    pass.units = &recorder.units();
    EXPECT_EQ(number(model.loss(batch, pass).sum), expected);
    EXPECT_EQ(recorder.forward, (std::vector<uint32_t>{0, 1, 2, 3, 0}));
  }
}

Numbers numbers(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<int64_t>(), tensor.const_data_ptr<int64_t>() + tensor.numel()};
}

TEST(SequencesTest, EachChainStandsBetweenItsOwnEnds) {
  const Sequences sequences(batch_of({{"LA#", "X"}, {"K-Qw"}}), true);
  EXPECT_EQ(sequences.rows.starts, (Numbers{0, 5, 8, 13}));
  EXPECT_EQ(numbers(sequences.tokens), (Numbers{0, 4, 5, 32, 2, 0, 24, 2, 0, 15, 16, 22, 2}));
  EXPECT_EQ(numbers(sequences.positions), (Numbers{0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 3, 4, 5}));
  EXPECT_EQ(sequences.targets, (Numbers{3, 11}));
}

TEST(SequencesTest, AChainOfAnotherSampleIsAnotherOne) {
  EXPECT_EQ(Sequences(batch_of({{"AA"}, {"CC"}, {}, {"D"}}), true).rows.starts, (Numbers{0, 4, 8, 11}));
}

TEST(SequencesTest, EmbeddingsMakeUpForTheShareOfMasks) {
  const Sequences sequences(batch_of({{"LA#", "XX"}}), true);
  const float one_in_five = 0.88f / 0.8f, none = 0.88f;
  EXPECT_TRUE(sequences.scale.allclose(
      at::tensor({one_in_five, one_in_five, one_in_five, 0.0f, one_in_five, none, none, none, none})));
  EXPECT_FALSE(Sequences(batch_of({{"LA#"}}), false).scale.defined());
}

TEST(SequencesTest, ABatchCanBeEmpty) {
  const Sequences sequences(batch_of({}), true);
  EXPECT_EQ(sequences.rows.sequences(), 0);
  EXPECT_EQ(sequences.tokens.numel(), 0);
}

}  // namespace
}  // namespace pipeline::encoder::testing
