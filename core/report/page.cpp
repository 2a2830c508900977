#include "core/report/page.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/files.hpp"
#include "core/report/assets.hpp"
#include "core/report/panels.hpp"

namespace pipeline::report {
namespace {

using Json = nlohmann::ordered_json;

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
  data["verdict"] = compared ? conclusion(comparison) : problems_of(comparison);
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
