#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plugins/data/records/pairs.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::records {

struct Read {
  std::vector<Pair> pairs;
  RecordReport report;
};

// Everything in the file; what read_pairs throws goes through.
inline Read read_file(const std::string& path, const Columns& columns = {}, const ReadOptions& options = {}) {
  Read read;
  SourceReport report;
  read_pairs(
      sources::find(path), columns,
      [&](Pair&& pair, const std::string&) { read.pairs.push_back(std::move(pair)); }, report, options);
  read.report = report.files.at(0).report;
  return read;
}

// Everything in a file with this text; what read_pairs throws goes through.
inline Read read_text(const std::string& name, const std::string& text, const Columns& columns = {},
                      const ReadOptions& options = {}) {
  const tests::FilesFolder folder;
  return read_file(folder.write(name, text), columns, options);
}

// The first drop for this reason, of one subject; an empty one if there is none.
inline const Drop& drop(const Read& read, DropReason reason) {
  static const Drop none;
  for (const Drop& one : read.report.drops)
    if (one.reason == reason) return one;
  return none;
}

// The error that reading this text ends in.
inline std::string error_of(const std::string& name, const std::string& text, const Columns& columns = {}) {
  const tests::FilesFolder folder;
  const auto path = folder.write(name, text);
  const auto message = tests::message_of<DataError>([&] { read_file(path, columns); });
  return message.starts_with(folder.path() + "/") ? message.substr(folder.path().size() + 1) : message;
}

}  // namespace pipeline::records
