// Traces: Kineto's file read, written on another clock, merged; what is summed up of them.
#include <cmath>
#include <cstring>
#include <fstream>
#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/observe/event_file.hpp"
#include "core/observe/trace.hpp"
#include "core/safetensors/crc32c.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::observe {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;

constexpr pid_t kProcess = 4711;

// A trace as Kineto writes it on a machine with a device, shortened.
constexpr const char* kKineto = R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "a GPU"}],
"traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 4711, "tid": 12, "ts": 1000.500, "dur": 10.250,
 "args": {"External id": 1, "nested": {"ph": "no event"}}},
{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1005, "dur": 20, "args": {"stream": 7}},
{"ph": "s", "id": 3, "pid": 4711, "tid": 12, "ts": 1001, "cat": "ac2g", "name": "ac2g"},
{"ph": "f", "id": 3, "pid": 0, "tid": 7, "ts": 1005, "cat": "ac2g", "name": "ac2g", "bp": "e"},
{"name": "process_name", "ph": "M", "ts": 1000, "pid": 4711, "tid": 0, "args": {"name": "pipeline"}},
{"name": "thread_name", "ph": "M", "ts": 1000, "pid": 0, "tid": 7, "args": {"name": "stream 7 "}},
{"ph": "X", "cat": "Trace", "ts": 1000, "dur": 99, "pid": "Spans", "tid": "PyTorch Profiler", "name": "all", "args": {}}
], "baseTimeNanoseconds": 1700000000000000000, "displayTimeUnit": "ms"})";

class TraceFiles : public testing::Test {
 protected:
  std::filesystem::path path(const char* name) const { return folder_.path() / name; }
  std::vector<TraceEvent> kineto(const std::string& text) const {
    std::ofstream(path("kineto.json")) << text;
    std::vector<TraceEvent> events;
    read_kineto(path("kineto.json"), kProcess, events);
    return events;
  }
  json read(const char* name) const { return json::parse(std::ifstream(path(name))); }

  tests::TemporaryFolder folder_;
};

TEST_F(TraceFiles, OfKinetoAreReadWithoutItsOwnMarks) {
  const auto events = kineto(kKineto);
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0].name, "aten::mm");
  EXPECT_EQ(events[0].begin, 1'700'000'000'001'000'500);
  EXPECT_EQ(events[0].duration, 10'250);
  EXPECT_EQ(events[0].track, 12);
  EXPECT_EQ(events[1].track, kDeviceTracks + 7);
  EXPECT_EQ(events[4].more, R"("args":{"name":"device 0 stream 7 "})");
  EXPECT_THROW(kineto("{\"traceEvents\": [{"), Error);
  std::vector<TraceEvent> none;
  EXPECT_THROW(read_kineto(path("absent"), kProcess, none), Error);
}

TEST_F(TraceFiles, OfRanksAreMergedOnOneClock) {
  const auto events = kineto(kKineto);
  constexpr int64_t kOrigin = 1'700'000'000'001'000'000;
  for (const int32_t rank : {0, 1})
    write_trace(path(rank == 0 ? "0.json" : "1.json"),
                {.rank = rank, .ranks = 2, .host = "h", .origin = kOrigin, .events = events});
  EXPECT_EQ(read("1.json")["distributedInfo"]["rank"], 1);
  merge_traces({path("0.json"), path("1.json")}, path("trace.json"));
  const json trace = read("trace.json");
  EXPECT_EQ(trace["baseTimeNanoseconds"], kOrigin);
  std::vector<std::string> names;
  std::vector<int64_t> arrows;
  int products = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") names.push_back(event["args"]["name"]);
    if (event["ph"] == "f") arrows.push_back(event["id"]);
    if (event["name"] == "aten::mm") {
      ++products;
      EXPECT_EQ(event["ts"], 0.5);
      EXPECT_EQ(event["dur"], 10.25);
    }
  }
  EXPECT_THAT(names, ElementsAre("rank 0", "rank 1"));
  EXPECT_GE(products, 2) << "of both ranks";
  EXPECT_THAT(arrows, ElementsAre(3, 3 + (int64_t{1} << 32)));
  EXPECT_THROW(merge_traces({path("absent")}, path("trace.json")), Error);
}

TraceEvent event(std::string name, std::string_view category, int64_t track, int64_t begin, int64_t end,
                 int64_t waiter = 0) {
  return {.name = std::move(name),
          .category = std::string(category),
          .track = track,
          .begin = begin,
          .duration = end - begin,
          .waiter = waiter};
}

TEST(TraceSummary, HasSelfTimesAndWhatWasHidden) {
  const std::vector<TraceEvent> events{
      event("aten::linear", "cpu_op", 1, 0, 100),
      event("aten::addmm", "cpu_op", 1, 10, 70),
      event("aten::linear", "cpu_op", 1, 200, 220),
      event("aten::stack", "cpu_op", 2, 0, 500),  // the loader's
      event("wait for all_reduce #1, bucket 0, 8 B", category::kWait, kPhaseTrack, 80, 95, 1),
      event("all_reduce #1, bucket 0, 8 B", category::kCollective, kCollectiveTrack, 60, 95),
      event("all_reduce #2, bucket 1, 8 B", category::kCollective, kCollectiveTrack, 210, 230),
      event("optimizer", category::kPhase, kPhaseTrack, 50, 230)};
  const TraceSummary summary = summarize(events, 1);
  std::map<std::string, std::pair<uint64_t, int64_t>> costs;
  for (const TraceCost& cost : summary.costs) costs[cost.name] = {cost.calls, cost.self};
  using Pair = std::pair<uint64_t, int64_t>;
  EXPECT_EQ(costs, (std::map<std::string, Pair>{{"aten::stack", {1, 500}},
                                                {"aten::addmm", {1, 60}},
                                                {"all_reduce", {2, 55}},
                                                {"aten::linear", {2, 45}},
                                                {"wait for all_reduce", {1, 15}}}));
  EXPECT_EQ(summary.costs.front().name, "aten::stack");
  EXPECT_EQ(summary.communication, 55);
  EXPECT_EQ(summary.hidden, 20 + 10);  // not while the thread waited, and not by the loader
  EXPECT_FALSE(summary.at_most);
}

TEST(TraceSummary, HasWhatPassedInTheStepsAlone) {
  const std::vector<TraceEvent> events{
      event("aten::mm", "cpu_op", 1, 100, 200),
      event("step 3", category::kStep, kPhaseTrack, 100, 200),
      event("step 4", category::kStep, kPhaseTrack, 210, 300),
      event("all_gather #1, weights 0", category::kCollective, kCollectiveTrack, 50, 120),
      event("all_gather #2, weights 0", category::kCollective, kCollectiveTrack, 205, 215),
      event("all_gather #3, weights 0", category::kCollective, kCollectiveTrack, 290, 400)};
  const TraceSummary summary = summarize(events, 1);
  EXPECT_EQ(summary.communication, 20 + 10 + 10);
  EXPECT_EQ(summary.hidden, 20);
}

TEST(TraceSummary, OfADeviceIsThatOfItsKernels) {
  const std::vector<TraceEvent> events{
      event("aten::mm", "cpu_op", 1, 0, 1000), event("gemm", "kernel", kDeviceTracks + 7, 0, 60),
      event("ncclDevKernel_AllReduce", "kernel", kDeviceTracks + 9, 40, 100)};
  const TraceSummary summary = summarize(events, 1);
  EXPECT_EQ(summary.communication, 60);
  EXPECT_EQ(summary.hidden, 20);
}

TEST(TraceSummary, WithoutOperationsIsThatOfThePhases) {
  const std::vector<TraceEvent> events{
      event("forward and backward 1 of 1", category::kPhase, kPhaseTrack, 0, 100),
      event("optimizer", category::kPhase, kPhaseTrack, 100, 150),
      event("wait for all_reduce #1", category::kWait, kPhaseTrack, 100, 140, 1),
      event("all_reduce #1", category::kInFlight, kInFlightTrack, 80, 140)};
  const TraceSummary summary = summarize(events, 1);
  EXPECT_FALSE(summary.has_operations);
  EXPECT_TRUE(summary.at_most);
  EXPECT_EQ(summary.communication, 60);
  EXPECT_EQ(summary.hidden, 20);
  EXPECT_EQ(summary.costs.front().name, "forward and backward 1 of 1");
  EXPECT_TRUE(summarize({}, 1).costs.empty());
}

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
