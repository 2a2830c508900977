// Texts by themselves, as options: of tasks that learn from documents.
#pragma once

#include <pipeline/options.hpp>

#include <cstdint>
#include <string>

#include "plugins/data/records/pair_source.hpp"
#include "plugins/data/sources/source_options.hpp"

namespace pipeline::tasks::text {

struct DocumentOptions : sources::SplitOptions {
  std::string text_column = "text", id_column, document = "file", quotes = "auto";
  int64_t max_record_bytes = 16 << 20;

  DocumentOptions() { content = sources::Content::kTexts; }
  void describe(Options& o) {
    o("train", train,
      "texts to learn from: plain text, or JSON, Parquet, CSV or TSV with a column of texts; a file, a "
      "folder with all below it, or a pattern such as books/*.txt");
    o.group("source", source);
    describe_others(
        o,
        "in place of val: this share of the documents of train is evaluated and not learnt from; chosen by a "
        "hash of each, so that equal ones stay together",
        "the same, to evaluate or predict at the end; empty: none");
    o("text_column", text_column, "column of the texts; plain text has none");
    o("id_column", id_column, "column of the id; empty: `id` if present, else records are numbered");
    o("document", document,
      "what a document is in plain text: the file, each line, or what blank lines divide; a record of JSON "
      "and the like is one")
        .choices({"file", "line", "paragraph"});
    o("quotes", quotes, records::kQuotesHelp).choices({"auto", "csv", "text"});
    o("max_record_bytes", max_record_bytes, "longer records are dropped; not so whole files of plain text")
        .unit("bytes")
        .min(1024)
        .max(64 << 20);
  }
  records::PairSource source_of(const sources::SourceFiles& files, const files::SplitPart& part) const;
};

}  // namespace pipeline::tasks::text
