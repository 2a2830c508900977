#include "plugins/tasks/vlm/answer_figures.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include <pipeline/error.hpp>

#include "plugins/data/files/hash128.hpp"
#include "plugins/scores/answers/answer_score.hpp"
#include "plugins/scores/intervals/interval.hpp"

namespace pipeline::tasks::vlm {
namespace {

using nlohmann::json;

uint64_t picture_of(const Conversation& conversation) {
  if (conversation.images.empty()) return files::hash128(conversation.turns[0].text).low;
  std::string all;
  for (const messages::Picture& picture : conversation.images)
    all += picture.name + '\0' + picture.bytes + '\0';
  return files::hash128(all).low;
}

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
  std::vector<answers::WrittenCaption> captions;
  std::vector<answers::ChrfCounts> counts;
  std::vector<uint64_t> pictures;
  for (const ScoredAnswer& one : answers) {
    if (!one.is_caption) continue;
    captions.push_back({.text = one.text, .truths = one.truths});
    counts.push_back(answers::chrf_counts(one.truths, one.text));
    pictures.push_back(one.picture);
  }
  figures.push_back({"chrf", pictures, [counts = std::move(counts)](std::span<const size_t> drawn) {
                       answers::ChrfCounts sum;
                       for (const size_t i : drawn) answers::add(sum, counts[i]);
                       return answers::chrf(sum);
                     }});
  figures.push_back(mean_figure("cider_d", std::move(pictures), answers::cider_d(captions)));
}

}  // namespace

std::vector<std::string> truths_of(const Conversation& conversation) {
  if (!conversation.answers.empty()) return conversation.answers;
  return {conversation.turns[1].text};
}

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

ScoredAnswer::ScoredAnswer(const Conversation& conversation, bool caption, const std::string& written)
    : picture(picture_of(conversation)), is_caption(caption), truths(truths_of(conversation)) {
  const answers::AnswerScore score = answers::score_answer(truths, written);
  exact = score.exact, f1 = score.f1;
  if (is_caption)
    text = written;
  else if (truths.size() > 1)
    vqa = answers::vqa_accuracy(truths, written);
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

}  // namespace pipeline::tasks::vlm
