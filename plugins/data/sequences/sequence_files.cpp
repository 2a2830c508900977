#include "plugins/data/sequences/sequence_files.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "core/json/strict_json.hpp"
#include "plugins/data/files/unique_names.hpp"
#include "plugins/data/records/input.hpp"
#include "plugins/data/records/pairs.hpp"
#include "plugins/data/records/record_texts.hpp"
#include "plugins/data/residues/residue_letters.hpp"

namespace pipeline::sequences {
namespace {

using files::DataError;
using records::DropReason;
using records::Input;
using records::RecordReport;
using sources::Format;

constexpr uint64_t kMostAlignment = uint64_t{1} << 30;  // bytes of one in Stockholm format

// What the readers of all formats share: letters in, sequences out, oddities counted.
class Taker {
 public:
  Taker(const std::string& path, const std::function<void(const Sequence&)>& sink, RecordReport& report,
        const ReadOptions& options)
      : path_(path), sink_(sink), report_(report), most_(options.max_record_bytes) {}

  void begin(uint64_t line) {
    report_.begin_record(line);
    clear();
  }
  void clear() {
    letters_.clear();
    is_too_long_ = false;
  }
  void add(std::string_view letters) {
    is_too_long_ = is_too_long_ || letters_.codes().size() + letters.size() > most_;
    if (!is_too_long_) letters_.add(letters);
  }
  void end(std::string_view name, std::span<const std::optional<std::string>> others = {}) {
    if (is_too_long_)
      return report_.add_drop(DropReason::kTooLong, "over " + std::to_string(most_) + " letters");
    if (std::string problem = letters_.problem(); !problem.empty())
      return report_.add_drop(DropReason::kNoSequence, strict_json::excerpt(name), problem);
    ++report_.used;
    for (size_t i = 0; i < odd_.size(); ++i) odd_[i] += (letters_.oddities() >> i) & 1;
    residues_ += letters_.codes().size();
    may_be_nucleic_ = may_be_nucleic_ && letters_.may_be_nucleic();
    const std::string numbered = name.empty() ? "sequence" + std::to_string(report_.records) : "";
    unnamed_ += name.empty() ? 1 : 0;
    const std::string valid = files::utf8_name(name.empty() ? numbered : name);
    sink_({.name = valid, .codes = letters_.codes(), .others = others});
  }

  void tell() {
    const auto note = [&](uint64_t count, const std::string& what) {
      if (count > 0)
        report_.notes.push_back(std::to_string(count) + (count == 1 ? " sequence has " : " sequences have ") +
                                what);
    };
    note(odd_[0], "small letters, which are read as capitals");
    note(odd_[1], "gaps, which are left out");
    note(odd_[2], "a stop (*) at the end, which is left out");
    note(odd_[3], "J (leucine or isoleucine), which is read as X");
    note(unnamed_, "no name: sequence1, sequence2, ... by their place in the file");
  }

  // Refuses letters of nucleic acids, which alone make up nobody's proteins.
  void require_proteins() const {
    constexpr uint64_t kEnough = 200;
    if (residues_ >= kEnough && may_be_nucleic_)
      throw DataError(path_ + ": all its " + std::to_string(residues_) +
                      " letters are A, C, G, T, U and N: these are nucleic acids: translate them into "
                      "proteins first");
  }

 private:
  const std::string& path_;
  const std::function<void(const Sequence&)>& sink_;
  RecordReport& report_;
  uint64_t most_, unnamed_ = 0, residues_ = 0;
  residues::ResidueLetters letters_;
  bool is_too_long_ = false, may_be_nucleic_ = true;
  std::array<uint64_t, 4> odd_{};  // by bit of Oddity
};

// The lines of a file, piece by piece where they are long.
class Lines {
 public:
  explicit Lines(Input& input) : input_(input) {}

  // The next piece, which is the line's last one where is_end(); nullopt at the end of the file.
  std::optional<std::string_view> next() {
    is_start_ = is_end_;
    number_ += is_start_ ? 1 : 0;
    input_.advance(std::exchange(taken_, 0));
    const std::string_view block = input_.ahead();
    if (block.empty()) return std::nullopt;
    const auto* end = static_cast<const char*>(std::memchr(block.data(), '\n', block.size()));
    is_end_ = end != nullptr;
    const size_t length = is_end_ ? static_cast<size_t>(end - block.data()) : block.size();
    taken_ = length + (is_end_ ? 1 : 0);
    const std::string_view piece = block.substr(0, length);
    if (const size_t at = piece.find('\r'); at < length && piece.find_first_not_of('\r', at) < length)
      throw DataError(input_.path() + ":" + std::to_string(number_) +
                      ": has a carriage return (CR) within a line, as where lines end as on old Macs: write "
                      "it again (tr '\\r' '\\n' < FILE > NEW)");
    return piece;
  }
  bool is_start() const { return is_start_; }
  uint64_t number() const { return number_; }

 private:
  Input& input_;
  size_t taken_ = 0;
  uint64_t number_ = 0;
  bool is_start_ = true, is_end_ = true;
};

std::string_view first_word(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r"), text.size()));
  return text.substr(0, text.find_first_of(" \t\r\n"));
}

void read_fasta(Input& input, Taker& taker) {
  constexpr size_t kMostHeader = size_t{1} << 16;  // more of it is not looked at
  enum { kNothing, kHeader, kComment, kBody } in = kNothing;
  bool has_record = false;
  std::string header;
  Lines lines(input);
  while (const auto piece = lines.next()) {
    if (lines.is_start()) {
      const char first = piece->empty() ? '\0' : piece->front();
      if (first == '>') {
        if (has_record) taker.end(first_word(header));
        taker.begin(lines.number());
        has_record = true;
        header.assign(piece->substr(1));
        in = kHeader;
        continue;
      }
      in = first == ';' ? kComment : kBody;
    }
    if (in == kHeader && header.size() < kMostHeader) header += *piece;
    if (in != kBody) continue;
    if (has_record)
      taker.add(*piece);
    else if (!records::is_blank(*piece))
      throw DataError(input.path() + ":" + std::to_string(lines.number()) +
                      ": there is text before the first record: FASTA has a line \">NAME\" above each "
                      "sequence");
  }
  if (has_record) taker.end(first_word(header));
}

// Alignments one after another, each in one block of lines or several.
void read_stockholm(Input& input, Taker& taker) {
  struct Aligned {
    std::string name, letters;
    uint64_t line;
  };
  std::vector<Aligned> all;
  std::unordered_map<std::string, size_t> places;  // by name
  uint64_t bytes = 0;
  const auto finish = [&] {
    for (const Aligned& one : all) {
      taker.begin(one.line);
      taker.add(one.letters);
      taker.end(one.name);
    }
    all.clear();
    places.clear();
    bytes = 0;
  };
  std::string line;
  Lines lines(input);
  uint64_t number = 0;
  const auto take = [&] {
    if (line.starts_with("//")) return finish();
    const std::string_view name = first_word(line);
    if (line.starts_with('#') || name.empty()) return;
    const auto at = static_cast<size_t>(name.data() + name.size() - line.data());
    const std::string_view letters = std::string_view(line).substr(at);
    if (first_word(letters).empty())
      throw DataError(input.path() + ":" + std::to_string(number) + ": " + strict_json::excerpt(line) +
                      " must be a name and its letters");
    bytes += line.size();
    if (bytes > kMostAlignment)
      throw DataError(input.path() + ": an alignment is larger than " + std::to_string(kMostAlignment >> 20) +
                      " MiB, which must be in memory: convert it to FASTA (esl-reformat fasta FILE)");
    const auto [place, is_new] = places.emplace(std::string(name), all.size());
    if (is_new) all.push_back({std::string(name), {}, number});
    all[place->second].letters += letters;
  };
  while (const auto piece = lines.next()) {
    if (lines.is_start()) {
      take();
      line.clear();
      number = lines.number();
    }
    line += *piece;
  }
  take();
  finish();
}

// Refuses FASTA and Stockholm, since a table begins with neither.
void require_table(const std::string& path, Format format) {
  if (format == Format::kParquet) return;
  Input input(path, nullptr);
  if (const auto known = sources::format_that_begins(input.ahead()))
    throw DataError(path + ": begins as " +
                    (*known == Format::kFasta ? "FASTA does, with \">\": its name must end in .fasta"
                                              : "Stockholm does: its name must end in .sto"));
}

void read_rows(const std::string& path, Format format, const Columns& columns, Taker& taker,
               RecordReport& report, const ReadOptions& options) {
  using Column = records::Column;
  std::vector<Column> wanted = {{.name = columns.sequence, .required = true},
                                {.name = columns.id, .takes = Column::kTextOrInteger}};
  for (const std::string& name : columns.others)
    wanted.push_back({.name = name, .takes = name == columns.listed ? Column::kLists : Column::kValues});
  records::read_table(
      path, format, wanted,
      [&](records::Row&& row) {
        taker.clear();
        taker.add(*row.fields[0]);
        taker.end(row.fields[1].value_or(""), std::span(row.fields).subspan(2));
      },
      report, options);
}

}  // namespace

void read_sequences(const sources::SourceFiles& source, const Columns& columns,
                    const std::function<void(const Sequence&)>& sink, SourceReport& report,
                    const ReadOptions& options) {
  records::read_tables(
      source, options, report,
      [&](const std::string& path, RecordReport& of_file, const ReadOptions& with_progress) {
        Taker taker(path, sink, of_file, with_progress);
        if (source.format == Format::kFasta || source.format == Format::kStockholm) {
          Input input(path, with_progress.on_block);
          source.format == Format::kFasta ? read_fasta(input, taker) : read_stockholm(input, taker);
        } else {
          require_table(path, source.format);
          std::string note;
          if (path == source.paths.front()) {
            std::vector<std::string> used{columns.sequence, columns.id};
            used.insert(used.end(), columns.others.begin(), columns.others.end());
            note = records::note_of_unused(
                records::column_names(path, source.format, used, with_progress.on_block), used);
          }
          read_rows(path, source.format, columns, taker, of_file, with_progress);
          if (!note.empty()) of_file.notes.push_back(note);
        }
        taker.tell();
        taker.require_proteins();
      });
}

}  // namespace pipeline::sequences
