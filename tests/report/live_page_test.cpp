#include "core/report/live_page.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/support/http.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class Live : public testing::Test {
 protected:
  json data() const { return json::parse(tests::body_of(tests::request(port_, "GET /data"))); }

  // A stage of so many steps of half a second, written just now.
  void write_stage(const std::string& name, int steps, const std::string& options) {
    fs::create_directories(folder_ / name + "/checkpoints/step-00000010");
    std::string metrics;
    for (int step = 1; step <= steps; ++step)
      metrics +=
          json{{"step", step}, {"epoch", step / 8.0}, {"loss", 1}, {"seconds", 0.5}, {"tokens", 100}}.dump() +
          "\n";
    folder_.write(name + "/config.toml", options);
    const std::string file = folder_.write(name + "/metrics.jsonl", metrics + "{\"step\": 9");
    fs::last_write_time(file, fs::file_time_type::clock::now() + std::chrono::seconds(1));
  }

  tests::FilesFolder folder_;
  LivePage page_{{"127.0.0.1", 0}, folder_.path(), [] { return 5'000'000; }};
  const uint16_t port_ = tests::port_of(page_.url());
};

TEST_F(Live, SaysHowTheStageStandsThatRuns) {
  write_stage("old", 5, "");
  json before = data();
  EXPECT_EQ(before["runs"], json::array()) << "an older run, which may be moved aside";
  EXPECT_EQ(before["live"]["state"], "preparing");

  page_.show(folder_ / "first", "train");
  fs::remove_all(folder_ / "old");
  write_stage("first", 20, "[train]\nmax_steps = 100\nmax_epochs = 5\n");
  json live = data()["live"];
  EXPECT_EQ(data()["runs"][0]["memory"], 5'000'000) << "which its summary does not have yet";
  live.erase("age");
  EXPECT_EQ(live, (json{{"stage", "first"},
                        {"state", "training"},
                        {"checkpoint", "step-00000010"},
                        {"step", 20},
                        {"steps", 40},
                        {"rate", 200},
                        {"unit", "tokens"},
                        {"left", 10}}));

  page_.show(folder_ / "figures", "evaluate");
  EXPECT_EQ(data()["live"], (json{{"stage", "figures"}, {"state", "evaluating"}, {"checkpoint", ""}}));
  EXPECT_EQ(data()["runs"][0]["name"], "first") << "the stages before it are on the page, too";

  page_.show(folder_ / "second", "train");
  write_stage("second", 3, "[train]\nmax_seconds = 60\n");
  fs::last_write_time(folder_ / "second/metrics.jsonl",
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(data()["live"]["state"], "preparing") << "these steps are of an earlier launch";
  EXPECT_EQ(data()["live"]["left"], 58.5);
  EXPECT_EQ(data()["runs"].size(), 2u);
}

TEST_F(Live, HasTheRunsName) {
  EXPECT_EQ(data()["title"], fs::path(folder_.path()).filename().string());
  page_.show(folder_ / "first", "train");
  write_stage("first", 2, "[run]\nname = \"a <name>\"\n");
  EXPECT_EQ(data()["title"], "a <name>");
  EXPECT_THAT(tests::body_of(tests::request(port_, "GET /")), HasSubstr("<title>a &lt;name&gt;</title>"));
}

TEST_F(Live, IsThePageWithItsDataAndNoOtherFile) {
  page_.show(folder_ / "first", "train");
  write_stage("first", 20, "[train]\nmax_steps = 100\n");
  const std::string page = tests::body_of(tests::request(port_, "GET /"));
  EXPECT_THAT(page, HasSubstr("<!DOCTYPE html>"));
  EXPECT_THAT(page, HasSubstr("\"live\":{\"stage\":\"first\""));
  for (const char* const path :
       {"/first/config.toml", "/metrics.jsonl", "/first", "/data/", "/data/../first"})
    EXPECT_THAT(tests::request(port_, std::string("GET ") + path), testing::StartsWith("HTTP/1.1 404 "))
        << path;
}

TEST_F(Live, AFolderThatCannotBeReadIsSaid) {
  page_.show(folder_ / "first", "train");
  write_stage("first", 20, "");
  write_stage("second", 20, "");
  folder_.write("first/metrics.jsonl", "no JSON\n");
  const std::string answer = tests::request(port_, "GET /data");
  EXPECT_THAT(answer, testing::StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(answer, HasSubstr("first/metrics.jsonl:1: not valid JSON"));
}

}  // namespace
}  // namespace pipeline::report
