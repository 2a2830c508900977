#include "plugins/data/records/record_texts.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/json/strict_json.hpp"
#include "plugins/data/parquet/parquet_file.hpp"
#include "plugins/data/records/csv_reader.hpp"
#include "plugins/data/records/input.hpp"
#include "plugins/data/records/json_records.hpp"
#include "plugins/data/sources/names.hpp"

namespace pipeline::records {
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

namespace {

// A member that a file's partition adds to each of its records that does not have it itself.
struct Member {
  std::string key, text;  // year, "year":"2024"
};

// The members to add; for Parquet, without those that are columns of the file.
std::vector<Member> members_of_partition(const std::string& path, sources::Format format,
                                         const std::vector<std::string>& wanted) {
  std::vector<Member> members;
  const auto partition = sources::partition_of(path);
  if (partition.empty()) return members;
  std::vector<std::string> own;
  if (format == sources::Format::kParquet) own = column_names(path, format, {});
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  for (const auto& [key, value] : partition)
    if ((wanted.empty() || has(wanted, key)) && !has(own, key))
      members.push_back(
          {key, nlohmann::json(key).dump() + ":" +
                    nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)});
  return members;
}

void for_each_own_record(const std::string& path, sources::Format format, const RecordOptions& options,
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

}  // namespace

void for_each_record(const std::string& path, sources::Format format, const RecordOptions& options,
                     const std::function<bool(const RecordText&)>& visit) {
  const std::vector<Member> members = members_of_partition(path, format, options.columns);
  if (members.empty()) return for_each_own_record(path, format, options, visit);
  std::vector<std::string_view> keys;
  for (const Member& member : members) keys.push_back(member.key);
  std::string whole;
  for_each_own_record(path, format, options, [&](const RecordText& record) {
    RecordText one = record;
    const size_t end = record.text.find_last_not_of(" \t\r\n");
    if (record.is_too_long || end == record.text.npos || record.text[end] != '}') return visit(one);
    const JsonFields own = pick_fields(record.text, keys, 0);  // each object of JSON has keys of its own
    if (own.state != JsonFields::kOk) return visit(one);
    whole = record.text.substr(0, end);
    const size_t last = whole.find_last_not_of(" \t\r\n");
    bool is_first = last == whole.npos || whole[last] == '{';
    for (size_t i = 0; i < members.size(); ++i) {
      if (own.fields[i].state != JsonField::kAbsent) continue;
      whole += (is_first ? "" : ",") + members[i].text;
      is_first = false;
    }
    one.text = whole += "}";
    return visit(one);
  });
}

std::vector<std::string> column_names(const std::string& path, sources::Format format,
                                      const std::vector<std::string>& wanted,
                                      const std::function<void(uint64_t)>& on_block) {
  constexpr size_t kMostKeys = 1000;
  if (format == sources::Format::kParquet) return parquet::ParquetFile(path).columns();
  std::vector<std::string> names;
  if (format == sources::Format::kJson) {
    RecordOptions options;
    options.on_block = on_block;
    for_each_own_record(path, format, options, [&](const RecordText& record) {
      JsonFields found = pick_fields(record.text, {}, kMostKeys);
      if (found.state == JsonFields::kOk) names = std::move(found.keys);
      return names.empty();
    });
    return names;
  }
  const std::string line = header_line(path, on_block);
  for (const char separator : {format == sources::Format::kTsv ? '\t' : ',', ';', '\t', ','}) {
    names = header_names(line, separator);
    if (std::ranges::any_of(
            names, [&](const auto& name) { return std::ranges::find(wanted, name) != wanted.end(); }))
      return names;
  }
  return {};
}

std::string note_of_unused(const std::vector<std::string>& names, const std::vector<std::string>& used) {
  constexpr size_t kMost = 8;
  std::string listed;
  size_t count = 0;
  for (const std::string& name : names) {
    if (std::ranges::find(used, name) != used.end()) continue;
    if (++count <= kMost) listed += (count > 1 ? ", " : "") + strict_json::excerpt(name);
  }
  if (count == 0) return "";
  if (count > kMost) listed += " and " + std::to_string(count - kMost) + " more";
  return count == 1 ? "its column " + listed + " is not used" : "its columns " + listed + " are not used";
}

}  // namespace pipeline::records
