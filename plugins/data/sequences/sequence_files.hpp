#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/records/table.hpp"
#include "plugins/data/sources/source_files.hpp"

namespace pipeline::sequences {

using records::ReadOptions;
using records::SourceReport;

// What the columns of a table are called. FASTA and Stockholm have the first two alone.
struct Columns {
  std::string sequence = "sequence", id = "id";
  std::vector<std::string> others;  // names, text or numbers
  std::string listed = {};          // the one of `others` that may have lists, a value for each residue
};

// A sequence as a record has it.
struct Sequence {
  std::string_view name;                               // valid UTF-8: the first word of FASTA's header line
  std::span<const uint8_t> codes;                      // see residue_letters.hpp; at least one
  std::span<const std::optional<std::string>> others;  // of the columns; empty for FASTA and Stockholm
};

// Reads the sequences of a source, one after another. Records that are no sequences are dropped and counted
// in `report`, as records::read_table() does; oddities that change nothing but how letters are read are notes
// there. Memory is that of a record, and of an alignment in Stockholm format. Throws DataError where a file
// cannot be read, or where its letters are those of nucleic acids.
//
// FASTA: Pearson 1988, with ">" lines and, of old, ";" lines, which are passed over. Stockholm: as Pfam and
// HMMER write it, in one block or several, one alignment or several.
void read_sequences(const sources::SourceFiles& source, const Columns& columns,
                    const std::function<void(const Sequence&)>& sink, SourceReport& report,
                    const ReadOptions& options);

}  // namespace pipeline::sequences
