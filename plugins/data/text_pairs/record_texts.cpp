#include "plugins/data/text_pairs/record_texts.hpp"

#include "plugins/data/parquet/parquet_file.hpp"
#include "plugins/data/text_pairs/json_records.hpp"

namespace pipeline::text_pairs {
namespace {

constexpr uint64_t kRowsBetweenReports = 64;

void for_each_row(const std::string& path, const RecordOptions& options,
                  const std::function<bool(const RecordText&)>& visit) {
  parquet::ParquetFile file(path);
  if (!options.columns.empty()) file.select(options.columns);
  while (file.next()) {
    if (options.on_block && file.row() % kRowsBetweenReports == 1) options.on_block(file.bytes_read());
    if (!visit(
            {.text = file.text(), .line = file.row(), .is_too_long = file.text().size() > options.max_bytes}))
      return;
  }
  if (options.on_block) options.on_block(file.bytes_read());
}

}  // namespace

const char* unit_of(sources::Format format) { return format == sources::Format::kParquet ? "row" : "line"; }

void for_each_record(const std::string& path, sources::Format format, const RecordOptions& options,
                     const std::function<bool(const RecordText&)>& visit) {
  if (format == sources::Format::kParquet) return for_each_row(path, options, visit);
  Input input(path, options.on_block);
  JsonRecords records(input, options.max_bytes);
  while (records.next()) {
    if (!visit({.text = records.text(),
                .line = records.line(),
                .is_too_long = records.too_long(),
                .is_cut_off = records.is_cut_off()}))
      return;
  }
}

}  // namespace pipeline::text_pairs
