#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipeline::sources {

std::string in_small_letters(std::string_view text);  // of ASCII

// By the ending of its name.
bool is_picture(std::string_view name);

// Of a folder in which pictures have texts of their names beside them (cat.jpg and cat.txt, cat.caption or
// cat.json), these and the pictures by name; nothing where it has none, or other files that can be read as
// records.
std::vector<std::string> pictures_with_texts(const std::string& folder);

}  // namespace pipeline::sources
