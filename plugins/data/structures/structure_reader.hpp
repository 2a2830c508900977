#pragma once

#include <string>
#include <string_view>

#include "plugins/data/structures/file_content.hpp"
#include "plugins/data/structures/structure.hpp"

namespace pipeline::structures {

// To be raised whenever the same file gives other residues: what was parsed before is then parsed again.
constexpr uint32_t kParserVersion = 2;

// The protein chains (protein_chains.hpp) of the first model in the content of a PDB or mmCIF file, plain or
// packed with gzip: what it is decides, not its name. Throws DataError with a reason of one line that does
// not name the file. [any-thread]
Structure parse_structure(std::string_view content, const ReadLimits& limits);

// parse_structure() for what unpack() gave, and about how many bytes of memory it takes besides the text.
Structure parse_text(std::string_view text);
uint64_t memory_to_parse(std::string_view text);

// parse_structure() for a file; the error starts with its path.
Structure read_structure(const std::string& path, const ReadLimits& limits);

}  // namespace pipeline::structures
