#include "core/observe/event_file.hpp"

#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "core/safetensors/crc32c.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::observe {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

// Reads from the front of what is left; past its end is an error.
class Reader {
 public:
  explicit Reader(std::string_view left) : left_(left) {}
  bool empty() const { return left_.empty(); }
  std::string_view bytes(size_t count) {
    if (count > left_.size()) throw std::runtime_error("cut short");
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }
  template <class T>
  T fixed() {
    T value;
    std::memcpy(&value, bytes(sizeof value).data(), sizeof value);
    return value;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes(1)[0]);
      value |= uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string_view message() { return bytes(varint()); }

 private:
  std::string_view left_;
};

void expect_checksum(Reader& reader, std::string_view of) {
  const uint32_t crc = safetensors::crc32c(0, std::as_bytes(std::span(of)));
  EXPECT_EQ(reader.fixed<uint32_t>(), ((crc >> 15) | (crc << 17)) + 0xa282ead8U);
}

// "STEP TAG VALUE" of every scalar, "restart STEP", and the version.
std::vector<std::string> events_in(const std::string& file) {
  std::vector<std::string> found;
  Reader records(file);
  while (!records.empty()) {
    const std::string_view length = records.bytes(8);
    expect_checksum(records, length);
    const std::string_view event = records.bytes(Reader(length).fixed<uint64_t>());
    expect_checksum(records, event);
    Reader fields(event);
    EXPECT_EQ(fields.varint(), 1U << 3 | 1);  // wall_time
    EXPECT_NEAR(fields.fixed<double>(), static_cast<double>(std::time(nullptr)), 60);
    EXPECT_EQ(fields.varint(), 2U << 3);
    const std::string step = std::to_string(fields.varint());
    const uint64_t what = fields.varint();
    const std::string_view message = fields.message();
    EXPECT_TRUE(fields.empty());
    if (what == (3 << 3 | 2)) found.emplace_back(message);
    if (what == (7 << 3 | 2)) {
      EXPECT_EQ(message, "\x08\x01");  // status: START
      found.push_back("restart " + step);
    }
    if (what != (5 << 3 | 2)) continue;
    for (Reader values(message); !values.empty();) {
      EXPECT_EQ(values.varint(), 1U << 3 | 2);
      Reader value(values.message());
      EXPECT_EQ(value.varint(), 1U << 3 | 2);
      const std::string tag(value.message());
      EXPECT_EQ(value.varint(), 2U << 3 | 5);
      found.push_back(step + " " + tag + " " + nlohmann::json(value.fixed<float>()).dump());
      EXPECT_TRUE(value.empty());
    }
  }
  return found;
}

std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

TEST(EventFile, HoldsEveryFigureByStep) {
  const tests::FilesFolder folder;
  const std::string long_name(300, 'x');
  {
    EventFile out(folder.path(), 1);
    EXPECT_TRUE(out.append("train", {{"step", 1}, {"loss", 1.5}, {"mfu", nullptr}, {"tokens", 40}}));
    EXPECT_TRUE(
        out.append("train", {{"step", 300}, {"skipped", true}, {long_name, -2}, {"text", "no figure"}}));
    EXPECT_TRUE(out.append("eval", {{"step", 300}, {"loss", 0.25}, {"perplexity", NAN}}));
  }
  const std::vector<fs::path> files = event_files(folder.path());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_THAT(files[0].filename().string(), testing::StartsWith("events.out.tfevents."));
  EXPECT_THAT(events_in(tests::read_all(files[0])),
              ElementsAre("brain.Event:2", "restart 1", "1 train/loss 1.5", "1 train/tokens 40.0",
                          "300 train/skipped 1.0", "300 train/" + long_name + " -2.0", "300 eval/loss 0.25",
                          "300 eval/perplexity null"))
      << "null: NaN";
}

// TensorBoard drops what earlier files have of that step and later ones, and reads files by name.
TEST(EventFile, AContinuedRunBeginsALaterFileWithARestart) {
  const tests::FilesFolder folder;
  EventFile first(folder.path(), 1), second(folder.path(), 61);
  const std::vector<fs::path> files = event_files(folder.path());
  ASSERT_EQ(files.size(), 2u);
  EXPECT_THAT(events_in(tests::read_all(files[1])), ElementsAre("brain.Event:2", "restart 61"));
}

}  // namespace
}  // namespace pipeline::observe
