#include "plugins/scores/figures/svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace pipeline::figures {
namespace {

constexpr int kCell = 14, kLeft = 60, kTop = 46, kGap = 40, kLegend = 200, kColors = 32;

using Stops = std::array<std::array<double, 3>, 5>;

// Colours from dark blue over white to dark red, or from white to dark blue; lightness changes evenly, so
// that it reads in grey, too.
constexpr Stops kBothSides{{{33, 62, 125}, {120, 160, 210}, {247, 247, 247}, {226, 140, 105}, {140, 25, 35}}};
constexpr Stops kOneSide{{{247, 250, 253}, {190, 210, 235}, {120, 160, 210}, {65, 105, 170}, {20, 40, 95}}};
constexpr const char* kNoValue = "#c8c8c8";

std::string color(const Stops& stops, double share) {
  const double at = std::clamp(share, 0.0, 1.0) * (stops.size() - 1);
  const auto left = std::min(static_cast<size_t>(at), stops.size() - 2);
  const double t = at - static_cast<double>(left);
  char text[8];
  const auto mix = [&](size_t c) {
    return static_cast<int>(std::lround(stops[left][c] * (1 - t) + stops[left + 1][c] * t));
  };
  std::snprintf(text, sizeof text, "#%02x%02x%02x", static_cast<unsigned>(mix(0)) & 255u,
                static_cast<unsigned>(mix(1)) & 255u, static_cast<unsigned>(mix(2)) & 255u);
  return text;
}

class Drawing {
 public:
  explicit Drawing(const HeatMap& map) : map_(map), columns_(static_cast<int64_t>(map.columns.size())) {
    line_ = map.wrap > 0 ? std::min(map.wrap, columns_) : columns_;
    lines_ = line_ > 0 ? (columns_ + line_ - 1) / line_ : 0;
    height_ = static_cast<int64_t>(map.rows.size()) * kCell + kGap;
  }

  std::string draw() {
    const int64_t width = kLeft + std::max<int64_t>(line_ * kCell, kLegend + 200) + 20,
                  height = kTop + lines_ * height_ + 50;
    svg_ = svg_begin(number(width), number(height), "10");
    text(kLeft, 18, map_.title, "font-size=\"14\"");
    text(kLeft, 34, map_.column_title, "fill=\"#555\"");
    if (!map_.row_title.empty()) text(6, 34, map_.row_title, "fill=\"#555\"");
    for (int64_t line = 0; line < lines_; ++line) draw_line(line);
    legend(kTop + lines_ * height_);
    return svg_ + "</svg>\n";
  }

 private:
  std::string color_of(double share) const { return color(map_.from_middle ? kBothSides : kOneSide, share); }
  static std::string number(int64_t n) { return std::to_string(n); }

  void text(int64_t x, int64_t y, const std::string& words, const std::string& style = "") {
    svg_ += svg_text(number(x), number(y), words, style);
  }

  // One path for all cells of a colour: a picture of thousands of cells stays small.
  void draw_line(int64_t line) {
    const int64_t first = line * line_, count = std::min(line_, columns_ - first),
                  top = kTop + line * height_ + 14;
    std::array<std::string, kColors + 2> paths;  // the last one: no value
    for (size_t r = 0; r < map_.rows.size(); ++r) {
      text(kLeft - 6, top + static_cast<int64_t>(r) * kCell + 11, map_.rows[r], "text-anchor=\"end\"");
      for (int64_t c = 0; c < count; ++c) {
        const double value = map_.values[r * static_cast<size_t>(columns_) + static_cast<size_t>(first + c)];
        const double share = std::clamp((value - map_.low) / (map_.high - map_.low), 0.0, 1.0);
        paths[std::isnan(value) ? kColors + 1 : static_cast<size_t>(std::lround(share * kColors))] +=
            "M" + number(kLeft + c * kCell) + " " + number(top + static_cast<int64_t>(r) * kCell) +
            "h13v13h-13z";
      }
    }
    for (size_t k = 0; k < paths.size(); ++k)
      if (!paths[k].empty())
        svg_ += "<path fill=\"" + (k > kColors ? kNoValue : color_of(static_cast<double>(k) / kColors)) +
                "\" d=\"" + paths[k] + "\"/>\n";
    const int64_t longest = static_cast<int64_t>(
        std::max_element(map_.columns.begin(), map_.columns.end(), [](const auto& a, const auto& b) {
          return a.size() < b.size();
        })->size());
    const int64_t every = longest <= 2 ? 1 : 5;  // labels that are wider than a cell
    for (int64_t c = 0; c < count; c += every)
      text(kLeft + c * kCell + (longest <= 2 ? 7 : 0), top - 4, map_.columns[static_cast<size_t>(first + c)],
           longest <= 2 ? "text-anchor=\"middle\"" : "");
  }

  void legend(int64_t y) {
    for (int k = 0; k <= kColors; ++k)
      svg_ += "<rect x=\"" + number(kLeft + k * kLegend / (kColors + 1)) + "\" y=\"" + number(y) +
              "\" width=\"7\" height=\"12\" fill=\"" + color_of(static_cast<double>(k) / kColors) + "\"/>\n";
    text(kLeft, y + 26, map_.low_label);
    text(kLeft + kLegend, y + 26, map_.high_label);
  }

  const HeatMap& map_;
  int64_t columns_, line_ = 0, lines_ = 0, height_;
  std::string svg_;
};

}  // namespace

std::string decimal(double value, int digits) {
  std::string text(static_cast<size_t>(std::snprintf(nullptr, 0, "%.*f", digits, value)) + 1, '\0');
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  text.pop_back();
  return text;
}

std::string xml_escaped(const std::string& text) {
  std::string result;
  for (const char c : text)
    result += c == '<'   ? "&lt;"
              : c == '>' ? "&gt;"
              : c == '&' ? "&amp;"
              : c == '"' ? "&quot;"
                         : std::string(1, c);
  return result;
}

std::string svg_begin(const std::string& width, const std::string& height, const std::string& font_size) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" + height +
         "\" viewBox=\"0 0 " + width + " " + height + "\" font-family=\"sans-serif\" font-size=\"" +
         font_size + "\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
}

std::string svg_text(const std::string& x, const std::string& y, const std::string& words,
                     const std::string& style) {
  return "<text x=\"" + x + "\" y=\"" + y + "\" " + style + ">" + xml_escaped(words) + "</text>\n";
}

std::string draw(const HeatMap& map) { return Drawing(map).draw(); }

}  // namespace pipeline::figures
