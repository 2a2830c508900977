#include "plugins/tasks/protein/data/structure_reader.hpp"

#include <algorithm>
#include <new>

#include "plugins/tasks/protein/data/model_parts.hpp"
#include "plugins/tasks/protein/data/protein_chains.hpp"

namespace pipeline::protein {
namespace {

// gemmi quotes lines of the file.
std::string one_line(std::string text) {
  constexpr size_t kMost = 200;
  for (char& c : text) c = c == '\n' || c == '\t' ? ' ' : c >= ' ' && c <= '~' ? c : '?';
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

}  // namespace

Structure parse_structure(std::string_view content, const ReadLimits& limits) try {
  if (content.empty()) throw files::DataError("is empty");
  std::string unpacked;
  const std::string_view text = unpack(content, limits, unpacked);
  if (text.empty()) throw files::DataError("is empty");
  Structure structure = protein_chains(is_cif(text) ? read_cif_parts(text) : read_pdb_parts(text));
  if (structure.chains.empty()) throw files::DataError("has no protein chain");
  return structure;
} catch (const files::DataError&) {
  throw;
} catch (const std::bad_alloc&) {
  throw ReadError("needs more memory than there is");
} catch (const std::exception& error) {
  throw files::DataError("cannot be parsed: " + one_line(error.what()));
}

Structure read_structure(const std::string& path, const ReadLimits& limits) try {
  return parse_structure(read_content(path, limits).bytes, limits);
} catch (const files::DataError& error) {
  throw files::DataError(path + ": " + error.what(), error.code());
}

}  // namespace pipeline::protein
