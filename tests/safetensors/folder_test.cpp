#include "core/safetensors/file.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/safetensors/header.hpp"
#include "core/safetensors/writer.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::safetensors {
namespace {

using pipeline::tests::FilesFolder;
using pipeline::tests::message_of;
using ::testing::HasSubstr;

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
  EXPECT_EQ(message_of<Error>([&] { weights.at("d"); }), folder.path() + ": has no tensor \"d\" among its 3");
}

TEST(Folder, AnIndexThatDisagreesWithItsFilesIsAnError) {
  const FilesFolder folder;
  const auto error = [&](const std::string& index) {
    folder.write(kIndex, index);
    return message_of<Error>([&] { Folder::open(folder.path()); });
  };
  ASSERT_EQ(::mkfifo((folder / kIndex).c_str(), 0600), 0);
  EXPECT_EQ(message_of<Error>([&] { Folder::open(folder.path()); }),
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
      message_of<Error>([&] { Folder::open(folder.path()); }),
      folder.path() +
          ": is an empty folder: name the model's, with config.json, model.safetensors and tokenizer.json");
}

}  // namespace
}  // namespace pipeline::safetensors
