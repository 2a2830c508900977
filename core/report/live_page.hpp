// The page of a run while it goes on, for browsers: as page() makes it, with how the run stands, from the
// files that are in its folder. Nothing is read while nobody looks.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "core/base/socket.hpp"

namespace pipeline::report {

// A few texts over HTTP, for browsers, on a thread of its own. It only reads: GET and HEAD of what `answer`
// knows. Whatever clients do, it takes no more than a few connections, kilobytes and seconds for each of
// them.
class PageServer {
 public:
  struct Text {
    std::string type;                         // text/html
    std::shared_ptr<const std::string> text;  // null: there is nothing at this path
  };
  // Returns the text at a path ("/"), on the server's thread. May throw: the client is told why.
  using Answer = std::function<Text(std::string_view path)>;

  // Port 0: any that is free. On a loopback address it takes only requests for a name of this host, so that
  // no other site's name can be made to lead here (DNS rebinding); on any other address only those with the
  // token, a new one for each server. Throws Error where it cannot listen.
  PageServer(const HostPort& at, Answer answer);
  // Ends every connection at once.
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  // What to open in a browser, with the token if it needs one.
  const std::string& url() const;

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

class LivePage {
 public:
  // `folder`: of the run. Until show() it counts as empty: it may have an older run. `memory`: bytes of host
  // memory that this rank has taken. Throws Error where the page cannot be served.
  LivePage(const HostPort& at, std::filesystem::path folder, std::function<uint64_t()> memory);

  // What runs from now on: the run, or a stage of it in a folder of its own, of a kind as in stage.kind. From
  // any thread.
  void show(const std::filesystem::path& folder, const std::string& kind);
  const std::string& url() const { return server_.url(); }

 private:
  struct Stage {
    std::filesystem::path folder;
    std::string kind;
    std::filesystem::file_time_type began;
  };

  PageServer::Text answer(std::string_view path);
  void read(const Stage& stage);

  const std::filesystem::path folder_;
  const std::function<uint64_t()> memory_;
  std::mutex mutex_;
  Stage stage_;  // guarded by mutex_
  // For the server's thread alone: what was read last, of which stage, and when it may be read again.
  std::shared_ptr<const std::string> data_;
  std::string title_;
  std::filesystem::path data_of_;
  std::chrono::steady_clock::time_point next_;
  PageServer server_;  // the last member: its thread uses the others
};

}  // namespace pipeline::report
