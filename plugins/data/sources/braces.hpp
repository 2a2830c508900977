#pragma once

#include <string>
#include <vector>

namespace pipeline::sources {

// The names that a name with braces stands for, as in a shell and in WebDataset's lists of archives:
// "shard-{00000..00012}.tar", "{train,extra}.jsonl". Without braces, the name alone. Throws DataError for
// more than a million.
std::vector<std::string> expand_braces(const std::string& name);

}  // namespace pipeline::sources
