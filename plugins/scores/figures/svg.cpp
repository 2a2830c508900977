#include "plugins/scores/figures/svg.hpp"

#include <cstdio>

namespace pipeline::figures {

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

}  // namespace pipeline::figures
