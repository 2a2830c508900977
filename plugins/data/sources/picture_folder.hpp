#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipeline::sources {

std::string in_small_letters(std::string_view text);  // changes ASCII letters alone

// Whether the ending of its name is a picture's.
bool is_picture(std::string_view name);

// The files of a folder in which pictures have texts of their names beside them (cat.jpg and cat.txt,
// cat.caption or cat.json), by name; nothing where it has none, or other files that can be read as records.
std::vector<std::string> pictures_with_texts(const std::string& folder);

}  // namespace pipeline::sources
