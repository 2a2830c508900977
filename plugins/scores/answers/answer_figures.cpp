#include "plugins/scores/answers/answer_figures.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include <pipeline/error.hpp>

#include "plugins/scores/answers/answer_score.hpp"
#include "plugins/scores/intervals/interval.hpp"

namespace pipeline::answers {
namespace {

using nlohmann::json;

// Samples of a figure, and what it is of some of them.
struct Figure {
  const char* name;
  std::vector<uint64_t> pictures;
  std::function<double(std::span<const size_t>)> of;
};

Figure mean_figure(const char* name, std::vector<uint64_t> pictures, std::vector<double> values) {
  return {name, std::move(pictures), [values = std::move(values)](std::span<const size_t> drawn) {
            double sum = 0;
            for (const size_t i : drawn) sum += values[i];
            return sum / static_cast<double>(drawn.size());
          }};
}

double distinct(const std::vector<uint64_t>& pictures) {
  return static_cast<double>(std::set<uint64_t>(pictures.begin(), pictures.end()).size());
}

// The figure over the answers that have the value.
Figure figure_of(const char* name, const std::vector<ScoredAnswer>& answers,
                 const std::function<std::optional<double>(const ScoredAnswer&)>& value) {
  std::vector<uint64_t> pictures;
  std::vector<double> values;
  for (const ScoredAnswer& one : answers)
    if (const std::optional<double> found = value(one)) {
      pictures.push_back(one.picture);
      values.push_back(*found);
    }
  return mean_figure(name, std::move(pictures), std::move(values));
}

void add_caption_figures(const std::vector<ScoredAnswer>& answers, std::vector<Figure>& figures) {
  std::vector<WrittenCaption> captions;
  std::vector<ChrfCounts> counts;
  std::vector<uint64_t> pictures;
  for (const ScoredAnswer& one : answers) {
    if (!one.is_caption) continue;
    captions.push_back({.text = one.text, .truths = one.truths});
    counts.push_back(chrf_counts(one.truths, one.text));
    pictures.push_back(one.picture);
  }
  figures.push_back({"chrf", pictures, [counts = std::move(counts)](std::span<const size_t> drawn) {
                       ChrfCounts sum;
                       for (const size_t i : drawn) add(sum, counts[i]);
                       return chrf(sum);
                     }});
  figures.push_back(mean_figure("cider_d", std::move(pictures), cider_d(captions)));
}

}  // namespace

std::string shown_truths(const std::vector<std::string>& truths) {
  if (truths.size() == 1) return truths[0];
  std::vector<std::pair<std::string, size_t>> counts;
  for (const std::string& truth : truths) {
    const auto found = std::ranges::find(counts, truth, &std::pair<std::string, size_t>::first);
    if (found == counts.end())
      counts.emplace_back(truth, 1);
    else
      ++found->second;
  }
  std::ranges::stable_sort(counts, std::greater<>(), &std::pair<std::string, size_t>::second);
  std::string text;
  for (const auto& [truth, count] : counts)
    text += concat(text.empty() ? "" : ", ", truth, count > 1 ? concat(" (", count, ")") : "");
  return text;
}

ScoredAnswer::ScoredAnswer(uint64_t of_picture, bool caption, std::vector<std::string> people,
                           const std::string& written)
    : picture(of_picture), is_caption(caption), truths(std::move(people)) {
  const AnswerScore score = score_answer(truths, written);
  exact = score.exact, f1 = score.f1;
  if (is_caption)
    text = written;
  else if (truths.size() > 1)
    vqa = vqa_accuracy(truths, written);
}

std::string ScoredAnswer::pack() const {
  std::string bytes;
  json::to_cbor(json{picture, is_caption, exact, f1, vqa ? json(*vqa) : json(), text,
                     is_caption ? truths : std::vector<std::string>()},
                bytes);
  return bytes;
}

ScoredAnswer ScoredAnswer::unpack(std::string_view bytes) {
  const json values = json::from_cbor(bytes);
  ScoredAnswer one;
  one.picture = values[0], one.is_caption = values[1], one.exact = values[2], one.f1 = values[3];
  if (!values[4].is_null()) one.vqa = values[4].get<double>();
  one.text = values[5];
  one.truths = values[6].get<std::vector<std::string>>();
  return one;
}

void report_answers(const std::vector<ScoredAnswer>& answers, const ReportSink& sink,
                    const std::function<void()>& on_draw) {
  std::vector<Figure> figures{figure_of("exact", answers, [](const ScoredAnswer& one) { return one.exact; }),
                              figure_of("f1", answers, [](const ScoredAnswer& one) { return one.f1; }),
                              figure_of("vqa", answers, [](const ScoredAnswer& one) { return one.vqa; })};
  if (std::ranges::any_of(answers, &ScoredAnswer::is_caption)) add_caption_figures(answers, figures);
  std::string text = "answers       figure        95% interval, over pictures";
  for (const Figure& figure : figures) {
    if (figure.pictures.empty()) continue;
    std::vector<size_t> all(figure.pictures.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    const double value = figure.of(all);
    const std::string name = figure.name;
    const auto of_drawn = [&](std::span<const size_t> drawn) {
      on_draw();
      return std::optional(figure.of(drawn));
    };
    // A share has a formula, which knows that none or all of a few say little: drawing again would not.
    const auto bounds = name == "exact" ? std::optional(intervals::wilson(value, distinct(figure.pictures)))
                                        : intervals::resampled(figure.pictures, of_drawn);
    // The other figures are metrics, which are told anyhow.
    if (name == "vqa" || name == "chrf" || name == "cider_d") sink.figure(name, value, PL_BETTER_HIGHER);
    char line[120];
    std::snprintf(line, sizeof line, "\n  %-9s %10.4f", figure.name, value);
    text += line;
    if (!bounds) continue;
    sink.figure(name + "_low", bounds->low, PL_BETTER_HIGHER);
    sink.figure(name + "_high", bounds->high, PL_BETTER_HIGHER);
    std::snprintf(line, sizeof line, "        %.4f to %.4f", bounds->low, bounds->high);
    text += line;
  }
  sink.text(text);
}

void MajorityAnswers::Counts::add(const std::string& answer) {
  ++all;
  const uint64_t count = ++of[answer];
  if (count > most || (count == most && answer < best)) most = count, best = answer;
}

void MajorityAnswers::add(const std::string& question, const std::string& answer) {
  by_question_[question].add(answer);
  all_.add(answer);
}

const std::string& MajorityAnswers::answer(const std::string& question) const {
  const auto found = by_question_.find(question);
  return found == by_question_.end() ? all_.best : found->second.best;
}

bool MajorityAnswers::is_common(const std::string& question) const {
  constexpr size_t kMost = 32;
  const auto found = by_question_.find(question);
  if (found == by_question_.end()) return false;
  size_t more = 0;
  for (const auto& [other, counts] : by_question_)
    if (counts.all > found->second.all || (counts.all == found->second.all && other < question)) ++more;
  return more < kMost;
}

}  // namespace pipeline::answers
