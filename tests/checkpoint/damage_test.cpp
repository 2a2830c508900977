#include <fstream>
#include <functional>

#include <nlohmann/json.hpp>

#include "core/checkpoint/manifest.hpp"
#include "core/checkpoint/store.hpp"
#include "core/checkpoint/writer.hpp"
#include "core/safetensors/crc32c.hpp"
#include "tests/checkpoint/expect_error.hpp"
#include "tests/checkpoint/state.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::checkpoint {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
namespace fs = std::filesystem;

// Two checkpoints, of which the newer one is damaged: each test says how, and what must be said about it.
class Damage : public testing::Test {
 protected:
  Damage() {
    for (const uint64_t step : {1, 2})
      write(store_, contents_of(step), source(make_state(static_cast<uint32_t>(step))));
  }

  void flip(const std::string& path, int64_t position) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(position);
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(position);
    file.put(byte);
  }

  // Changes the manifest and, unless told otherwise, makes its checksum right again.
  void edit_manifest(const std::function<void(nlohmann::json&)>& edit, bool fix_checksum = true) {
    nlohmann::json json = nlohmann::json::parse(read_text(manifest_));
    edit(json);
    if (fix_checksum) {
      json.erase("checksum");
      const std::string text = json.dump();
      json["checksum"] = hex(safetensors::crc32c(0, std::as_bytes(std::span(text))));
    }
    std::ofstream(manifest_) << json.dump();
  }

  // The newer checkpoint is passed over with this reason, the older one is used.
  template <class Matcher>
  void expect_rejected(const Matcher& reason) {
    std::vector<Rejected> rejected;
    const std::optional<Checkpoint> good = store_.newest_good(&rejected);
    ASSERT_TRUE(good.has_value());
    EXPECT_EQ(good->contents().step, 1u);
    EXPECT_TRUE(holds(*good, make_state(1)));
    ASSERT_EQ(rejected.size(), 1u);
    EXPECT_EQ(rejected[0].name, "step-00000002");
    EXPECT_THAT(rejected[0].reason, reason);
  }

  tests::FilesFolder folder_;
  Store store_{{folder_.path(), 0, true}};
  std::string data_ = store_.path_of(2) + "/state-00000-of-00001.safetensors";
  std::string manifest_ = store_.path_of(2) + "/manifest.json";
};

TEST_F(Damage, TruncatedFile) {
  const uint64_t size = fs::file_size(data_);
  fs::resize_file(data_, size - 10);
  expect_rejected(data_ + ": has " + std::to_string(size - 10) + " bytes, the manifest says " +
                  std::to_string(size) + ": truncated");
}

TEST_F(Damage, GrownFile) {
  const uint64_t size = fs::file_size(data_);
  fs::resize_file(data_, size + 1);
  expect_rejected(data_ + ": has " + std::to_string(size + 1) + " bytes, the manifest says " +
                  std::to_string(size));
}

TEST_F(Damage, MissingFile) {
  fs::remove(data_);
  expect_rejected(data_ + ": is missing");
}

TEST_F(Damage, OneFlippedBitInTheData) {
  const std::string crc = hex(safetensors::checksum_file(data_));
  flip(data_, static_cast<int64_t>(fs::file_size(data_)) - 3);
  const std::string now = hex(safetensors::checksum_file(data_));
  EXPECT_NE(crc, now);
  expect_rejected(data_ + ": is damaged: its CRC-32C is " + now + ", the manifest says " + crc);
}

// White space may change into other white space; then what is read must be what was written.
// One bit of every byte, each in turn.
TEST_F(Damage, FlippedBitsInTheManifestAreSeenOrMeanNothing) {
  const std::string original = read_text(manifest_);
  const std::string meaning = format_manifest(parse_manifest(original, manifest_), manifest_);
  size_t seen = 0;
  for (size_t byte = 0; byte < original.size(); ++byte) {
    std::string text = original;
    text[byte] = static_cast<char>(text[byte] ^ 1 << byte % 8);
    try {
      EXPECT_EQ(format_manifest(parse_manifest(text, manifest_), manifest_), meaning) << byte;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), StartsWith(manifest_ + ": ")) << byte;
      ++seen;
    }
  }
  EXPECT_GT(seen, original.size() * 3 / 4);
}

TEST_F(Damage, ChangedManifest) {
  edit_manifest([](auto& json) { json["step"] = 5; }, false);
  expect_rejected(testing::MatchesRegex(
      manifest_ + ": is damaged: its checksum says ........, its content has ........"));
}

TEST_F(Damage, TruncatedManifest) {
  fs::resize_file(manifest_, fs::file_size(manifest_) / 2);
  expect_rejected(StartsWith(manifest_ + ": "));
}

TEST_F(Damage, EmptyManifest) {
  fs::resize_file(manifest_, 0);
  expect_rejected(StartsWith(manifest_ + ": "));
}

TEST_F(Damage, MissingManifest) {
  fs::remove(manifest_);
  expect_rejected(manifest_ + ": is missing: not a complete checkpoint");
}

TEST_F(Damage, ForeignManifest) {
  std::ofstream(manifest_) << R"({"format": "other", "version": 1})";
  expect_rejected(
      manifest_ +
      ": is not a manifest of this program: \"format\" is \"other\", expected \"pipeline-checkpoint\"");
  std::ofstream(manifest_) << R"({"name": "web-app"})";
  expect_rejected(
      manifest_ +
      ": is not a manifest of this program: \"format\" is missing, expected \"pipeline-checkpoint\"");
  std::ofstream(manifest_) << "[]";
  expect_rejected(manifest_ + ": is [], expected an object");
}

TEST_F(Damage, NewerFormatVersion) {
  edit_manifest([](auto& json) { json["version"] = 2; });
  expect_rejected(manifest_ +
                  ": format version 2, this program reads 1: use the newer program that wrote it");
  EXPECT_ERROR(Checkpoint::open(store_.path_of(2)), PL_ERROR_UNSUPPORTED, StartsWith(manifest_));
}

TEST_F(Damage, ManifestsThatSayNonsense) {
  const nlohmann::json good = nlohmann::json::parse(read_text(manifest_));
  const auto expect = [&](const std::function<void(nlohmann::json&)>& edit, const std::string& message) {
    edit_manifest([&](auto& json) {
      json = good;
      edit(json);
    });
    EXPECT_ERROR(Checkpoint::open(store_.path_of(2)), PL_ERROR_CORRUPT, manifest_ + message);
  };
  expect([](auto& json) { json["step"] = -1; }, ": \"step\" is -1, expected a whole number of 0 or more");
  expect([](auto& json) { json.erase("files"); }, ": has no \"files\"");
  expect([](auto& json) { json["metric"] = "good"; }, ": \"metric\" is \"good\", expected an object");
  expect(
      [](auto& json) {
        json["metric"] = {{"name", "loss"}, {"value", "good"}, {"better", "lower"}};
      },
      ": \"metric\": \"value\" is \"good\", expected a number");
  expect(
      [](auto& json) {
        json["metric"] = {{"name", "loss"}, {"value", 1}, {"better", "left"}};
      },
      ": \"metric\": \"better\" is \"left\", expected higher or lower");
  expect([](auto& json) { json["train_state"] = 3; }, ": \"train_state\" is 3, expected an object");
  expect([](auto& json) { json["files"][0]["name"] = "../x"; },
         ": an entry of \"files\": \"name\" is \"../x\", expected a plain file name");
  expect([](auto& json) { json["files"][0]["crc32c"] = "12"; },
         ": an entry of \"files\": \"crc32c\" is \"12\", expected eight hexadecimal digits");
  expect([](auto& json) { json["tensors"][0]["extents"][0]["file"] = 1; },
         ": tensor value/wte.weight: \"file\" is 1, expected less than 1");
  expect([](auto& json) { json["tensors"][0]["extents"][0]["offset"] = 3; },
         ": tensor value/wte.weight: elements from 0 on are in no file");
  expect([](auto& json) { json["tensors"][0]["extents"].push_back(json["tensors"][0]["extents"][0]); },
         ": tensor value/wte.weight: elements from 0 on are there twice");
  expect([](auto& json) { json["tensors"][0]["extents"][0]["count"] = 18446744073709551615u; },
         ": tensor value/wte.weight: pieces reach beyond its 350 elements");
  expect([](auto& json) { json["tensors"].push_back(json["tensors"][0]); },
         ": tensor value/wte.weight occurs twice");
}

TEST_F(Damage, ManifestAndFileThatDisagree) {
  edit_manifest([](auto& json) {
    json["tensors"][1]["shape"] = {8};
    json["tensors"][1]["extents"][0]["count"] = 8;
  });
  EXPECT_ERROR(Checkpoint::open(store_.path_of(2)), PL_ERROR_CORRUPT,
               data_ + ": tensor \"value/ln.bias\" has 7 elements of F32, the manifest says 8 of F32");
  edit_manifest([](auto& json) { json["tensors"][1]["extents"][0]["name"] = "gone"; });
  EXPECT_ERROR(Checkpoint::open(store_.path_of(2)), PL_ERROR_CORRUPT,
               HasSubstr(data_ + ": has no tensor \"gone\""));
}

}  // namespace
}  // namespace pipeline::checkpoint
