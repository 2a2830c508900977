#include "core/safetensors/header.hpp"

#include <gmock/gmock.h>

#include "tests/support/processor_time.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::safetensors {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A file image: the length of `json` (or the one given), `json`, and `data_bytes` of data.
std::string image(const std::string& json, size_t data_bytes, uint64_t length = ~uint64_t{0}) {
  if (length == ~uint64_t{0}) length = json.size();
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xff);
  return bytes + json + std::string(data_bytes, 'x');
}

Header parse(const std::string& bytes) { return parse_header(std::as_bytes(std::span(bytes)), "m.st"); }

std::string error(const std::string& bytes) {
  return pipeline::tests::message_of<SafetensorsError>([&] { parse(bytes); });
}

TEST(Header, TensorsComeInTheOrderOfTheirData) {
  const Header header = parse(image(R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},)"
                                    R"("__metadata__":{"format":"pt"},)"
                                    R"("a":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]}}   )",
                                    12));
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].dtype, Dtype::kBF16);
  EXPECT_EQ(header.tensors[0].shape, (Shape{2, 1}));
  EXPECT_EQ(header.tensors[1].begin, 4u);
  EXPECT_EQ(header.tensors[1].end, 12u);
  EXPECT_EQ(header.metadata, (Metadata{{"format", "pt"}}));
}

TEST(Header, NoTensorsAndScalarsAndEmptyTensorsAreValid) {
  EXPECT_TRUE(parse(image("{}", 0)).tensors.empty());
  const Header header = parse(image(R"({"s":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                                    R"("e":{"dtype":"F32","shape":[3,0],"data_offsets":[8,8]}})",
                                    8));
  EXPECT_EQ(header.tensors.size(), 2u);
}

TEST(Header, SubByteTypesMustFillWholeBytes) {
  EXPECT_EQ(parse(image(R"({"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}})", 2)).tensors.size(), 1u);
  EXPECT_EQ(error(image(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2)),
            "m.st: tensor \"a\": F4 of shape [3] is no whole number of bytes");
}

TEST(Header, EachDefectHasItsMessage) {
  EXPECT_EQ(error("1234567"), "m.st: is 7 bytes long: too short for a safetensors file");
  EXPECT_EQ(error(image("{}", 0, 3)),
            "m.st: header length = 3, but the file has only 2 bytes after it: is it cut short? Copy or "
            "download it again");
  EXPECT_EQ(error(image("{}", 0, ~uint64_t{0} - 1)),
            "m.st: header length = 18446744073709551614: must be at most 100000000: not a safetensors file?");
  EXPECT_EQ(error(image("[]", 0)), "m.st: the header must begin with '{': not a safetensors file?");
  EXPECT_EQ(error(image("", 0)), "m.st: the header must begin with '{': not a safetensors file?");
  EXPECT_THAT(error(image("{\"a\":", 0)), StartsWith("m.st: header: not valid JSON at byte "));
  EXPECT_THAT(error(image("{\"\xff\":1}", 0)), StartsWith("m.st: header: not valid JSON at byte "));
  EXPECT_EQ(error(image(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                        R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                        1)),
            "m.st: header: key \"a\" stands twice in one object");
  EXPECT_EQ(error(image(R"({"a":3})", 0)), "m.st: tensor \"a\": is 3: must be an object");
  EXPECT_EQ(error(image(R"({"a":{"shape":[],"data_offsets":[0,0]}})", 0)),
            "m.st: tensor \"a\": has no \"dtype\"");
  EXPECT_EQ(error(image(R"({"a":{"dtype":"F31","shape":[],"data_offsets":[0,0]}})", 0)),
            "m.st: tensor \"a\": dtype = \"F31\": not a dtype of the format");
  EXPECT_EQ(error(image(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"x":1}})", 4)),
            "m.st: tensor \"a\": unknown key \"x\": expected dtype, shape and data_offsets");
  for (const std::string shape : {"3", "[-1]", "[1.0]", "[\"1\"]", "[18446744073709551616]"}) {
    EXPECT_THAT(error(image(R"({"a":{"dtype":"U8","shape":)" + shape + R"(,"data_offsets":[0,1]}})", 1)),
                HasSubstr(": must be a list of non-negative integers"))
        << shape;
  }
  EXPECT_EQ(error(image(R"({"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]}})", 1)),
            "m.st: tensor \"a\": dimension 9223372036854775808: larger than a signed 64-bit integer");
  EXPECT_EQ(error(image(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0)),
            "m.st: tensor \"a\": shape [4294967296, 4294967296]: the size overflows 64 bits");
  EXPECT_EQ(error(image(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4)),
            "m.st: tensor \"a\": data_offsets has 3 entries: must have 2");
  EXPECT_EQ(error(image(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4)),
            "m.st: tensor \"a\": data_offsets [4, 0] end before they begin");
  EXPECT_EQ(error(image(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,20]}})", 20)),
            "m.st: tensor \"a\": data_offsets [0, 20] hold 20 bytes, but F32 of shape [2, 3] needs 24");
  EXPECT_EQ(error(image(R"({"__metadata__":{"step":1}})", 0)),
            "m.st: __metadata__.step = 1: must be a string");
  EXPECT_EQ(error(image(R"({"__metadata__":[]})", 0)),
            "m.st: __metadata__ = []: must be an object of strings");
}

TEST(Header, TheDataMustBeTiledExactly) {
  const auto two = [](const char* a, const char* b, size_t bytes) {
    return error(image(std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)") + a +
                           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}",
                       bytes));
  };
  EXPECT_EQ(two("[0,4]", "[2,6]", 6),
            "m.st: tensor \"b\": data_offsets [2, 6] overlap the tensor before: must begin at 4");
  EXPECT_EQ(two("[0,4]", "[5,9]", 9), "m.st: tensor \"b\": data_offsets [5, 9] leave a gap: must begin at 4");
  EXPECT_EQ(two("[1,5]", "[5,9]", 9), "m.st: tensor \"a\": data_offsets [1, 5] leave a gap: must begin at 0");
  EXPECT_EQ(two("[0,4]", "[4,8]", 7),
            "m.st: tensor \"b\": data_offsets [4, 8] reach past the 7 bytes of data in the file: is it cut "
            "short? Copy or download it again");
  EXPECT_EQ(two("[0,4]", "[4,8]", 9), "m.st: holds 9 bytes of data, but its tensors only 8");
}

TEST(Header, DeepNestingIsAnErrorNotACrash) {
  const std::string deep = "{\"a\":" + std::string(1 << 20, '[') + std::string(1 << 20, ']') + "}";
  EXPECT_EQ(error(image(deep, 0)), "m.st: header: nested deeper than 32 levels");
}

TEST(Header, ManyTensorsTakeTimeInProportion) {
  constexpr size_t kTensors = 60000;
  std::string json = "{";
  for (size_t i = 0; i < kTensors; ++i)
    json += "\"layer." + std::to_string(i) + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
            std::to_string(i) + "," + std::to_string(i + 1) + "]},";
  json.back() = '}';
  EXPECT_LT(pipeline::tests::processor_seconds(
                [&] { EXPECT_EQ(parse(image(json, kTensors)).tensors.size(), kTensors); }),
            10);
}

TEST(Header, LongValuesAreShortenedInMessages) {
  const std::string name(100'000, 'n');
  EXPECT_LT(error(image("{\"" + name + "\":3}", 0)).size(), 300u);
}

}  // namespace
}  // namespace pipeline::safetensors
