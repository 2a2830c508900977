#include "core/report/page.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <optional>
#include <sstream>

#include <sys/stat.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/csv.hpp"
#include "core/base/error.hpp"
#include "core/base/files.hpp"
#include "core/observe/format.hpp"

namespace pipeline::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr uintmax_t kMostBytes = uintmax_t{20} << 20;
constexpr size_t kMostRows = 40;

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code none;  // an empty list
  for (const auto& entry : fs::directory_iterator(folder, none)) entries.push_back(entry.path());
  std::ranges::sort(entries);
  return entries;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t j = 0; j < 3; ++j)
      three = three << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (size_t j = 0; j < 4; ++j) text += i + j > bytes.size() ? '=' : kDigits[three >> (18 - 6 * j) & 63];
  }
  return text;
}

Json table(std::string title, std::vector<std::vector<std::string>> rows) {
  const size_t shown = std::min(rows.size(), kMostRows + 1), more = rows.size() - shown;
  rows.resize(shown);
  return {{"title", std::move(title)}, {"kind", "table"}, {"rows", std::move(rows)}, {"more", more}};
}

std::vector<std::vector<std::string>> cells_of(std::vector<CsvRow> rows) {
  std::vector<std::vector<std::string>> cells;
  for (CsvRow& row : rows) cells.push_back(std::move(row.cells));
  return cells;
}

Json read_evaluation(const fs::path& file) {
  Json evaluation = read_object(file);
  if (!evaluation.value("figures", Json::object()).is_object() ||
      !evaluation.value("step", Json(0U)).is_number_unsigned())
    throw Error(PL_ERROR_CONFIG, file.string() + ": is not as an evaluation writes it: move it away");
  return evaluation;
}

Json figures(std::string title, const Json& evaluation) {
  std::vector<std::vector<std::string>> rows{{"figure", "value"}};
  for (const auto& [name, value] : evaluation.at("figures").items())
    rows.push_back({name, value.is_number()   ? fmt::format("{:.6g}", value.get<double>())
                          : value.is_string() ? value.get<std::string>()
                                              : "none"});
  return table(std::move(title), std::move(rows));
}

// What was changed with `run --change`.
std::optional<Json> changes(const RunRecord& run) {
  const fs::path file = run.path / "changes.json";
  const Json json = fs::exists(file) ? Json::parse(read_file(file), nullptr, false) : Json();
  if (!json.is_array()) return std::nullopt;
  std::vector<std::vector<std::string>> rows{{"after step", "option", "before", "now"}};
  for (const Json& change : json)
    rows.push_back({std::to_string(change.value("step", uint64_t{0})), change.value("key", ""),
                    change.value("before", ""), change.value("now", "")});
  return table(fmt::format("{}: changed on the way", run.name), std::move(rows));
}

// A file that a task made beside a result; nothing where it is none to show, or too large.
std::optional<Json> side_panel(const std::string& run, const fs::path& file) {
  std::error_code none;
  if (fs::file_size(file, none) > kMostBytes || none) return std::nullopt;
  const std::string title = fmt::format("{}: {}", run, file.filename().string()),
                    kind = file.extension().string();
  if (kind == ".csv") return table(title, cells_of(csv_rows(read_file(file))));
  if (kind == ".html") return Json{{"title", title}, {"kind", "html"}, {"content", read_file(file)}};
  if (kind != ".png" && kind != ".svg") return std::nullopt;
  const char* const type = kind == ".png" ? "png" : "svg+xml";
  return Json{{"title", title},
              {"kind", "image"},
              {"content", fmt::format("data:image/{};base64,{}", type, base64(read_file(file)))}};
}

void add_evaluations(const RunRecord& run, std::vector<Json>& panels) {
  for (const fs::path& file : sorted_entries(run.path)) {
    const std::string name = file.stem().string();
    if (!name.starts_with("evaluation-") || file.extension() != ".json") continue;
    const Json evaluation = read_evaluation(file);
    if (!evaluation.contains("figures")) continue;
    panels.push_back(
        figures(fmt::format("{}: {} after step {}", run.name, name, evaluation.value("step", uint64_t{0})),
                evaluation));
    for (const fs::path& side : sorted_entries(run.path / (name + "-files")))
      if (auto panel = side_panel(run.name, side)) panels.push_back(std::move(*panel));
  }
}

// "2026-11-30 11:39" where this machine is.
std::string date_of(const fs::path& file) {
  struct stat of {};
  std::tm local{};
  if (::stat(file.c_str(), &of) != 0 || ::localtime_r(&of.st_mtime, &local) == nullptr) return "";
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", local.tm_year + 1900, local.tm_mon + 1, local.tm_mday,
                     local.tm_hour, local.tm_min);
}

// What people look for first: a row for each fact, a column for each run.
Json overview(const Comparison& comparison) {
  std::vector<std::vector<std::string>> rows{{""}};
  const auto row_of = [&](const std::string& head) -> std::vector<std::string>& {
    const auto found = std::ranges::find(rows, head, [](const auto& row) { return row.front(); });
    if (found != rows.end()) return *found;
    return rows.emplace_back(std::vector<std::string>{head});
  };
  for (size_t i = 0; i < comparison.runs.size(); ++i) {
    const RunRecord& run = comparison.runs[i];
    const auto tell = [&](const std::string& head, std::string text) {
      if (text.empty()) return;
      std::vector<std::string>& row = row_of(head);
      row.resize(i + 1);
      row.push_back(std::move(text));
    };
    const auto told = [&](const char* key) {
      const Json value = run.summary.is_object() ? run.summary.value(key, Json()) : Json();
      return value.is_string()            ? value.get<std::string>()
             : value.is_number_unsigned() ? observe::grouped(value.get<uint64_t>())
                                          : std::string();
    };
    rows.front().push_back(run.name);
    if (!run.training.steps.empty()) {
      const std::vector<double>* const loss = run.training.find("loss");
      tell("state",
           fmt::format("{} at step {}", name_of(state_of(run.path)), observe::grouped(run.last_step())));
      if (loss != nullptr) tell("last training loss", fmt::format("{:.6g}", loss->back()));
    }
    if (const auto best = run.best()) {
      const std::string checkpoint = best->checkpoint();
      std::string figures;
      for (size_t at = 0; at < run.evaluations.steps.size(); ++at)
        for (const auto& [name, values] : run.evaluations.figures)
          if (run.evaluations.steps[at] == best->step && !is_missing(values[at]) && name != "seconds" &&
              name != "samples")
            figures += fmt::format("{}{} {:.6g}", figures.empty() ? "" : ", ", name, values[at]);
      tell("best evaluation",
           fmt::format(
               "{} {:.6g} after step {}{}", best->metric, best->value, observe::grouped(best->step),
               is_there(run.path / checkpoint) ? ": " + checkpoint : ", whose checkpoint is not kept"));
      tell("all of its figures", figures);
    }
    tell("task", told("task"));
    tell("parameters",
         told("parameters") == told("trainable_parameters") || told("parameters").empty()
             ? told("parameters")
             : told("parameters") + ", of which " + told("trainable_parameters") + " are trained");
    tell("batch", told("global_batch").empty() ? "" : told("global_batch") + " samples");
    tell("device", told("device"));
    tell("processes", told("processes"));
    tell("precision", told("precision"));
    if (run.throughput() > 0)
      tell("speed", fmt::format("{} {}/s", observe::human_count(run.throughput()), run.throughput_unit()));
    if (run.summary.is_object() && run.summary.value("seconds", Json()).is_number())
      tell("time", observe::human_duration(run.summary["seconds"].get<double>()));
    tell("began", date_of(run.path / "config.toml"));
    tell("last written", date_of(run.path / "metrics.jsonl"));
    tell("configuration", is_there(run.path / "config.toml") ? (run.path / "config.toml").string() : "");
  }
  for (auto& row : rows) row.resize(comparison.runs.size() + 1);
  return rows.size() > 1 ? Json(rows) : Json::array();
}

// The answers that the log has shown with the last evaluation.
std::optional<Json> shown_answers(const RunRecord& run) {
  const fs::path file = run.path / "train.log";
  std::error_code none;
  if (!is_there(file) || fs::file_size(file, none) > kMostBytes || none) return std::nullopt;
  std::istringstream log(read_file(file));
  std::string head, text;
  bool is_within = false;
  for (std::string line; std::getline(log, line);) {
    // "2026-11-30 11:39:40.977 info evaluation after step 20:  loss 2"; a line without this goes on with the
    // one before.
    const bool begins =
        line.size() > 24 && line[4] == '-' && line[7] == '-' && line[13] == ':' && line[16] == ':';
    const std::string said = begins ? line.substr(std::min(line.find(' ', 24), line.size() - 1) + 1) : line;
    const bool is_info = !begins || line.compare(24, 5, "info ") == 0;
    if (begins && is_info && said.starts_with("evaluation ")) {
      head = said.substr(0, said.find(':'));
      text.clear();
      is_within = true;
    } else if (is_within && is_info && (!begins || said.starts_with("  "))) {
      text += said + "\n";
    } else {
      is_within = false;
    }
  }
  if (text.empty()) return std::nullopt;
  return Json{
      {"title", fmt::format("{}: shown at the {}", run.name, head)}, {"kind", "text"}, {"content", text}};
}

std::optional<Json> configuration(const RunRecord& run) {
  std::vector<std::vector<std::string>> rows{{"option", "value"}};
  for (const auto& [key, value] : run.options)
    if (!value.empty()) rows.push_back({key, value});
  if (rows.size() == 1) return std::nullopt;
  return Json{{"title", run.name + ": configuration"},
              {"kind", "table"},
              {"rows", std::move(rows)},
              {"more", 0},
              {"folded", true}};
}

// Predictions may have files for each of many samples: the pictures of the first few are shown, and none of
// their tables.
void add_predictions(const RunRecord& run, std::vector<Json>& panels) {
  constexpr size_t kMostPictures = 12;
  for (const fs::path& file : sorted_entries(run.path)) {
    if (!is_prediction(file)) continue;
    if (auto panel = side_panel(run.name, file)) panels.push_back(std::move(*panel));
    std::vector<fs::path> pictures = sorted_entries(run.path / (file.stem().string() + "-files"));
    std::erase_if(pictures, [](const fs::path& side) {
      return side.extension() != ".svg" && side.extension() != ".png";
    });
    for (size_t i = 0; i < std::min(pictures.size(), kMostPictures); ++i)
      if (auto panel = side_panel(run.name, pictures[i])) panels.push_back(std::move(*panel));
    if (pictures.size() > kMostPictures)
      panels.push_back(table(fmt::format("{}: {} more pictures", run.name, pictures.size() - kMostPictures),
                             {{"folder"}, {pictures.front().parent_path().string()}}));
  }
}

// What is not finite goes as "nan" and the like, which JSON has not; null: there is none.
Json number(double value) {
  if (std::isfinite(value)) return value;
  return is_missing(value) ? Json(nullptr) : Json(fmt::format("{}", value));
}

Json to_json(const Curve& curve) {
  const size_t stride = (curve.steps.size() + kMostPoints - 1) / kMostPoints;
  std::vector<size_t> kept;  // every stride-th, and the last
  for (size_t i = 0; i < curve.steps.size(); ++i)
    if (i % stride == 0 || i + 1 == curve.steps.size()) kept.push_back(i);
  Json steps = Json::array(), figures = Json::object();
  for (const size_t i : kept) steps.push_back(curve.steps[i]);
  for (const auto& [name, values] : curve.figures) {
    Json column = Json::array();
    for (const size_t i : kept) column.push_back(number(values[i]));
    figures[name] = std::move(column);
  }
  return {{"steps", std::move(steps)}, {"figures", std::move(figures)}};
}

Json last_loss(const RunRecord& run) {
  const std::vector<double>* const loss = run.training.find("loss");
  if (loss == nullptr || loss->empty()) return nullptr;
  return number(loss->back());
}

Json to_json(const Comparison& comparison, size_t i) {
  const RunRecord& run = comparison.runs[i];
  Json json = to_json(run.training);
  json["evaluations"] = to_json(run.evaluations);
  json["name"] = run.name;
  json["path"] = run.path.string();
  json["finished"] = run.finished || run.made != RunRecord::Made::yes;  // no step will be added
  json["last_step"] = run.last_step();
  json["last_loss"] = last_loss(run);
  json["throughput"] = run.throughput();
  json["unit"] = run.throughput_unit();
  json["memory"] = run.peak_host_memory();
  json["processes"] = run.processes();
  const auto efficiency = comparison.efficiency(i);
  json["efficiency"] = efficiency ? Json(*efficiency) : Json(nullptr);
  if (const auto straggler = run.straggler())
    json["straggler"] = {{"rank", straggler->rank}, {"excess", straggler->excess}};
  json["verdict"] = comparison.verdict(i);
  json["same"] = comparison.is_same(i);
  json["summary"] = run.summary;
  return json;
}

// Adds where and how often each figure of the training or of its evaluations is not a number.
void add_problems(const RunRecord& run, const Curve& curve, std::vector<std::string>& problems) {
  const bool is_training = &curve == &run.training;
  for (const auto& [name, values] : curve.figures) {
    // A gradient that is too large is how the scale of fp16's loss finds its value.
    if (is_training && name == "grad_norm" && run.training.find("loss_scale") != nullptr) continue;
    const auto is_bad = [](double value) { return !std::isfinite(value) && !is_missing(value); };
    const auto first = std::ranges::find_if(values, is_bad);
    if (first == values.end()) continue;
    problems.push_back(
        fmt::format("{} is not finite in {} of {} {}, first {} step {}",
                    is_training && name == "loss" ? "the loss" : name, std::ranges::count_if(values, is_bad),
                    values.size() - static_cast<size_t>(std::ranges::count_if(values, is_missing)),
                    is_training ? "steps" : "evaluations", is_training ? "in" : "after",
                    curve.steps[static_cast<size_t>(first - values.begin())]));
  }
}

// What is wrong with a run by what it left. Empty: nothing.
std::string problem_of(const RunRecord& run) {
  const std::filesystem::path file = run.path / "diverged.txt";
  std::string line;
  if (std::ifstream stream; is_there(file) && (stream = open_file(file))) std::getline(stream, line);
  if (!line.empty()) return line;
  std::vector<std::string> problems;
  for (const Curve* const curve : {&run.training, &run.evaluations}) add_problems(run, *curve, problems);
  return fmt::format("{}", fmt::join(problems, "; "));
}

// The problems of all runs that have one.
std::string problems_of(const Comparison& comparison) {
  std::string text;
  for (const RunRecord& run : comparison.runs)
    if (const std::string problem = problem_of(run); !problem.empty())
      text += fmt::format("{}{}{}", text.empty() ? "" : "; ",
                          comparison.runs.size() > 1 ? run.name + ": " : std::string(), problem);
  return text;
}

// A text changed so that it ends no element, wherever it stands in a script.
std::string in_script(std::string text) {
  for (size_t at = text.find("</"); at != std::string::npos; at = text.find("</", at))
    text.replace(at, 2, "<\\/");
  for (size_t at = text.find("<!--"); at != std::string::npos; at = text.find("<!--", at))
    text.replace(at, 4, "\\u003c!--");
  return text;
}

std::string in_html(std::string_view text) {
  std::string escaped;
  for (const char c : text)
    escaped += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return escaped;
}

std::string with_data(const Json& data, const std::string& title) {
  return page_with(data.dump(-1, ' ', false, Json::error_handler_t::replace), title);
}

}  // namespace

std::vector<Json> panels_of(const RunRecord& run) {
  std::vector<Json> panels;
  if (!fs::is_directory(run.path)) return panels;
  if (auto panel = shown_answers(run)) panels.push_back(std::move(*panel));
  if (auto panel = changes(run)) panels.push_back(std::move(*panel));
  add_evaluations(run, panels);
  add_predictions(run, panels);
  if (auto panel = configuration(run)) panels.push_back(std::move(*panel));
  return panels;
}

std::string name_of_run(const Comparison& stages, const std::filesystem::path& folder) {
  for (const RunRecord& stage : stages.runs)
    if (const auto name = stage.options.find("run.name"); name != stage.options.end())
      if (const Json text = Json::parse(name->second, nullptr, false); text.is_string() && text != "")
        return text;
  const std::filesystem::path path = std::filesystem::absolute(folder / "").lexically_normal();
  return path.parent_path().filename().string();
}

std::string page_with(const std::string& data, const std::string& title) {
  std::string text;
  std::string_view rest = kPage;
  const std::pair<std::string_view, std::string> parts[] = {{"@TITLE@", in_html(title)},
                                                            {"@DYGRAPH_CSS@", std::string(kDygraphCss)},
                                                            {"@PAGE_CSS@", std::string(kPageCss)},
                                                            {"@DATA@", in_script(data)},
                                                            {"@DYGRAPH_JS@", std::string(kDygraphJs)},
                                                            {"@PAGE_JS@", std::string(kPageJs)}};
  for (const auto& [mark, content] : parts) {
    const size_t at = rest.find(mark);
    text.append(rest.substr(0, at)).append(content);
    rest.remove_prefix(at + mark.size());
  }
  return text.append(rest);
}

Json page_data(const Comparison& comparison, const std::string& title, bool compared) {
  Json data{{"title", title},
            {"compared", compared},
            {"same", compared && comparison.all_same()},
            {"runs", Json::array()}};
  data["overview"] = compared ? Json::array() : overview(comparison);
  data["verdict"] = compared ? conclusion(comparison, /*is_brief=*/true) : problems_of(comparison);
  data["differences"] = Json::array();
  data["panels"] = Json::array();
  for (size_t i = 0; i < comparison.runs.size(); ++i) {
    data["runs"].push_back(to_json(comparison, i));
    for (Json& panel : panels_of(comparison.runs[i])) data["panels"].push_back(std::move(panel));
  }
  if (compared)
    for (const auto& [key, values] : comparison.differences())
      data["differences"].push_back({{"key", key}, {"values", values}});
  return data;
}

std::string page(const Comparison& comparison, const std::string& title, bool compared) {
  return with_data(page_data(comparison, title, compared), title);
}

std::string page_over(const RunRecord& run, const std::string& axis, const std::string& title,
                      const std::string& verdict, const std::vector<Mark>& marks) {
  const Comparison alone{.tolerance = 0, .runs = {run}, .verdicts = {{}}};
  const Json of_run = to_json(alone, 0);
  // Each curve has the place of a run's in a comparison.
  Json curves = Json::array(), marked = Json::array();
  for (const auto& [name, values] : of_run["figures"].items()) {
    if (name == axis) continue;
    curves.push_back(of_run);
    curves.back()["name"] = name;
    curves.back()["steps"] = of_run["figures"][axis];
    curves.back()["figures"] = {{"loss", values}};
  }
  const Json& places = of_run["figures"][axis];  // a mark is at a point of its curve
  for (const Mark& mark : marks)
    marked.push_back({{"name", mark.name},
                      {"curve", mark.curve},
                      {"at", *std::ranges::min_element(places, {}, [&](const Json& place) {
                         return place.is_number() ? std::abs(place.get<double>() - mark.at) : INFINITY;
                       })}});
  return with_data({{"title", title},
                    {"compared", false},
                    {"same", true},
                    {"axis", axis},
                    {"marks", marked},
                    {"runs", curves},
                    {"verdict", verdict},
                    {"differences", Json::array()},
                    {"panels", Json::array()}},
                   title);
}

}  // namespace pipeline::report
