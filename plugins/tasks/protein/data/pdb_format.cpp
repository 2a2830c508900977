#include <gemmi/pdb.hpp>

#include <algorithm>

#include "plugins/tasks/common/files/error.hpp"
#include "plugins/tasks/protein/data/model_parts.hpp"
#include "plugins/tasks/protein/data/pdb_lines.hpp"

namespace pipeline::protein {
namespace {

#if __has_include(<gemmi/logger.hpp>)  // gemmi 0.7 and later
class LinesStream : public gemmi::AnyStream {
 public:
  explicit LinesStream(PdbLines& lines) : lines_(lines) {}

  char* gets(char* line, int size) override { return lines_.gets(line, size); }
  int getc() override { return lines_.getc(); }
  bool read(void*, size_t) override { return false; }  // this and what follows is for other formats
  bool skip(size_t) override { return false; }
  long tell() override { return 0; }

 private:
  PdbLines& lines_;
};

gemmi::Structure read_structure(PdbLines& lines, const gemmi::PdbReadOptions& options) {
  LinesStream stream(lines);
  return gemmi::read_pdb_from_stream(stream, "", options);
}
#else
// What gemmi::read_pdb() asks of its input; "compressed" is its word for a stream that is not a file.
struct LinesInput {
  PdbLines& lines;
  bool is_stdin() const { return false; }
  bool is_compressed() const { return true; }
  PdbLines& get_uncompressing_stream() const { return lines; }
  std::string path() const { return ""; }
};

gemmi::Structure read_structure(PdbLines& lines, const gemmi::PdbReadOptions& options) { return gemmi::read_pdb(LinesInput{lines}, options); }
#endif

}  // namespace

ModelParts read_pdb_parts(std::string_view text) {
  std::string lines_of_old;
  if (text.find('\n') == std::string_view::npos && text.find('\r') != std::string_view::npos) {  // lines that end as on an old Macintosh
    lines_of_old = text;
    std::replace(lines_of_old.begin(), lines_of_old.end(), '\r', '\n');
    text = lines_of_old;
  }
  PdbLines lines(text);
  gemmi::PdbReadOptions options;
  options.split_chain_on_ter = true;
  gemmi::Structure structure = read_structure(lines, options);
  if (lines.atoms() == 0) throw files::DataError("has no atoms: no ATOM or HETATM records");
  ModelParts model;
  model.parts = std::move(structure.models.at(0).chains);
  model.parents = lines.take_parents();
  model.atoms = lines.atoms();
  model.first_atom = lines.first_atom();
  model.remarks = lines.remarks();
  return model;
}

}  // namespace pipeline::protein
