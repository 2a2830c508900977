// A document of this project, and what in it can be tested.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <test_paths.hpp>

#include "tests/e2e/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pipeline::tests {

inline const std::filesystem::path kRoot = PIPELINE_SOURCE_DIR;

// docs/*.md, relative to the root.
Words guides();

// The text of each ```LANGUAGE block.
Words blocks(const std::string& markdown, const std::string& language);

// Every match's first group.
Words matches(const std::string& text, const char* pattern);

// The places that links into the document may name, as GitHub makes them of its headings.
Words anchors(const std::string& markdown);

struct Row {
  Words first, others;  // what stands in backquotes in the first cell, and in the others
};
std::vector<Row> table_rows(const std::string& markdown);

// The commands of ```sh blocks that start the program, as its arguments: `scripts/pipeline ARGUMENTS` and
// `scripts/launch/NAME ARGUMENTS of run`. Comments, and variables before a command, are cut off.
std::vector<Words> commands(const std::string& markdown);

// The folder of another tool that a run may begin with, as far as `check` reads it: it has no tensors.
void write_model(const std::filesystem::path& folder, const std::string& config);

// The checkout as a reader has it, with a run and models of theirs and with what the document shows: each
// ```toml block whose first line is `# NAME.toml` is that file.
class Checkout {
 public:
  explicit Checkout(const std::string& markdown);
  const std::filesystem::path& path() const { return folder_.path(); }
  // `scripts/pipeline ARGUMENTS`, once all is built.
  Result run(Words arguments) const;
  Result run_script(const std::string& script) const;

 private:
  // The files and folders of data that a text names; in a folder is an empty text.
  void write_data(const std::string& text) const;

  TemporaryFolder folder_;
};

}  // namespace pipeline::tests
