// What tables, reports and pictures in SVG are written with.
#pragma once

#include <string>

namespace pipeline::figures {

// A number for tables and reports: so many digits after the point.
std::string decimal(double value, int digits = 3);

std::string xml_escaped(const std::string& text);

// A picture on white ground, up to its elements; "</svg>\n" ends it.
std::string svg_begin(const std::string& width, const std::string& height, const std::string& font_size);

std::string svg_text(const std::string& x, const std::string& y, const std::string& words,
                     const std::string& style = "");

}  // namespace pipeline::figures
