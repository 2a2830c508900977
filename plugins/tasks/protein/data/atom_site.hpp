#pragma once

#include <gemmi/cifdoc.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "plugins/tasks/protein/data/model_parts.hpp"

namespace pipeline::protein {

// The columns of mmCIF's _atom_site that are read, as gemmi is asked for them.
const std::vector<std::string>& atom_site_columns();

// Puts the first model of such a table into `model`. Throws DataError where columns are missing.
void read_atom_site(gemmi::cif::Table& table, ModelParts& model);

// A value of a CIF file without its quotes; empty for "." and "?".
std::string_view plain(std::string_view raw);

}  // namespace pipeline::protein
