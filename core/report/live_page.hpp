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

#include "core/report/page_server.hpp"

namespace pipeline::report {

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
