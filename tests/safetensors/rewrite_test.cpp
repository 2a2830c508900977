#include <bit>
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>

#include "core/safetensors/file.hpp"
#include "core/safetensors/rewrite.hpp"
#include "core/safetensors/writer.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::safetensors {
namespace {

using pipeline::tests::FilesFolder;
using pipeline::tests::message_of;
using pipeline::tests::read_all;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kNoLimit = UINT64_MAX;

template <class T>
std::vector<T> values_of(const TensorView& tensor) {
  std::vector<T> values(tensor.data.size() / sizeof(T));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

class Rewrite : public testing::Test {
 protected:
  std::filesystem::path file() const { return folder_ / "model.safetensors"; }

  void write(const std::vector<std::pair<std::string, std::vector<float>>>& tensors) {
    Writer writer(file().string());
    for (const auto& [name, values] : tensors)
      writer.declare(name, Dtype::kF32, {static_cast<int64_t>(values.size())});
    for (const auto& [name, values] : tensors) writer.write(name, std::as_bytes(std::span(values)));
    writer.finish();
  }
  std::vector<uint16_t> bits_of(std::vector<float> values, Dtype dtype) {
    write({{"x", std::move(values)}});
    rewrite(file(), dtype, kNoLimit);
    return values_of<uint16_t>(File::open(file().string()).at("x"));
  }

  FilesFolder folder_;
};

// Halfway cases go to the even neighbour; what is a number stays one.
TEST_F(Rewrite, ToBfloat16RoundsToNearestEven) {
  const float nan = std::bit_cast<float>(0x7f800001U);
  EXPECT_THAT(
      bits_of({1, 1 + 0x1p-8F, 1 + 0x3p-8F, 1 + 0x1.02p-8F, -0.0F, 1e-40F, INFINITY, nan}, Dtype::kBF16),
      ElementsAre(0x3f80, 0x3f80, 0x3f82, 0x3f81, 0x8000, 0x0001, 0x7f80, 0x7fc0));
}

TEST_F(Rewrite, ToFloat16RoundsToNearestEven) {
  EXPECT_THAT(
      bits_of({1, 1 + 0x1p-11F, 1 + 0x3p-11F, 65504, 65519, -0x1p-24F, 0x1p-25F, 0x1.8p-24F, 0x1p-14F,
               0x1.ff8p-15F, -INFINITY, NAN},
              Dtype::kF16),
      ElementsAre(0x3c00, 0x3c00, 0x3c02, 0x7bff, 0x7bff, 0x8001, 0, 2, 0x400, 0x3ff, 0xfc00, 0x7e00));
}

// All 65,536 numbers of both types, by way of float32.
TEST_F(Rewrite, NarrowNumbersComeBackToTheBit) {
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBF16}) {
    std::vector<uint16_t> all(1 << 16);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
    Writer writer(file().string());
    writer.declare("x", dtype, {1 << 16});
    writer.write("x", std::as_bytes(std::span(all)));
    writer.finish();
    EXPECT_EQ(rewrite(file(), Dtype::kF32, kNoLimit).rounded, 0U);
    const auto wide = values_of<float>(File::open(file().string()).at("x"));
    EXPECT_EQ(rewrite(file(), dtype, kNoLimit).rounded, 0U);
    const auto narrow = values_of<uint16_t>(File::open(file().string()).at("x"));
    for (size_t i = 0; i < all.size(); ++i) {
      if (!std::isnan(wide[i])) {
        ASSERT_EQ(narrow[i], all[i]);
      }
    }
  }
}

TEST_F(Rewrite, CountsWhatItRounds) {
  write({{"a", {1, 2, 1 + 0x1p-8F}}, {"b", {0.5F}}});
  const Rewritten done = rewrite(file(), Dtype::kBF16, kNoLimit);
  EXPECT_EQ(done.values, 4U);
  EXPECT_EQ(done.rounded, 1U);
  EXPECT_EQ(done.largest_change, 0x1p-8);
  EXPECT_EQ(done.bytes, 8U);
}

TEST_F(Rewrite, AValueThatFloat16CannotHaveIsNamed) {
  write({{"a", {1, 70000}}});
  EXPECT_THAT(message_of<SafetensorsError>([&] { rewrite(file(), Dtype::kF16, kNoLimit); }),
              HasSubstr("a has the value 70000.000000, which F16 cannot have: its largest is 65504"));
}

TEST_F(Rewrite, WiderNumbersAreRoundedAndCountedToo) {
  const auto rewritten = [&](double value) {
    const std::vector<double> values{value};
    Writer writer(file().string());
    writer.declare("x", Dtype::kF64, {1});
    writer.write("x", std::as_bytes(std::span(values)));
    writer.finish();
    return rewrite(file(), Dtype::kF32, kNoLimit);
  };
  EXPECT_EQ(rewritten(0.5).rounded, 0U);
  EXPECT_EQ(rewritten(0.1).rounded, 1U);
  EXPECT_THAT(message_of<SafetensorsError>([&] { rewritten(1e300); }), HasSubstr("which F32 cannot have"));
}

TEST_F(Rewrite, ShardsHaveAnIndexAndTheSameTensors) {
  write({{"a", {1, 2}}, {"b", {3, 4, 5, 6}}, {"c", {7}}, {"d", {8}}});
  rewrite(file(), std::nullopt, 12);
  EXPECT_FALSE(std::filesystem::exists(file()));
  const Folder folder = Folder::open(folder_.path());
  EXPECT_EQ(folder.files().size(), 3U);  // a; b, which is larger than a shard; c and d
  EXPECT_THAT(values_of<float>(folder.at("b")), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(values_of<float>(folder.at("d")), ElementsAre(8));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "model-00003-of-00003.safetensors"));
  EXPECT_THAT(read_all(folder_ / "model.safetensors.index.json"), HasSubstr("\"total_size\": 32"));
}

TEST_F(Rewrite, AFileThatIsAsItShouldBeStays) {
  write({{"a", {1, 2}}});
  const auto before = std::filesystem::last_write_time(file());
  rewrite(file(), std::nullopt, 8);
  rewrite(file(), Dtype::kF32, 8);
  EXPECT_EQ(std::filesystem::last_write_time(file()), before);
}

}  // namespace
}  // namespace pipeline::safetensors
