// Names that tell things apart.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipeline::protein {

// The short name of each thing where no other has it, else its long one; and with a number where even those
// are the same. The result has no two that are equal. Both lists have a name for each thing.
std::vector<std::string> tell_apart(const std::vector<std::string>& short_names,
                                    const std::vector<std::string>& long_names);

// Beginnings of the names of samples' files, a different one for each name: plain, without folders, and not
// longer than a file system takes.
std::vector<std::string> file_names(const std::vector<std::string>& names);

}  // namespace pipeline::protein
