// Collections with judgements.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include <pipeline/error.hpp>

#include "plugins/data/files/regular_file.hpp"
#include "plugins/data/files/texts.hpp"
#include "plugins/data/records/label_scale.hpp"
#include "plugins/tasks/embedding/data.hpp"

namespace pipeline::tasks::embedding {
namespace {

namespace fs = std::filesystem;

constexpr const char *kCorpus = "corpus.jsonl", *kQueries = "queries.jsonl";

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

struct Document {
  std::string name, title, text;
};

// Reads a table of texts; `records` counts all that are there.
void read_texts(const fs::path& path, uint64_t max_record_bytes, const std::function<void(Document&&)>& take,
                uint64_t& records, const std::function<void(uint64_t)>& on_block, std::string& drops) {
  records::RecordReport report;
  records::ReadOptions options;
  options.on_block = on_block;
  options.max_record_bytes = max_record_bytes;
  options.remedy = "each line of a collection's files has _id and text, and may have title";
  records::read_table(
      path.string(), sources::Format::kJson,
      {{.name = "_id", .required = true, .takes = records::Column::kTextOrInteger},
       {.name = "title", .may_be_null = true},
       {.name = "text", .required = true}},
      [&](records::Row&& row) {
        ++report.used;
        take({*std::move(row.fields[0]), row.fields[1].value_or(""), *std::move(row.fields[2])});
      },
      report, options);
  records += report.records;
  drops += report.table(path.string());
}

// By query, the documents that it is judged with.
using Judged = std::map<std::string, std::vector<std::pair<std::string, double>>>;
Judged read_judgements(const fs::path& path) {
  Judged judged;
  records::RecordReport report;
  const auto column = [](const char* name) {
    return records::Column{.name = name, .required = true, .takes = records::Column::kValues};
  };
  records::read_table(
      path.string(), sources::Format::kTsv, {column("query-id"), column("corpus-id"), column("score")},
      [&](records::Row&& row) {
        const auto grade = records::label_number(*row.fields[2]);
        if (!grade)
          throw files::DataError(
              concat(path.string(), ":", row.line, ": score = \"", *row.fields[2], "\": must be a number"));
        ++report.used;
        judged[*row.fields[0]].emplace_back(*row.fields[1], *grade);
      },
      report, {.remedy = "the columns of qrels are query-id, corpus-id and score, with tabs between"});
  if (report.used == 0) throw files::DataError(report.nothing_usable(path.string()));
  return judged;
}

}  // namespace

bool is_collection(const std::string& folder) {
  return is_there(fs::path(folder) / kCorpus) && is_there(fs::path(folder) / kQueries);
}

Collection::Collection(std::string of, std::string named) : folder(std::move(of)), split(std::move(named)) {
  if (!is_there(judgements()))
    throw files::DataError(
        concat(judgements(), ": is not there: it says which documents of ", folder,
               " answer which queries, a line \"query-id, corpus-id, score\" each, with tabs"));
  state = files::hash128(files::read_regular(judgements(), uint64_t{1} << 30)).hex();
}

std::string Collection::judgements() const {
  return (fs::path(folder) / "qrels" / (split + ".tsv")).string();
}

stores::TokenReport read_collection(const Collection& collection, const sources::SourceFiles& files,
                                    uint64_t max_record_bytes, const Encoder& encoder,
                                    const files::Hooks& hooks, const stores::TokenSink& add) {
  const fs::path folder = collection.folder;
  const auto judged = read_judgements(collection.judgements());
  std::unordered_map<std::string, std::vector<int32_t>> answers;  // documents that answer a query
  for (const auto& [query, documents] : judged)
    for (const auto& [document, grade] : documents)
      if (grade > 0) answers[document];
  stores::TokenReport report;
  const uint64_t bytes = fs::file_size(folder / kCorpus);
  const auto on_block = [&](uint64_t done) {
    hooks.throw_if_cancelled();
    hooks.report(std::min(done, bytes), bytes);
  };
  std::vector<std::string> documents;
  std::set<std::string> names;
  uint64_t repeated = 0;
  read_texts(
      folder / kCorpus, max_record_bytes,
      [&](Document&& one) {
        if (!names.insert(one.name).second) {
          ++repeated;
          return;
        }
        std::string text(files::trimmed(one.title.empty() ? one.text : one.title + " " + one.text));
        std::vector<int32_t> tokens = encoder.of_passage(text);
        documents.push_back(pack({.name = one.name,
                                  .text = std::move(text),
                                  .positives = {},
                                  .negatives = {},
                                  .score = {},
                                  .keys = {files::hash128(one.name)},
                                  .judgements = {},
                                  .documents = 0},
                                 tokens, {}, encoder.vocabulary_size, /*is_judged=*/true));
        if (const auto found = answers.find(one.name); found != answers.end())
          found->second = std::move(tokens);
      },
      report.records, on_block, report.drops);
  uint64_t unanswered = 0, unknown = 0;
  std::set<std::string> asked;
  std::vector<std::string> queries;
  read_texts(
      folder / kQueries, max_record_bytes,
      [&](Document&& one) {
        const auto found = judged.find(one.name);
        if (found == judged.end()) return;  // of another split
        if (!asked.insert(one.name).second) {
          ++repeated;
          return;
        }
        Facts facts{.name = one.name, .text = one.text};
        const std::vector<int32_t>* answer = nullptr;
        for (const auto& [document, grade] : found->second) {
          facts.judgements.push_back({files::hash128(document), grade});
          unknown += names.contains(document) ? 0 : 1;
          const auto text = answers.find(document);
          if (grade <= 0 || answer != nullptr || text == answers.end() || text->second.empty()) continue;
          answer = &text->second;
          facts.keys = {files::hash128(one.name), files::hash128(document)};
        }
        if (answer == nullptr) {
          ++unanswered;
          return;
        }
        facts.positives = {static_cast<uint32_t>(answer->size())};
        facts.documents = names.size();
        queries.push_back(
            pack(facts, encoder.of_query(one.text), {*answer}, encoder.vocabulary_size, /*is_judged=*/true));
      },
      report.records, on_block, report.drops);
  sources::check_unchanged(files);
  if (queries.empty())
    throw files::DataError(concat(collection.judgements(), ": no query of ", (folder / kQueries).string(),
                                  " has a document of ", kCorpus, " with a score above 0"));
  report.notes = concat(folder.string(), ": ", queries.size(), queries.size() == 1 ? " query" : " queries",
                        " of ", collection.split, ", ", files::counted(documents.size(), "document"), "\n");
  if (unanswered > 0) report.notes += concat(unanswered, " more left out, which no document answers\n");
  if (repeated > 0) report.notes += concat(repeated, " left out whose _id was there before\n");
  if (unknown > 0)
    report.notes += concat(unknown, " judgements passed over, of documents that are not in ", kCorpus, "\n");
  if (judged.size() > asked.size())
    report.notes += concat(judged.size() - asked.size(), " judged queries passed over, which are not in ",
                           kQueries, "\n");
  report.used = queries.size() + documents.size();
  for (auto* list : {&queries, &documents})
    for (std::string& sample : *list) {
      hooks.throw_if_cancelled();
      add(std::move(sample));
    }
  return report;
}

}  // namespace pipeline::tasks::embedding
