// The page of a run, fetched while it trains.
#include <csignal>

#include <gmock/gmock.h>

#include "tests/e2e/job.hpp"
#include "tests/support/http.hpp"

namespace pipeline::tests {
namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class LivePage : public testing::Test {
 protected:
  LivePage() { write_text(job_.path("train.toml"), kConfig); }
  // The address of the page, as a running process has said it.
  static std::string url_of(const Process& run) {
    std::string output;
    EXPECT_TRUE(
        eventually([&] { return (output = run.output()).find("page       http") != std::string::npos; }));
    const size_t begin = output.find("http://");
    return output.substr(begin, output.find('\n', begin) - begin);
  }

  const std::string kConfig = linear_run() + R"([observe]
serve = "127.0.0.1:0"
[schedule]
kind = "constant"
[train]
global_batch = 1024
micro_batch = 1
)";  // steps that take a while: the page has a line of each
  Job job_;
};

TEST_F(LivePage, FollowsARunThroughItsStages) {
  // The page is made anew after twenty times what making it took: under a sanitizer, on a busy machine, late.
  write_text(job_.path("train.toml"), kConfig + R"([[stage]]
name = "first"
train.max_seconds = 12
[[stage]]
name = "second"
init_from = "first"
train.max_steps = 1000000000
)");
  Process run(pipeline_command({"run", "train.toml"}), job_.folder());
  const uint16_t port = port_of(url_of(run));
  json data;
  const auto shows = [&](const char* stage) {
    return eventually([&] {
      const std::string answer = request(port, "GET /data");
      if (answer.find(" 200 ") == std::string::npos) return false;  // its files are being made
      data = json::parse(body_of(answer));
      return data["live"]["stage"] == stage && data["live"]["state"] == "training";
    });
  };
  ASSERT_TRUE(shows("first")) << run.output();
  EXPECT_EQ(data["title"], "run");
  EXPECT_LE(data["live"]["left"], 12);
  const json& first = data["runs"][0];
  EXPECT_EQ(first["processes"], 1);
  EXPECT_THAT(first["summary"]["device"], testing::StartsWith("cpu"));
  EXPECT_GT(first["memory"], 1'000'000);
  ASSERT_TRUE(shows("second")) << run.output();
  EXPECT_EQ(data["live"]["steps"], 1000000000);
  EXPECT_EQ(data["runs"].size(), 2u) << data["runs"];
  EXPECT_THAT(request(port, "GET /"), HasSubstr("\"stage\":\"second\""));
  run.signal(SIGINT);
  EXPECT_EQ(run.wait().code, 75);
  EXPECT_EQ(request(port, "GET /"), "") << "it ends with the run";
}

TEST_F(LivePage, OfAnyOtherAddressHasATokenWhichOnlyTheConsoleHas) {
  Process run(
      pipeline_command({"run", "train.toml", "train.max_steps=1000000000", "observe.serve=0.0.0.0:0"}),
      job_.folder());
  const std::string url = url_of(run), token = url.substr(url.find("/?token="));
  EXPECT_THAT(request(port_of(url), "GET /"), testing::StartsWith("HTTP/1.1 403 "));
  const std::string page = request(port_of(url), "GET " + token);
  EXPECT_THAT(page, testing::StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(page, Not(HasSubstr(token)));
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(job_.path("run/metrics.jsonl")); }));
  run.signal(SIGKILL);
  EXPECT_EQ(run.output().find(token), run.output().rfind(token));
  EXPECT_THAT(read_text(job_.path("run/train.log")),
              ContainsRegex("page       http://.*/, with the token that the console has shown\n"));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(job_.path("run"))) {
    if (!entry.is_regular_file()) continue;
    EXPECT_THAT(read_text(entry.path()), Not(HasSubstr(token.substr(2)))) << entry.path();
  }
}

TEST_F(LivePage, WhoseTokenNobodyWouldSeeIsNotServed) {
  job_.call("run", {"train.max_steps=2", "observe.serve=0.0.0.0:0", "observe.console=off"}).ended(0);
  EXPECT_THAT(read_text(job_.path("run/train.log")),
              HasSubstr("only the console shows the token that a page at this address needs"));
}

TEST_F(LivePage, WhichCannotBeHadEndsNoRun) {
  const Socket other = listen_at(resolve("127.0.0.1", 0).addresses.at(0));
  Address taken{.length = sizeof(sockaddr_storage)};
  ASSERT_EQ(::getsockname(other.fd(), taken.get(), &taken.length), 0);
  const Result result = job_.call("run", {"train.max_steps=2", "observe.serve=" + to_text(taken)}).ended(0);
  EXPECT_THAT(result.out,
              ContainsRegex("warning: observe.serve = \"127.0.0.1:[0-9]+\": the port is in use by process "
                            "[0-9]+ .*: the run goes on without its page; choose another"));
  EXPECT_THAT(result.out, HasSubstr("done: run"));
}

TEST_F(LivePage, WhatIsNoAddressIsNamedBeforeTheRun) {
  for (const char* const verb : {"run", "check"})
    EXPECT_THAT(job_.call(verb, {"observe.serve=localhost"}).err,
                HasSubstr("--set observe.serve=localhost: must be HOST:PORT, such as 127.0.0.1:8080"))
        << verb;
  write_text(job_.path("train.toml"), kConfig + "[[stage]]\nname = \"first\"\nobserve.serve = \"[::1]:1\"\n");
  EXPECT_THAT(job_.call("check").ended(2).err,
              HasSubstr("must be the same for all stages: set it in the file's own [observe] table"));
}

}  // namespace
}  // namespace pipeline::tests
