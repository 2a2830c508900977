#include "core/observe/log.hpp"

#include <atomic>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

namespace pipeline::observe {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  static constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                          spdlog::level::warn, spdlog::level::err};
  return kLevels[static_cast<size_t>(level)];
}

const char* prefix(Level level) {
  return level == Level::warning ? "warning: " : level == Level::error ? "error: " : "";
}

}  // namespace

Log::Log(Console& console, Level level) : console_(console), level_(level) {}
Log::~Log() { flush(); }

void Log::open_files(const std::filesystem::path& run_dir, int rank) {
  std::filesystem::create_directories(run_dir / "logs");
  std::vector<spdlog::sink_ptr> sinks;
  const auto add = [&](const std::filesystem::path& file) {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
    sink->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
    sinks.push_back(std::move(sink));
  };
  add(run_dir / "logs" / ("rank-" + std::to_string(rank) + ".log"));
  if (rank == 0) add(run_dir / "train.log");
  const std::lock_guard lock(mutex_);
  files_ = std::make_shared<spdlog::logger>("run", sinks.begin(), sinks.end());
  files_->set_level(to_spdlog(level_));
  files_->flush_on(spdlog::level::info);
  // A full disk must not end a run; it is said once.
  files_->set_error_handler(
      [this, said = std::make_shared<std::atomic<bool>>(false)](const std::string& problem) {
        if (!said->exchange(true)) console_.line("warning: the log cannot be written: " + problem);
      });
  for (const Early& early : early_) files_->log(to_spdlog(early.level), early.line);
  early_.clear();
}

void Log::write(Level level, std::string_view line) {
  if (level < level_) return;
  console_.line(std::string(prefix(level)).append(line));
  to_files(level, line);
}

void Log::to_files(Level level, std::string_view line) {
  const std::lock_guard lock(mutex_);
  if (files_)
    files_->log(to_spdlog(level), line);
  else
    early_.push_back({level, std::string(line)});
}

void Log::flush() {
  const std::lock_guard lock(mutex_);
  if (files_) files_->flush();
}

}  // namespace pipeline::observe
