#include "core/report/live_page.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "core/report/page.hpp"
#include "core/report/run_record.hpp"

namespace pipeline::report {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

// The least pause between two looks at the files: a time, and so many times what the last look took, which
// keeps the page to a twentieth of a core.
constexpr auto kPause = std::chrono::milliseconds(250);
constexpr int kPauseShare = 20;
constexpr size_t kRateSteps = 10;  // as on the console

std::optional<double> option(const RunRecord& run, const char* key) {
  const auto found = run.options.find(key);
  if (found == run.options.end()) return std::nullopt;
  const double value = std::strtod(found->second.c_str(), nullptr);
  return value > 0 ? std::optional(value) : std::nullopt;
}

double sum_of_last(const RunRecord& run, const char* figure, size_t steps) {
  const std::vector<double>* const column = run.training.find(figure);
  double sum = 0;
  if (column != nullptr)
    for (size_t i = column->size() - std::min(steps, column->size()); i < column->size(); ++i)
      if (std::isfinite((*column)[i])) sum += (*column)[i];
  return sum;
}

// The last step of all, as far as it is known: an epoch's steps are in no file, but how far the run is in it.
std::optional<double> total_steps(const RunRecord& run) {
  std::optional<double> total = option(run, "train.max_steps");
  const std::vector<double>* const epoch = run.training.find("epoch");
  const std::optional<double> epochs = option(run, "train.max_epochs");
  if (!epochs || epoch == nullptr || !(epoch->back() > 0)) return total;
  const double in_epochs = std::round(static_cast<double>(run.last_step()) / epoch->back() * *epochs);
  return std::min(total.value_or(in_epochs), in_epochs);
}

void add_progress(const RunRecord& run, Json& live) {
  const auto step = static_cast<double>(run.last_step());
  const auto rate_steps = static_cast<double>(std::min(kRateSteps, run.training.steps.size()));
  const double seconds = sum_of_last(run, "seconds", kRateSteps),
               tokens = sum_of_last(run, "tokens", kRateSteps),
               done = tokens > 0 ? tokens : sum_of_last(run, "samples", kRateSteps);
  live["step"] = run.last_step();
  if (const std::vector<double>* const memory = run.training.find("device_memory"))
    live["device_memory"] = memory->back();
  double left = std::numeric_limits<double>::infinity();
  if (const auto total = total_steps(run)) {
    live["steps"] = *total;
    left = (*total - step) * seconds / rate_steps;
  }
  if (const auto most = option(run, "train.max_seconds"))
    left = std::min(left, *most - sum_of_last(run, "seconds", run.training.steps.size()));
  if (seconds > 0) {
    live["rate"] = done / seconds;
    live["unit"] = tokens > 0 ? "tokens" : "samples";
    if (std::isfinite(left)) live["left"] = std::max(left, 0.0);
  }
}

// "evaluate" -> "evaluating"
std::string_view work_of(std::string_view kind) {
  return kind == "evaluate"  ? "evaluating"
         : kind == "predict" ? "predicting"
         : kind == "export"  ? "exporting"
         : kind == "pool"    ? "adding up evaluations"
                             : "preparing";
}

}  // namespace

LivePage::LivePage(const HostPort& at, fs::path folder, std::function<uint64_t()> memory)
    : folder_(std::move(folder)),
      memory_(std::move(memory)),
      server_(at, [this](std::string_view path) { return answer(path); }) {}

void LivePage::show(const fs::path& folder, const std::string& kind) {
  const std::scoped_lock lock(mutex_);
  stage_ = {.folder = folder, .kind = kind, .began = fs::file_time_type::clock::now()};
}

PageServer::Text LivePage::answer(std::string_view path) {
  if (path != "/" && path != "/data") return {};
  Stage stage;
  {
    const std::scoped_lock lock(mutex_);
    stage = stage_;
  }
  if (const auto now = Clock::now(); !data_ || stage.folder != data_of_ || now >= next_) {
    read(stage);
    data_of_ = stage.folder;
    const auto end = Clock::now();
    next_ = end + std::max<Clock::duration>(kPause, kPauseShare * (end - now));
  }
  if (path == "/data") return {.type = "application/json", .text = data_};
  return {.type = "text/html", .text = std::make_shared<const std::string>(page_with(*data_, title_))};
}

void LivePage::read(const Stage& stage) {
  Comparison stages;
  Json live{{"stage", ""}, {"state", work_of(stage.kind)}, {"checkpoint", ""}};
  if (!stage.folder.empty()) {
    if (stage.folder != folder_) live["stage"] = stage.folder.filename().string();
    live["checkpoint"] = last_checkpoint(stage.folder);
    if (!find_stages(folder_).empty()) stages = read_stages(folder_);
  }
  const auto run = std::ranges::find(stages.runs, stage.folder, &RunRecord::path);
  if (run != stages.runs.end() && !run->training.steps.empty()) {
    add_progress(*run, live);
    const auto written = fs::last_write_time(stage.folder / "metrics.jsonl");
    if (run->finished) live["state"] = "finished";
    if (!run->finished && written >= stage.began) {
      live["state"] = "training";
      live["age"] =
          std::max(0.0, std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count());
    }
  }
  title_ = name_of_run(stages, folder_);
  Json data = page_data(stages, title_, false);
  if (live["state"] == "training")  // its summary has that once it has ended
    data["runs"][static_cast<size_t>(run - stages.runs.begin())]["memory"] = memory_();
  data["live"] = std::move(live);
  data_ = std::make_shared<const std::string>(data.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace pipeline::report
