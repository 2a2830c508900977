#include <cmath>
#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "core/observe/console.hpp"
#include "core/observe/log.hpp"
#include "core/train/processes/process_group.hpp"
#include "core/train/telemetry/reporter.hpp"
#include "tests/peers/ranks.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pipeline::train {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class ReporterTest : public testing::Test {
 protected:
  ReporterTest() { log_.open_files(folder_.path(), 0); }

  // A step of one second that did `share` of the measured peak.
  void step(double share, MemoryUse memory = {.host = 1 << 30}, std::optional<double> busy = {},
            double loss = 0) {
    StepRecord record;
    record.loss = loss;
    record.device_utilisation = busy;
    record.step = ++steps_;
    record.flops = share * kPeak;
    record.seconds = 1;
    record.tokens = 10;
    reporter_.step(record, static_cast<double>(steps_), memory);
  }
  nlohmann::json metrics(size_t line) const {
    return nlohmann::json::parse(lines_of(folder_.path() / "metrics.jsonl").at(line));
  }
  std::vector<std::string> log() {
    log_.flush();
    return lines_of(folder_.path() / "train.log");
  }

  static constexpr double kPeak = 1e12;

 private:
  tests::TemporaryFolder folder_;
  observe::Console console_{observe::Console::Mode::off};
  observe::Log log_{console_, observe::Level::info};
  Records records_{log_, RunFolder::of_first_rank(folder_.path()), {}};
  Reporter reporter_{log_, records_, {.total_steps = 100, .every = 1, .peak_flops = kPeak}};
  uint64_t steps_ = 0;
};

TEST_F(ReporterTest, ALossThatIsNoNumberIsWrittenAsOne) {
  step(0.5, {}, {}, NAN);
  step(0.5, {}, {}, INFINITY);
  EXPECT_EQ(metrics(0)["loss"], "NaN");
  EXPECT_EQ(metrics(1)["loss"], "Infinity");
}

TEST_F(ReporterTest, NoShareOfThePeakIsAboveAll) {
  for (const double share : {0.5, 1.5, 0.75, 1.2, 3.0}) step(share);
  EXPECT_DOUBLE_EQ(metrics(0)["mfu"], 0.5);
  EXPECT_DOUBLE_EQ(metrics(1)["mfu"], 1.0);
  EXPECT_DOUBLE_EQ(metrics(2)["mfu"], 0.5);  // its share of the best step by now
  EXPECT_DOUBLE_EQ(metrics(3)["mfu"], 0.8);
  EXPECT_DOUBLE_EQ(metrics(4)["mfu"], 1.0);
  int said = 0, shares = 0;
  for (const std::string& line : log()) {
    const size_t at = line.find("mfu ");
    if (at != std::string::npos) {
      ++shares;
      EXPECT_LE(std::stoi(line.substr(at + 4)), 100) << line;
    }
    if (line.find("more than the peak of 1e+03 that was measured") != std::string::npos) ++said;
  }
  EXPECT_EQ(said, 1);
  EXPECT_GT(shares, 0);
}

TEST_F(ReporterTest, TheLinesShareIsAMeanOfTheStepsThatItsRateIsOf) {
  step(0.2);
  step(0.6);
  EXPECT_THAT(log().at(0), HasSubstr("10 tokens/s  mfu 20%"));
  EXPECT_THAT(log().at(1), HasSubstr("10 tokens/s  mfu 40%"));
  for (int i = 0; i < 10; ++i) step(0.8);
  EXPECT_THAT(log().back(), HasSubstr("mfu 80%"));
}

TEST_F(ReporterTest, MemoryOfTheDeviceIsBesideTheHosts) {
  step(0.5);
  step(0.5, {.host = 1 << 30, .device = uint64_t{3} << 30});
  EXPECT_THAT(log().at(0), Not(HasSubstr("device")));
  EXPECT_THAT(log().at(1), HasSubstr("1.1 GB  device 3.2 GB"));
  EXPECT_FALSE(metrics(0).contains("device_memory"));
  EXPECT_EQ(metrics(1)["device_memory"], uint64_t{3} << 30);
}

TEST_F(ReporterTest, HowBusyTheDeviceIsIsSaidWhereItIsKnown) {
  step(0.5);
  step(0.5, {.host = 1 << 30, .device = uint64_t{3} << 30}, 0.875);
  EXPECT_THAT(log().at(1), HasSubstr("device 3.2 GB  busy 88%"));
  EXPECT_FALSE(metrics(0).contains("device_utilisation"));
  EXPECT_EQ(metrics(1)["device_utilisation"], 0.875);
}

TEST(Clock, OfAnotherMachineIsComparedWithRank0s) {
  peers::Group group(3);
  std::vector<std::optional<ClockOffset>> offsets(3);
  const auto thrown = peers::as_threads(3, [&](int32_t rank) {
    observe::Console console(observe::Console::Mode::off);
    observe::Log log(console, observe::Level::error);
    ProcessGroup processes(group.world(rank), log,
                           {.rendezvous = std::chrono::seconds(20), .stall = std::chrono::seconds(20)});
    offsets[static_cast<size_t>(rank)] = compare_clocks(processes, rank < 2 ? "one machine" : "another");
    processes.peers().barrier("end");
  });
  EXPECT_EQ(thrown, std::vector<std::string>(3));
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(offsets[static_cast<size_t>(rank)]);
    EXPECT_EQ(offsets[static_cast<size_t>(rank)]->nanoseconds, 0) << rank;
    EXPECT_EQ(offsets[static_cast<size_t>(rank)]->error, 0) << rank;
  }
  ASSERT_TRUE(offsets[2]);  // in truth it is this machine's
  EXPECT_GT(offsets[2]->error, 0);
  EXPECT_LE(std::llabs(offsets[2]->nanoseconds), offsets[2]->error);
}

}  // namespace
}  // namespace pipeline::train
