#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/report/live_page.hpp"
#include "tests/support/http.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using tests::request;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

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

constexpr const char *kOk = "HTTP/1.1 200 ", *kForbidden = "HTTP/1.1 403 ";

PageServer::Text answer(std::string_view path) {
  if (path == "/broken") throw Error("metrics.jsonl: cannot be read");
  if (path != "/") return {};
  return {.type = "text/html", .text = std::make_shared<const std::string>("<p>hello")};
}

class Served : public testing::Test {
 protected:
  PageServer server_{{"127.0.0.1", 0}, answer};
  const uint16_t port_ = tests::port_of(server_.url());
};

TEST_F(Served, GivesWhatItHasAndNothingElse) {
  EXPECT_EQ(server_.url(), "http://127.0.0.1:" + std::to_string(port_) + "/");
  const std::string page = request(port_, "GET /?any=thing"), head = request(port_, "HEAD /");
  EXPECT_THAT(page, StartsWith(kOk));
  EXPECT_THAT(page, HasSubstr("Content-Type: text/html; charset=utf-8\r\n"));
  EXPECT_THAT(page, EndsWith("\r\n\r\n<p>hello"));
  EXPECT_EQ(head + "<p>hello", page);
  for (const char* const path : {"/other", "/../../etc/passwd", "//", "http://localhost/", "*"})
    EXPECT_THAT(request(port_, std::string("GET ") + path), StartsWith("HTTP/1.1 404 ")) << path;
  const std::string broken = request(port_, "GET /broken");
  EXPECT_THAT(broken, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(broken, EndsWith("metrics.jsonl: cannot be read\n"));
}

TEST_F(Served, CanOnlyBeRead) {
  for (const char* const method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"}) {
    const std::string refused = request(port_, std::string(method) + " /");
    EXPECT_THAT(refused, StartsWith("HTTP/1.1 405 ")) << method;
    EXPECT_THAT(refused, HasSubstr("Allow: GET, HEAD\r\n"));
  }
  EXPECT_THAT(tests::talk(port_, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" +
                                     std::string(100'000, 'x')),
              StartsWith("HTTP/1.1 405 "));
}

TEST_F(Served, OnALoopbackAddressAnswersToThisHostsNamesAlone) {
  for (const char* const host : {"localhost", "LOCALHOST:80", "127.0.0.1:9000", "127.1.2.3", "[::1]:8080"})
    EXPECT_THAT(request(port_, "GET /", host), StartsWith(kOk)) << host;
  for (const char* const host : {"evil.example", "localhost.evil.example:80", "127.0.0.1.evil.example",
                                 "10.0.0.1", "", "[", "[::2]", "\"localhost\""})
    EXPECT_THAT(request(port_, "GET /", host), StartsWith(kForbidden)) << host;
  EXPECT_THAT(tests::talk(port_, "GET / HTTP/1.0\r\n\r\n"), StartsWith(kForbidden));
  EXPECT_THAT(request(port_, "GET /", "evil.example"), HasSubstr("open " + server_.url()));
}

TEST_F(Served, OnAnyOtherAddressNeedsItsToken) {
  const PageServer open({"0.0.0.0", 0}, answer), other({"0.0.0.0", 0}, answer);
  const uint16_t port = tests::port_of(open.url());
  const std::string token = open.url().substr(open.url().find("token=") + 6);
  EXPECT_EQ(token.size(), 32u);
  EXPECT_THAT(other.url(), testing::Not(HasSubstr(token)));
  for (const char* const query : {"", "?", "?token=", "?token", "?x=1&token=x", "?token=0", "&token="})
    EXPECT_THAT(request(port, std::string("GET /") + query), StartsWith(kForbidden)) << query;
  EXPECT_THAT(request(port, "GET /?token=" + token.substr(1)), StartsWith(kForbidden));
  EXPECT_THAT(request(port, "GET /?token=" + token + "0"), StartsWith(kForbidden));
  EXPECT_THAT(request(port, "GET /other?token=x"), StartsWith(kForbidden)) << "what there is, is not told";
  EXPECT_THAT(request(port, "GET /?token=" + token, "any.example"), StartsWith(kOk));
  EXPECT_THAT(request(port, "HEAD /?x=1&token=" + token), StartsWith(kOk));
}

TEST_F(Served, WhatIsNoRequestOrTooLongIsRefused) {
  EXPECT_THAT(tests::talk(port_, "\x16\x03\x01 TLS\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(tests::talk(port_, "GET / HTTP/1.1\r\nX: " + std::string(100'000, 'x')),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(request(port_, "GET /"), StartsWith(kOk));
}

TEST(PageServers, ClientsThatSayNothingHoldUpNeitherOthersNorTheEnd) {
  std::optional<PageServer> server;
  server.emplace(HostPort{"127.0.0.1", 0}, answer);
  const uint16_t port = tests::port_of(server->url());
  std::vector<Socket> silent;
  for (int i = 0; i < 15; ++i) silent.push_back(tests::connect_to_port(port));
  ::send(silent[0].fd(), "GET / HT", 8, MSG_NOSIGNAL);
  EXPECT_THAT(request(port, "GET /"), StartsWith(kOk));
  for (int i = 0; i < 5; ++i) silent.push_back(tests::connect_to_port(port));
  EXPECT_THAT(request(port, "GET /"), StartsWith(kOk)) << "the oldest make room";
  const auto said_by_server = [&](const Socket& client) {
    char byte = 0;
    return ::recv(client.fd(), &byte, 1, MSG_DONTWAIT);
  };
  EXPECT_EQ(said_by_server(silent[1]), 0) << "its end";
  EXPECT_EQ(said_by_server(silent[12]), -1) << "nothing: they were not all waited for until they had to go";
  for (int i = 0; i < 50; ++i) silent.push_back(tests::connect_to_port(port));
  const auto began = Clock::now();
  server.reset();
  EXPECT_LT(Clock::now() - began, 5s);
}

TEST(PageServers, AnAddressThatCannotBeHadIsSaid) {
  const auto refused = [](const HostPort& at) {
    return tests::message_of<Error>([&] { const PageServer server(at, answer); });
  };
  const PageServer first({"127.0.0.1", 0}, answer);
  EXPECT_THAT(refused({"127.0.0.1", tests::port_of(first.url())}),
              StartsWith("the port is in use by process "));
  EXPECT_EQ(refused({"192.0.2.1", 0}), "Cannot assign requested address");
  EXPECT_THAT(refused({"no-such-host.invalid", 0}), testing::Not(StartsWith("(nothing")));
}

TEST(Addresses, AreAHostAndAPort) {
  const auto parts = [](const char* text) {
    const auto split = split_address(text);
    return split ? split->host + " " + std::to_string(split->port) : "none";
  };
  EXPECT_EQ(parts("127.0.0.1:8080"), "127.0.0.1 8080");
  EXPECT_EQ(parts("[::1]:0"), "::1 0");
  EXPECT_EQ(parts("node-1:65535"), "node-1 65535");
  for (const char* const text : {"", "8080", ":8080", "host", "host:", "host:65536", "host:-1", "host:80x",
                                 "::1:80", "[host]:80", "http://host:80/", "host: 80"})
    EXPECT_EQ(parts(text), "none") << text;
}

}  // namespace
}  // namespace pipeline::report
