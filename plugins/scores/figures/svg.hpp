// What tables, reports and pictures in SVG are written with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pipeline::figures {

// A number for tables and reports: so many digits after the point.
std::string decimal(double value, int digits = 3);

std::string xml_escaped(const std::string& text);

// A picture on white ground, up to its elements; "</svg>\n" ends it.
std::string svg_begin(const std::string& width, const std::string& height, const std::string& font_size);

std::string svg_text(const std::string& x, const std::string& y, const std::string& words,
                     const std::string& style = "");

// A table of numbers as a picture (SVG, which browsers show).
struct HeatMap {
  std::string title;
  std::vector<std::string> rows, columns;  // labels
  std::vector<double> values;              // (rows, columns); NaN: grey
  double low = 0, high = 1;                // the ends of the scale; values beyond are drawn as these
  bool from_middle = false;  // colours on both sides of the scale's middle, otherwise from its low end
  std::string low_label, high_label;  // what the ends mean
  int64_t wrap = 0;                   // columns in a line, 0: all
  std::string row_title, column_title;
};

std::string draw(const HeatMap& map);

}  // namespace pipeline::figures
