#include "plugins/scores/answers/answer_page.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "plugins/scores/figures/svg.hpp"

namespace pipeline::answers {
namespace {

using nlohmann::json;

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; }
body { font: 15px/1.4 system-ui, sans-serif; margin: 1.5rem auto; max-width: 1200px; padding: 0 1rem;
  background: light-dark(#fafafa, #16181c); color: light-dark(#1a1a1a, #e6e6e6); overflow-wrap: anywhere; }
main { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(min(17rem, 100%), 1fr)); }
article { border: 1px solid light-dark(#d8d8d8, #3a3d44); border-left-width: 5px; border-radius: 6px;
  padding: .8rem; background: light-dark(#fff, #1f2228); }
article.right { border-left-color: light-dark(#1f8a4c, #46c27e); }
article.wrong { border-left-color: light-dark(#c0392b, #ef7d70); }
img { width: 8rem; height: 8rem; object-fit: contain; image-rendering: pixelated; background: #fff;
  border-radius: 4px; display: block; margin-bottom: .5rem; }
.id { font-size: .75rem; opacity: .65; }
dl { margin: .3rem 0 0; display: grid; grid-template-columns: max-content 1fr; gap: .15rem .7rem; }
dl div { display: contents; }
dt { opacity: .65; } dd { margin: 0; white-space: pre-wrap; }
main.compared { grid-template-columns: 1fr; }
.compared dl { display: flex; flex-wrap: wrap; gap: .6rem 1.2rem; }
.compared dl div { display: block; flex: 1 1 13rem; }
.compared dl div:first-child { flex-basis: 100%; }
)";

constexpr const char* kRecord = "answer";

std::string base64(std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t three = 0;
    for (size_t k = 0; k < 3; ++k)
      three = three << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) out += k <= count ? kDigits[three >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::string escaped(const std::string& text) {
  return text.empty() ? "(nothing)" : figures::xml_escaped(text);
}

}  // namespace

std::string ShownAnswer::pack() const {
  json files = json::array();
  for (const std::string& picture : pictures) files.push_back(json::binary({picture.begin(), picture.end()}));
  const json values{id, files, texts, right ? json(*right) : json()};
  std::string bytes;
  json::to_cbor(values, bytes);
  return bytes;
}

ShownAnswer ShownAnswer::unpack(std::string_view bytes) {
  const json values = json::from_cbor(bytes);
  ShownAnswer shown{.id = values[0], .pictures = {}, .texts = values[2]};
  for (const json& file : values[1]) {
    const auto& picture = file.get_binary();
    shown.pictures.emplace_back(picture.begin(), picture.end());
  }
  if (values[3].is_boolean()) shown.right = values[3].get<bool>();
  return shown;
}

void show(uint64_t id, const ShownAnswer& shown, const EvaluationSink& sink) {
  sink.record(id, kRecord, shown.pack());
}

void report_shown(const Report& report, const std::string& title, const ReportSink& sink) {
  std::vector<ShownAnswer> shown;
  for (const EvaluationRecord& record : report.records)
    if (record.key == kRecord) shown.push_back(ShownAnswer::unpack(record.bytes));
  if (!shown.empty()) sink.file("answers.html", answer_page(shown, title));
}

std::string answer_page(const std::vector<ShownAnswer>& answers, const std::string& title) {
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>" +
      escaped(title) + "</title><style>" + kStyle + "</style></head><body><h1>" + escaped(title) +
      "</h1>\n<p>";
  const bool are_compared =
      std::ranges::none_of(answers, [](const ShownAnswer& one) { return one.right.has_value(); });
  if (!are_compared)
    page += std::to_string(std::ranges::count(answers, std::optional(true), &ShownAnswer::right)) +
            " of these " + std::to_string(answers.size()) + " are right.</p>\n<main>\n";
  else
    page += std::to_string(answers.size()) + " questions.</p>\n<main class=\"compared\">\n";
  for (const ShownAnswer& shown : answers) {
    page += shown.right ? std::string("<article class=\"") + (*shown.right ? "right" : "wrong") + "\">"
                        : "<article>";
    for (const std::string& picture : shown.pictures)
      page += "<img alt=\"picture of " + escaped(shown.id) + "\" src=\"data:image/png;base64," +
              base64(picture) + "\">";
    page += "<div class=\"id\">" + escaped(shown.id) + "</div><dl>";
    for (const auto& [what, text] : shown.texts)
      page += "<div><dt>" + escaped(what) + "</dt><dd>" + escaped(text) + "</dd></div>";
    page += "</dl></article>\n";
  }
  return page + "</main></body></html>\n";
}

}  // namespace pipeline::answers
