// What tasks and verbs have left in a run's folder besides curves: tables, pages and pictures of evaluations
// and predictions.
#pragma once

#include <vector>

#include "core/report/run_record.hpp"

namespace pipeline::report {

// Each {"title", "kind": "html" | "image" | "table", "content" or "rows" and "more"}. Files that are too
// large for a page are left out.
std::vector<nlohmann::ordered_json> panels_of(const RunRecord& run);

}  // namespace pipeline::report
