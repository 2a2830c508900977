// find-lr: which learning rates a model learns with.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/file_lock.hpp"
#include "core/base/files.hpp"
#include "core/base/program.hpp"
#include "core/cli/verb.hpp"
#include "core/report/page.hpp"
#include "core/report/table.hpp"
#include "core/train/plan/rate_test.hpp"

namespace pipeline::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kRows = 16;  // of the console's table, at most
constexpr const char* kRemedy = "choose another --output";

std::string table(const train::RateCurve& curve) {
  std::vector<std::vector<std::string>> rows{{"rate", "loss", "smoothed"}};
  const size_t count = curve.points().size(), shown = std::min(kRows, count);
  for (size_t row = 0; row < shown; ++row) {
    const train::RatePoint& point = curve.points()[shown < 2 ? 0 : row * (count - 1) / (shown - 1)];
    rows.push_back({fmt::format("{:.2e}", point.rate), fmt::format("{:.4f}", point.loss),
                    fmt::format("{:.4f}", point.smoothed)});
  }
  return report::aligned(rows);
}

// How the losses were at the last rates. What has lost most of its gain again did not go well, either.
std::string end_of(const train::RateCurve& curve) {
  if (curve.points().empty()) return "the loss was no number at the first rate";
  const train::RatePoint& least = *curve.minimum();
  const double first = curve.first_loss(), last = curve.last_loss();
  const std::string from_to =
      fmt::format("{:.4g} at the first rates, {:.4g} at the last; smoothed it is least, {:.4g}, at {:.2e}",
                  first, last, least.smoothed, least.rate);
  if (curve.diverged())
    return fmt::format("the loss diverged: {}; the test ended after the rate {:.2e}", from_to,
                       curve.points().back().rate);
  if (last - least.smoothed > (first - least.smoothed) / 2) return "the loss rose again: " + from_to;
  return "the loss did not diverge up to the last rate: " + from_to;
}

std::string verdict(const train::RateTest& test) {
  const train::RateCurve& curve = test.curve;
  const std::string end = end_of(curve);
  const auto steepest = curve.steepest(), tenth = curve.tenth_of_minimum();
  if (!steepest || !tenth)
    return end + "; it never fell, so no rate is suggested: use more --steps, or another --start and --end";
  return fmt::format(
      "suggestion: optimizer.lr = {:.2g}, where the smoothed loss falls fastest; a tenth of the rate of its "
      "minimum is {:.2g}; {}",
      *steepest / test.scale, *tenth / test.scale, end);
}

void write_files(const fs::path& folder, const std::string& title, const train::RateTest& test) {
  const auto& points = test.curve.points();
  std::string csv = "step,learning_rate,loss,smoothed\n";
  report::RunRecord run{
      .name = "find-lr", .path = folder, .training = {}, .evaluations = {}, .options = {}, .summary = {}};
  run.finished = true;
  nlohmann::ordered_json json{{"points", nlohmann::ordered_json::array()}};
  for (size_t i = 0; i < points.size(); ++i) {
    const auto& [rate, loss, smoothed] = points[i];
    csv += fmt::format("{},{},{},{}\n", i + 1, rate, loss, smoothed);
    json["points"].push_back(
        {{"step", i + 1}, {"learning_rate", rate}, {"loss", loss}, {"smoothed", smoothed}});
    run.training.steps.push_back(i + 1);
    run.training.figures["learning_rate"].push_back(rate);
    run.training.figures["loss"].push_back(loss);
    run.training.figures["smoothed"].push_back(smoothed);
  }
  const auto rate = [&](const std::optional<double>& found) {
    return found ? nlohmann::ordered_json(*found / test.scale) : nlohmann::ordered_json(nullptr);
  };
  json["diverged"] = test.curve.diverged();
  json["steepest"] = rate(test.curve.steepest());
  json["tenth_of_minimum"] = rate(test.curve.tenth_of_minimum());
  json["rate_per_optimizer_lr"] = test.scale;
  write_atomically(folder / "points.csv", csv, kRemedy);
  write_atomically(folder / "points.json", json.dump(1) + "\n", kRemedy);
  std::vector<report::Mark> marks;
  if (const auto steepest = test.curve.steepest()) marks.push_back({"suggestion", "smoothed", *steepest});
  write_atomically(folder / "find-lr.html",
                   report::page_over(run, "learning_rate", title, verdict(test), marks), kRemedy);
}

int find_lr(const ConfigArgs& args, const train::RateTestArgs& test_args, const std::string& output) {
  if (test_args.first >= test_args.last)
    throw Error(PL_ERROR_CONFIG, fmt::format("--start {} --end {}: the rate rises from one to the other, so "
                                             "the end must be larger",
                                             test_args.first, test_args.last));
  return with_workspace(args, true, [&](const train::Workspace& workspace) {
    const fs::path folder = output.empty() ? fs::path(train::run_dir(workspace.config).string() + "-find-lr")
                                           : from_start(output);
    // Before the work. In the folder, as what is around it may not be ours to write to.
    const OutputLock lock(folder, folder / "find-lr", kRemedy);
    on_disk(kRemedy, [&] { fs::create_directories(folder); });
    train::RateTest test;
    train::RateTestArgs all = test_args;
    all.processes = static_cast<uint64_t>(planned_world(args, workspace.config).size);
    const train::Outcome outcome = train::test_rates(workspace, all, test);
    if (outcome == train::Outcome::interrupted) return outcome;
    write_files(folder, workspace.config.file() + ": learning rates", test);
    print(fmt::format("\n{}\n{}\nwritten to {}\n", table(test.curve), verdict(test),
                      as_shown(folder / "find-lr.html")));
    return outcome;
  });
}

}  // namespace

void add_find_lr(CLI::App& app, Action& action) {
  auto args = std::make_shared<ConfigArgs>();
  auto test = std::make_shared<train::RateTestArgs>();
  auto output = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand(
      "find-lr", "Raises the learning rate step by step to see which ones the model learns with");
  args->add_to(*verb);
  verb->add_option("--start", test->first, "the first rate")
      ->type_name("RATE")
      ->check(at_least(0, true))
      ->capture_default_str();
  verb->add_option("--end", test->last, "the last rate")
      ->type_name("RATE")
      ->check(at_least(0, true))
      ->capture_default_str();
  verb->add_option("--steps", test->steps, "steps from one to the other, with the run's global batch")
      ->type_name("N")
      ->check(CLI::Range(5, 1000000))
      ->capture_default_str();
  verb->add_option("--output", *output, "folder of the page and the points; default: run.dir with -find-lr")
      ->type_name("FOLDER");
  verb->footer(
      "Example:\n  pipeline find-lr configs/summarization.toml --steps 60\n\nTrains in one process, from the "
      "weights that a run would begin with, and keeps none of it. The test ends\nwhen the loss diverges: at "
      "four times its smoothed minimum, or when it is no number; where it ends half as much again above\nits "
      "beginning it has diverged, too. The suggestion is the\nrate where the "
      "smoothed loss falls fastest, as Lightning's; fastai's tenth of the minimum is shown as well.");
  when_chosen(*verb, action, [=] { return find_lr(*args, *test, *output); });
}

}  // namespace pipeline::cli
