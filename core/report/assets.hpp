// The parts of a page that are built in: page/, and dygraphs, which draws the curves.
#pragma once

#include <string_view>

namespace pipeline::report {

extern const std::string_view kPage, kPageCss, kPageJs, kDygraphCss, kDygraphJs;

}  // namespace pipeline::report
