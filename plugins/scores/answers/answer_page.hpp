// A page that shows held-out questions, and their pictures, with what was answered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pipeline/task_types.hpp>

namespace pipeline::answers {

// The samples of a split that are shown are the first ones.
constexpr uint64_t kShownSamples = 48;

struct ShownAnswer {
  std::string id;
  std::vector<std::string> pictures;                       // PNG files
  std::vector<std::pair<std::string, std::string>> texts;  // {"question", ...}, {"answer", ...}
  std::optional<bool> right = std::nullopt;                // without it, answers are compared

  std::string pack() const;
  static ShownAnswer unpack(std::string_view bytes);
};

// Keeps it for the page of an evaluation. [main]
void show(uint64_t id, const ShownAnswer& shown, const EvaluationSink& sink);
// answers.html, of all that was shown; nothing where that is none.
void report_shown(const Report& report, const std::string& title, const ReportSink& sink);

// One HTML file, with its pictures inside and nothing from elsewhere. Texts that are compared stand side by
// side, below the first of them, the question.
std::string answer_page(const std::vector<ShownAnswer>& answers, const std::string& title);

}  // namespace pipeline::answers
