#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <numeric>

#include <gmock/gmock.h>

#include "core/safetensors/crc32c.hpp"
#include "core/safetensors/file.hpp"
#include "core/safetensors/header.hpp"
#include "core/safetensors/writer.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::safetensors {
namespace {

using pipeline::tests::FilesFolder;
using pipeline::tests::message_of;
using pipeline::tests::read_all;
using ::testing::HasSubstr;

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// A file of safetensors 0.8.0 (Python): save({"b": int64 [[1,2,3],[4,5,6]], "a": float32 [1.5,-2], "m": bool
// [T,F,T], "h": float16 7, "empty": float32 (0, 4)}, {"format": "pt", "note": "Grüße"}).
const std::string kHuggingFaceFile(
    "P\x01\0\0\0\0\0\0{\"__metadata__\":{\"format\":\"pt\",\"note\":\"Gr\xc3\xbc\xc3\x9f"
    "e\"},\"b\":{\"dtype\":\"I64\",\"shape\":[2,3],\"data_offsets\":[0,48]},\"a\":{\"dtype\":\"F32\","
    "\"shape\":[2],\"data_offsets\":[48,56]},\"empty\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":["
    "56,56]},\"h\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[56,58]},\"m\":{\"dtype\":\"BOOL\","
    "\"shape\":[3],\"data_offsets\":[58,61]}}     "
    "\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x05\0"
    "\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\0\0\xc0?\0\0\0\xc0\0G\x01\0\x01",
    405);

// Bytes of files that this process has in memory, from the operating system.
size_t mapped_bytes_in_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssFile:")) return std::stoull(line.substr(8)) << 10;
  }
  return 0;
}

TEST(File, ATensorThatIsForgottenTakesNoMemoryAndCanBeReadAgain) {
  const FilesFolder folder;
  const std::string path = folder / "large.safetensors";
  std::vector<int64_t> values(4 << 20);
  std::iota(values.begin(), values.end(), 0);
  Writer writer(path, {});
  writer.declare("large", Dtype::kI64, {static_cast<int64_t>(values.size())});
  writer.write("large", bytes_of(values));
  writer.finish();

  const File file = File::open(path);
  const TensorView& large = file.at("large");
  const auto is_right = [&] { return std::memcmp(large.data.data(), values.data(), large.data.size()) == 0; };
  const size_t before = mapped_bytes_in_memory();
  ASSERT_TRUE(is_right());
  const size_t read = mapped_bytes_in_memory();
  EXPECT_GT(read, before + (30 << 20));
  large.forget();
  EXPECT_LT(mapped_bytes_in_memory(), read - (30 << 20));
  EXPECT_TRUE(is_right());
}

TEST(File, ReadsWhatHuggingFaceWrote) {
  const FilesFolder folder;
  const File file = File::open(folder.write("hf.safetensors", kHuggingFaceFile));
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}, {"note", "Grüße"}}));
  ASSERT_EQ(file.tensors().size(), 5u);

  const TensorView& b = file.at("b");
  EXPECT_EQ(b.dtype_name(), "I64");
  EXPECT_EQ(b.shape, (Shape{2, 3}));
  EXPECT_EQ(b.element_count(), 6);
  int64_t last;
  std::memcpy(&last, b.data.data() + 40, sizeof last);
  EXPECT_EQ(last, 6);

  float a[2];
  std::memcpy(a, file.at("a").data.data(), sizeof a);
  EXPECT_EQ(a[0], 1.5f);
  EXPECT_EQ(a[1], -2.0f);
  EXPECT_EQ(file.at("h").element_count(), 1);
  EXPECT_TRUE(file.at("empty").data.empty());
  EXPECT_EQ(file.find("missing"), nullptr);
  EXPECT_EQ(message_of<SafetensorsError>([&] { file.at("missing"); }),
            file.path() + ": has no tensor \"missing\" among its 5");
}

TEST(Writer, WritesTheBytesThatHuggingFaceWrites) {
  const FilesFolder folder;
  Writer writer(folder / "ours.safetensors", {.metadata = {{"format", "pt"}, {"note", "Grüße"}}});
  writer.declare("m", Dtype::kBool, {3});
  writer.declare("a", Dtype::kF32, {2});
  writer.declare("empty", Dtype::kF32, {0, 4});
  writer.declare("h", Dtype::kF16, {});
  writer.declare("b", Dtype::kI64, {2, 3});
  const std::vector<int64_t> b = {1, 2, 3, 4, 5, 6};
  writer.write("b", bytes_of(b).first(20));  // in pieces
  writer.write("b", bytes_of(b).subspan(20));
  writer.write("a", bytes_of(std::vector<float>{1.5f, -2.0f}));
  writer.write("empty", {});
  writer.write("h", bytes_of(std::vector<uint16_t>{0x4700}));
  writer.write("m", bytes_of(std::vector<uint8_t>{1, 0, 1}));
  writer.finish();

  EXPECT_EQ(read_all(folder / "ours.safetensors"), kHuggingFaceFile);
  EXPECT_EQ(checksum_file(folder / "ours.safetensors"),
            crc32c(0, std::as_bytes(std::span(kHuggingFaceFile))));
}

TEST(Writer, LargeTensorsInPiecesOfAnySizeComeBack) {
  const FilesFolder folder;
  std::vector<uint32_t> data((5 << 20) / 4 + 3);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint32_t>(i * 2654435761u);
  const auto bytes = bytes_of(data);
  for (const size_t piece : {size_t{777'777}, size_t{1} << 20, size_t{3} << 20, bytes.size()}) {
    Writer writer(folder / "big", {.sync = true});
    writer.declare("x", Dtype::kU32, {static_cast<int64_t>(data.size())});
    writer.declare("tail", Dtype::kU8, {1});
    for (size_t at = 0; at < bytes.size(); at += piece) {
      writer.write("x", bytes.subspan(at, std::min(piece, bytes.size() - at)));
    }
    writer.write("tail", bytes.first(1));
    writer.finish();
    const File file = File::open(folder / "big");
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), file.at("x").data.begin(), file.at("x").data.end()));
    const std::string written = read_all(folder / "big");
    EXPECT_EQ(checksum_file(folder / "big"), crc32c(0, std::as_bytes(std::span(written))));
  }
}

TEST(Writer, AlignsEveryTensor) {
  const FilesFolder folder;
  Writer writer(folder / "x");
  writer.declare("odd", Dtype::kU8, {3});
  writer.declare("a name that is longer", Dtype::kF32, {1});
  writer.declare("half", Dtype::kBF16, {1});
  writer.declare("wide", Dtype::kF64, {1});
  std::vector<std::string> order;
  for (const TensorInfo& tensor : writer.layout()) {
    order.push_back(tensor.name);
    writer.write(tensor.name, std::vector<std::byte>(tensor.end - tensor.begin));
  }
  writer.finish();
  EXPECT_EQ(order, (std::vector<std::string>{"wide", "a name that is longer", "half", "odd"}));
  const File file = File::open(folder / "x");
  ASSERT_EQ(file.tensors().size(), 4u);
  for (const TensorView& tensor : file.tensors()) {
    EXPECT_EQ(
        reinterpret_cast<uintptr_t>(tensor.data.data()) % (static_cast<size_t>(dtype_bits(tensor.dtype)) / 8),
        0u);
  }
}

TEST(Writer, MisuseIsAnError) {
  const FilesFolder folder;
  const std::string path = folder / "x";
  const std::vector<std::byte> four(4);
  {
    Writer writer(path);
    writer.declare("a", Dtype::kF32, {1});
    writer.declare("b", Dtype::kF32, {2});
    EXPECT_EQ(message_of<SafetensorsError>([&] { writer.declare("c", Dtype::kF32, {-1}); }),
              path + ": tensor \"c\": shape [-1]: dimensions must not be negative");
    EXPECT_EQ(message_of<SafetensorsError>([&] { writer.declare("__metadata__", Dtype::kF32, {1}); }),
              path + ": tensor \"__metadata__\": this name is reserved by the format");
    EXPECT_EQ(message_of<SafetensorsError>([&] { writer.write("b", four); }),
              path + ": data of tensor \"b\" written, expected \"a\"");
    EXPECT_EQ(message_of<SafetensorsError>([&] { writer.declare("c", Dtype::kF32, {1}); }),
              path + ": tensor \"c\": declared after the layout was fixed");
    EXPECT_EQ(message_of<SafetensorsError>([&] { writer.write("a", std::vector<std::byte>(5)); }),
              path + ": tensor \"a\": 5 bytes written, expected 4");
    writer.write("a", four);
    writer.write("b", four);
    EXPECT_EQ(message_of<SafetensorsError>([&] { writer.finish(); }),
              path + ": tensor \"b\": only 4 of 8 bytes were written");
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path)) << "an unfinished file must not stay";

  Writer twice(path);
  twice.declare("a", Dtype::kF32, {1});
  twice.declare("a", Dtype::kF32, {1});
  EXPECT_EQ(message_of<SafetensorsError>([&] { twice.layout(); }), path + ": tensor \"a\": declared twice");

  Writer names(path);
  names.declare("\xff", Dtype::kF32, {1});
  EXPECT_EQ(message_of<SafetensorsError>([&] { names.write("\xff", four); }),
            path + ": a tensor name or a metadata text is not valid UTF-8");
}

TEST(Writer, AFullDiskIsReportedWithItsErrno) {
  Writer writer("/dev/full");
  writer.declare("a", Dtype::kU8, {4 << 20});
  try {
    writer.write("a", std::vector<std::byte>(4 << 20));
    FAIL() << "a full disk was not noticed";
  } catch (const SafetensorsError& error) {
    EXPECT_EQ(error.os_error(), ENOSPC);
    EXPECT_THAT(error.what(), HasSubstr("/dev/full: cannot be written after "));
  }
  EXPECT_TRUE(std::filesystem::exists("/dev/full")) << "only regular files may be removed";
}

TEST(File, EveryTruncationAndOneExtraByteAreFound) {
  const FilesFolder folder;
  for (size_t size = 0; size < kHuggingFaceFile.size(); ++size) {
    const std::string path = folder.write("cut", kHuggingFaceFile.substr(0, size));
    EXPECT_THROW(File::open(path), SafetensorsError) << size;
  }
  EXPECT_THROW(File::open(folder.write("long", kHuggingFaceFile + "x")), SafetensorsError);
}

TEST(File, WhatIsNotAFileIsNamed) {
  const FilesFolder folder;
  EXPECT_THAT(message_of<SafetensorsError>([&] { File::open(folder / "none"); }),
              HasSubstr("none: cannot be opened: No such"));
  EXPECT_EQ(message_of<SafetensorsError>([&] { File::open(folder.path()); }),
            folder.path() + ": is not a regular file");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(message_of<SafetensorsError>([&] { File::open(folder / "pipe"); }),
            folder / "pipe: is not a regular file");
  EXPECT_EQ(message_of<SafetensorsError>([&] { File::open(folder.write("empty", "")); }),
            folder / "empty: is empty");
}

TEST(File, MovesKeepViewsValid) {
  const FilesFolder folder;
  File first = File::open(folder.write("hf.safetensors", kHuggingFaceFile));
  const std::byte* data = first.at("a").data.data();
  File second = std::move(first);
  File third = File::open(folder / "hf.safetensors");
  third = std::move(second);
  EXPECT_EQ(third.at("a").data.data(), data);
  EXPECT_EQ(static_cast<int>(third.at("a").data[3]), 0x3f);
}

TEST(Crc32c, KnownValuesAndBothImplementationsAgree) {
  const std::string check = "123456789";
  EXPECT_EQ(crc32c(0, {}), 0u);
  EXPECT_EQ(crc32c(0, std::as_bytes(std::span(check))), 0xe3069283u);
  EXPECT_EQ(crc32c_portable(0, std::as_bytes(std::span(check))), 0xe3069283u);
  EXPECT_EQ(crc32c(0, std::vector<std::byte>(32)), 0x8a9136aau);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(0, std::vector<std::byte>(32, std::byte{0xff})), 0x62a8ab43u);

  std::vector<std::byte> data(1000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * i >> 3);
  for (size_t size = 0; size < data.size(); ++size) {
    const std::span<const std::byte> part(data.data() + size % 7, size - std::min(size, size % 7));
    const uint32_t sum = crc32c(0, part);
    ASSERT_EQ(sum, crc32c_portable(0, part)) << size;
    ASSERT_EQ(sum, crc32c(crc32c(0, part.first(part.size() / 3)), part.subspan(part.size() / 3))) << size;
  }
}

constexpr const char* kIndex = "model.safetensors.index.json";

void write_file(const std::string& path, const std::vector<std::string>& names) {
  Writer writer(path);
  for (const std::string& name : names) writer.declare(name, Dtype::kU8, {1});
  for (const std::string& name : names)
    writer.write(name, std::vector<std::byte>(1, static_cast<std::byte>(name[0])));
  writer.finish();
}

TEST(Folder, OneFile) {
  const FilesFolder folder;
  write_file(folder / "model.safetensors", {"b", "a"});
  const Folder weights = Folder::open(folder.path());
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(static_cast<char>(weights.at("b").data[0]), 'b');
}

TEST(Folder, Shards) {
  const FilesFolder folder;
  write_file(folder / "model-1.safetensors", {"a", "b"});
  write_file(folder / "model-2.safetensors", {"c"});
  folder.write(kIndex, R"({"metadata":{"total_size":3},"weight_map":{"a":"model-1.safetensors",)"
                       R"("b":"model-1.safetensors","c":"model-2.safetensors"}})");
  Folder first = Folder::open(folder.path());
  const Folder weights = std::move(first);
  EXPECT_EQ(weights.size(), 3u);
  EXPECT_EQ(weights.files().size(), 2u);
  EXPECT_EQ(static_cast<char>(weights.at("c").data[0]), 'c');
  EXPECT_EQ(message_of<SafetensorsError>([&] { weights.at("d"); }),
            folder.path() + ": has no tensor \"d\" among its 3");
}

TEST(Folder, AnIndexThatDisagreesWithItsFilesIsAnError) {
  const FilesFolder folder;
  const auto error = [&](const std::string& index) {
    folder.write(kIndex, index);
    return message_of<SafetensorsError>([&] { Folder::open(folder.path()); });
  };
  ASSERT_EQ(::mkfifo((folder / kIndex).c_str(), 0600), 0);
  EXPECT_EQ(message_of<SafetensorsError>([&] { Folder::open(folder.path()); }),
            folder / kIndex + ": is not a regular file");
  ASSERT_EQ(::unlink((folder / kIndex).c_str()), 0);
  write_file(folder / "1.safetensors", {"a", "b"});
  write_file(folder / "2.safetensors", {"b"});
  EXPECT_THAT(error(R"({"weight_map":{"a":"1.safetensors"}})"), HasSubstr("tensor \"b\": "));
  EXPECT_THAT(error(R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})"),
              HasSubstr("1.safetensors: tensor \"b\": " + folder / kIndex + " maps it to \"2.safetensors\""));
  EXPECT_THAT(error(R"({"weight_map":{"a":"1.safetensors","b":"1.safetensors","c":"1.safetensors"}})"),
              HasSubstr("1.safetensors: has no tensor \"c\", which "));
  EXPECT_THAT(error(R"({"weight_map":{"a":"3.safetensors"}})"), HasSubstr("3.safetensors: cannot be opened"));
  for (const std::string shard :
       {"\"../1.safetensors\"", "\"/etc/passwd\"", "\"\"", "\"..\"", "3", "\"a\\u0000b\""}) {
    EXPECT_THAT(error(R"({"weight_map":{"a":)" + shard + "}}"),
                HasSubstr("must be the name of a file in the same folder"))
        << shard;
  }
  EXPECT_THAT(error("{}"), HasSubstr("must be an object with \"weight_map\""));
  EXPECT_THAT(error("[]"), HasSubstr("must be an object with \"weight_map\""));
  EXPECT_THAT(error("{"), HasSubstr("not valid JSON"));
}

TEST(Folder, NothingThereIsNamed) {
  const FilesFolder folder;
  EXPECT_EQ(
      message_of<SafetensorsError>([&] { Folder::open(folder.path()); }),
      folder.path() +
          ": is an empty folder: name the model's, with config.json, model.safetensors and tokenizer.json");
}

}  // namespace
}  // namespace pipeline::safetensors
