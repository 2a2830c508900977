// A comparison, or one run, as a page: one HTML file that needs no network.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/report/comparison.hpp"
#include "core/report/run_record.hpp"

namespace pipeline::report {

// What tasks and verbs have left in a run's folder besides curves: tables, pages and pictures of evaluations
// and predictions. Each {"title", "kind": "html" | "image" | "table", "content" or "rows" and "more"}. Files
// that are too large for a page are left out.
std::vector<nlohmann::ordered_json> panels_of(const RunRecord& run);

// Curves of more steps are thinned to this many points.
inline constexpr size_t kMostPoints = 2000;

// What a page of the run in a folder is called: run.name, or as the folder is.
std::string name_of_run(const Comparison& stages, const std::filesystem::path& folder);

// A page's data (JSON), and the page that shows them: apart, for a page whose data are renewed.
nlohmann::ordered_json page_data(const Comparison& comparison, const std::string& title, bool compared);
std::string page_with(const std::string& data, const std::string& title);

// A page with the tables and pictures that tasks have left in the runs' folders. `compared`: it is about
// whether the runs are the same; otherwise about each of them.
std::string page(const Comparison& comparison, const std::string& title, bool compared);

// A place on a curve that has a name.
struct Mark {
  std::string name, curve;
  double at = 0;  // on the axis
};

// A page of one run, whose other figures are curves of one chart over its figure `axis`, on a logarithmic
// scale, and not over steps. `verdict`: what follows from them.
std::string page_over(const RunRecord& run, const std::string& axis, const std::string& title,
                      const std::string& verdict, const std::vector<Mark>& marks);

// The parts of a page that are built in: page/, and dygraphs, which draws the curves.
extern const std::string_view kPage, kPageCss, kPageJs, kDygraphCss, kDygraphJs;

}  // namespace pipeline::report
