#include "quantization/matrix_form.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

// What bitsandbytes makes of the same values is compared in tests/parity/quantization_parity.py.

namespace pipeline::quantization {
namespace {

std::vector<float> normal_values(int64_t count) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<float> decoded(Form form, int64_t rows, int64_t columns, const std::vector<std::byte>& bytes) {
  std::vector<float> values;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<float> one(static_cast<size_t>(columns));
    const auto* const data = reinterpret_cast<const uint8_t*>(bytes.data()) + row * Row::bytes(form, columns);
    Row(form, columns, data).decode(0, one);
    values.insert(values.end(), one.begin(), one.end());
  }
  return values;
}

std::vector<std::byte> encoded(Form form, int64_t rows, int64_t columns, const std::vector<float>& values) {
  std::vector<std::byte> bytes(static_cast<size_t>(rows * Row::bytes(form, columns)));
  encode(form, rows, columns, values.data(), bytes.data());
  std::vector<std::byte> in_parts(bytes.size());
  encode(form, rows, columns, values.data(), in_parts.data(), [](int64_t count, const auto& body) {
    body(count / 3, count);
    body(0, count / 3);
  });
  EXPECT_EQ(in_parts, bytes);
  return bytes;
}

TEST(MatrixForm, LevelsAndMapsAreThoseOfThePapers) {
  EXPECT_EQ(kNf4Levels[0], -1);
  EXPECT_EQ(kNf4Levels[7], 0);
  EXPECT_EQ(kNf4Levels[15], 1);
  const auto& map = dynamic_map();
  EXPECT_TRUE(std::ranges::is_sorted(map));
  EXPECT_EQ(std::ranges::count(map, 0.0f), 1);
  EXPECT_EQ(map.back(), 1);
  EXPECT_FLOAT_EQ(map.front(), -0.99296874f);  // no -1: the middle of the last two hundredth and 1
}

TEST(MatrixForm, BytesOfARowSayHowManyColumnsItHas) {
  for (const Form form : {Form::kInt8, Form::kNf4})
    for (int64_t columns = kBlock; columns <= 40000; columns += kBlock) {
      const int64_t bytes = Row::bytes(form, columns);
      EXPECT_EQ(bytes % 32, 0);
      ASSERT_EQ(Row::columns(form, bytes), columns);
    }
  EXPECT_EQ(Row::columns(Form::kNf4, 1000), -1);
  EXPECT_EQ(Row::columns(Form::kInt8, 33), -1);
  EXPECT_LT(static_cast<double>(Row::bytes(Form::kNf4, 4096)) * 8 / 4096, 4.2);
}

// Half the widest gap between two levels, and 8 bits of the size.
TEST(MatrixForm, ValuesComeBackAsNearAsTheirBitsAllow) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{5, 64}, {7, 704}, {3, 17024}}) {
    const std::vector<float> values = normal_values(rows * columns);
    for (const Form form : {Form::kInt8, Form::kNf4}) {
      const std::vector<float> back = decoded(form, rows, columns, encoded(form, rows, columns, values));
      const size_t block = form == Form::kNf4 ? kBlock : static_cast<size_t>(columns);
      for (size_t first = 0; first < values.size(); first += block) {
        float size = 0;
        for (size_t i = first; i < first + block; ++i) size = std::max(size, std::abs(values[i]));
        for (size_t i = first; i < first + block; ++i)
          ASSERT_NEAR(back[i], values[i], size * (form == Form::kNf4 ? 0.17f : 0.5f / 127 + 1e-6f)) << i;
      }
    }
  }
}

// Blocks are counted through the whole matrix, so the groups of 256 begin within rows.
TEST(MatrixForm, RowsHaveTheScalesOfTheGroupsThatTheyAreIn) {
  const int64_t rows = 12, columns = 64 * 50;
  std::vector<float> values = normal_values(rows * columns);
  // The second group of blocks is a thousand times as large as the others.
  for (size_t i = 256 * kBlock; i < 512 * kBlock; ++i) values[i] *= 1000;
  const std::vector<float> back =
      decoded(Form::kNf4, rows, columns, encoded(Form::kNf4, rows, columns, values));
  double error = 0, size = 0;
  for (size_t i = 256 * kBlock; i < 512 * kBlock; ++i) {
    error += std::pow(back[i] - values[i], 2);
    size += std::pow(values[i], 2);
  }
  EXPECT_LT(std::sqrt(error / size), 0.1);
}

TEST(MatrixForm, ZerosStayZeros) {
  const std::vector<float> zeros(640);
  for (const Form form : {Form::kInt8, Form::kNf4})
    EXPECT_EQ(decoded(form, 2, 320, encoded(form, 2, 320, zeros)), zeros);
}

TEST(MatrixForm, PartsOfARowAreDecodedAsTheWhole) {
  const int64_t columns = 64 * 300;
  const std::vector<float> values = normal_values(columns);
  for (const Form form : {Form::kInt8, Form::kNf4}) {
    const std::vector<std::byte> bytes = encoded(form, 1, columns, values);
    const std::vector<float> whole = decoded(form, 1, columns, bytes);
    std::vector<float> part(128);
    const auto* const data = reinterpret_cast<const uint8_t*>(bytes.data());
    for (int64_t begin = 0; begin + 128 <= columns; begin += 64) {
      Row(form, columns, data).decode(begin, part);
      ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin)) << begin;
    }
  }
}

}  // namespace
}  // namespace pipeline::quantization
