#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plugins/data/residues/alphabet.hpp"
#include "plugins/data/sequences/sequence_files.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::sequences {

struct Read {
  std::vector<std::string> names, letters;  // letters: of the residues
  std::vector<std::vector<std::optional<std::string>>> others;
  records::RecordReport report;  // of the first file
};

inline Read read_named(const std::string& named, const Columns& columns = {},
                       const ReadOptions& options = {}) {
  Read read;
  SourceReport report;
  read_sequences(
      sources::find(named, sources::Content::kSequences), columns,
      [&](const Sequence& sequence) {
        read.names.emplace_back(sequence.name);
        read.letters.emplace_back();
        for (const uint8_t code : sequence.codes) read.letters.back() += residues::letter_of(code);
        read.others.emplace_back(sequence.others.begin(), sequence.others.end());
      },
      report, options);
  read.report = report.files.at(0).report;
  return read;
}

inline Read read_text(const std::string& name, const std::string& text, const Columns& columns = {},
                      const ReadOptions& options = {}) {
  const tests::FilesFolder folder;
  return read_named(folder.write(name, text), columns, options);
}

inline std::string error_of(const std::string& name, const std::string& text) {
  const tests::FilesFolder folder;
  const auto path = folder.write(name, text);
  const auto message = tests::message_of<files::DataError>([&] { read_named(path); });
  return message.starts_with(folder.path() + "/") ? message.substr(folder.path().size() + 1) : message;
}

}  // namespace pipeline::sequences
