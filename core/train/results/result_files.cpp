#include "core/train/results/result_files.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/fail.hpp"
#include "core/base/files.hpp"
#include "core/checkpoint/file_system.hpp"
#include "core/checkpoint/manifest.hpp"
#include "core/json/strict_json.hpp"
#include "core/observe/json_lines.hpp"
#include "core/safetensors/crc32c.hpp"

namespace pipeline::train {

namespace fs = std::filesystem;

namespace {

using nlohmann::json;

// JSON has no numbers that are not finite: they go as text.
json from_double(double value) { return std::isfinite(value) ? json(value) : json(fmt::format("{}", value)); }

double to_double(const json& value) {
  return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
}

constexpr const char* kChecksum = "crc32c";  // of all the rest

std::string checksum_of(const json& sums) {
  const std::string text = sums.dump();
  return checkpoint::hex(safetensors::crc32c(0, std::as_bytes(std::span(text))));
}

// The files that the evaluation before has put there; none where it cannot be told.
std::vector<std::string> files_of_earlier(const fs::path& sums) {
  std::vector<std::string> names;
  try {
    if (fs::exists(sums))
      for (ReportFile& file : read_sums(sums, "").files) names.push_back(std::move(file.name));
  } catch (const Error&) {
  }
  return names;
}

// The folder goes when the next evaluation is written, and with it nothing that somebody else may miss.
void require_own(const fs::path& folder, std::string_view remedy) {
  if (!fs::exists(folder)) return;
  const std::vector<std::string> ours = files_of_earlier(folder / plugins::kSumsFile);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name != plugins::kSumsFile && std::ranges::find(ours, name) == ours.end())
      fail(PL_ERROR_CONFIG,
           "{}: is not of the evaluation that is kept in this folder, which the next one replaces: move it "
           "away, or {}",
           entry.path().string(), remedy);
  }
}

constexpr std::string_view kRecord = ".written-by-";  // no side file's name begins with a dot

// The whole lines of a file: what was cut short by a kill is not taken for a name.
std::string whole_lines(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text = rest_of(in);
  text.resize(text.rfind('\n') + 1);  // npos + 1 is 0
  return text;
}

}  // namespace

ResultFile::ResultFile(fs::path path, std::string remedy)
    : path_(std::move(path)), temporary_(path_.string() + ".tmp"), remedy_(std::move(remedy)) {
  on_disk(remedy_, [&] {
    if (path_.has_parent_path()) fs::create_directories(path_.parent_path());
  });
  std::error_code ignored;
  if (fs::is_directory(path_, ignored)) throw write_error(path_, EISDIR, remedy_);
  if (fs::exists(path_, ignored) &&
      !fs::is_regular_file(path_, ignored))  // a device, such as /dev/null, would be replaced
    fail(PL_ERROR_CONFIG, "{}: cannot be written: is no plain file: {}", path_.string(), remedy_);
  if (!std::ofstream(temporary_, std::ios::trunc)) throw write_error(path_, errno, remedy_);
}

void require_file_place(const fs::path& path, const std::string& remedy) {
  const ResultFile tried(path, remedy);
}

void require_folder_place(const fs::path& path, const std::string& remedy) {
  on_disk(remedy, [&] {
    const fs::path tried = path.string() + ".tmp";
    fs::create_directories(tried);
    fs::remove_all(tried);
  });
}

ResultFile::~ResultFile() {
  std::error_code ignored;
  fs::remove(temporary_, ignored);
}

void ResultFile::write(std::string_view text) { write_atomically(path_, text, remedy_); }

fs::path side_files_of(const fs::path& output) {
  return output.parent_path() / (output.stem().string() + "-files");
}

void write_side_file(const fs::path& folder, std::string_view name, std::span<const std::byte> bytes) {
  on_disk({}, [&] { fs::create_directories(folder); });
  std::ofstream out(folder / name, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw write_error(folder / name, errno);
}

SideFileRecord::SideFileRecord(const fs::path& output)
    : folder_(side_files_of(output)), file_(folder_ / (std::string(kRecord) + output.filename().string())) {}

SideFileRecord::Content SideFileRecord::read(const fs::path& file) {
  Content content;
  const std::string text = whole_lines(file);
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    const std::string name = text.substr(begin, end - begin);
    if (name.empty()) {
      content.before.merge(content.now);
      content.now.clear();
    } else if (plugins::is_side_file_name(name)) {
      content.now.insert(name);
    }
  }
  return content;
}

void SideFileRecord::append(const std::string& text) {
  if (!std::exchange(is_whole_, true) && fs::exists(file_))
    on_disk({}, [&] { fs::resize_file(file_, whole_lines(file_).size()); });
  std::ofstream out(file_, std::ios::binary | std::ios::app);
  out << text;
  if (!out.flush()) throw write_error(file_, errno);
}

void SideFileRecord::begin() {
  if (fs::exists(file_)) append("\n");
}

void SideFileRecord::add(const std::vector<std::string>& names) {
  if (names.empty()) return;
  on_disk({}, [&] { fs::create_directories(folder_); });
  std::string text;
  for (const std::string& name : names)
    if (name.find('\n') == name.npos) text += name + '\n';
  append(text);
}

SideFileRecord::Names SideFileRecord::of_other_results() const {
  Names names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_))
    if (const std::string name = entry.path().filename();
        entry.path() != file_ && name.starts_with(kRecord) && !name.ends_with(".tmp")) {
      Content content = read(entry.path());
      names.merge(content.before);
      names.merge(content.now);
    }
  return names;
}

void SideFileRecord::remove_others() {
  const Content content = read(file_);
  if (content.before.empty()) return;
  on_disk({}, [&] {
    const Names others = of_other_results();
    for (const std::string& name : content.before)
      if (!content.now.contains(name) && !others.contains(name) && !fs::is_directory(folder_ / name))
        fs::remove(folder_ / name);
  });
  std::string text;
  for (const std::string& name : content.now) text += name + '\n';
  if (!text.empty()) return ResultFile(file_, {}).write(text);
  on_disk({}, [&] { fs::remove(file_); });
  std::error_code not_empty;
  fs::remove(folder_, not_empty);
}

EvaluationFiles::EvaluationFiles(fs::path output, const std::string& remedy)
    : remedy_(remedy),
      folder_(side_files_of(output)),
      lock_(output, folder_, remedy),
      figures_(std::move(output), remedy) {
  on_disk(remedy_, [&] { require_own(folder_, remedy_); });
}

void EvaluationFiles::write(const std::string& figures, const Evaluation& evaluation) {
  const fs::path next = folder_.string() + ".tmp";
  const auto add = [&](std::string_view name, const std::string& bytes) {
    write_side_file(next, name, std::as_bytes(std::span(bytes)));
  };
  on_disk(remedy_, [&] {
    fs::remove_all(next);  // of a process that was killed
    for (const ReportFile& file : evaluation.files) add(file.name, file.bytes);
    add(plugins::kSumsFile, sums_text(evaluation));
    fs::remove_all(folder_);
    figures_.write(figures);
    fs::rename(next, folder_);
  });
}

std::string sums_text(const Evaluation& evaluation) {
  json metrics = json::array(), values = json::array(), files = json::array();
  for (const plugins::Metric& metric : evaluation.metrics)
    metrics.push_back(json::array({metric.name, metric.source, metric.aggregate, metric.better}));
  for (const plugins::EvaluationValue& value : evaluation.sums)
    values.push_back(
        json::array({value.group, value.name, from_double(value.sum), from_double(value.weight)}));
  for (const ReportFile& file : evaluation.files) files.push_back(file.name);
  json all{{"split", evaluation.split},
           {"samples", evaluation.samples},
           {"of", evaluation.available},
           {"metrics", metrics},
           {"values", values},
           {"files", files},
           {"records", evaluation.records}};
  try {
    all[kChecksum] = checksum_of(all);
    return all.dump();
  } catch (const json::type_error& error) {
    fail("the names of an evaluation's values, metrics and files must be UTF-8: {}", error.what());
  }
}

Evaluation read_sums(const fs::path& file, std::string_view remedy) {
  json all;
  try {
    all = strict_json::parse(checkpoint::read_text(file.string()), file.string());
    const json written = all.is_object() ? all.value(kChecksum, json()) : json();
    if (all.is_object()) all.erase(kChecksum);
    if (written != checksum_of(all))
      throw Error(PL_ERROR_CORRUPT, file.string() + ": is not what the evaluation wrote");
  } catch (const strict_json::JsonError& error) {
    fail(PL_ERROR_CORRUPT, "{}: {}", error.what(), remedy);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", error.what(), remedy);
  }
  Evaluation sums;
  sums.split = all["split"];
  sums.samples = all["samples"];
  sums.available = all["of"];
  sums.records = all["records"];
  for (const json& metric : all["metrics"])
    sums.metrics.push_back(
        {.name = metric[0], .source = metric[1], .aggregate = metric[2], .better = metric[3]});
  for (const json& value : all["values"])
    sums.sums.push_back({value[0], value[1], to_double(value[2]), to_double(value[3])});
  for (const json& name : all["files"]) sums.files.push_back({name, {}});
  return sums;
}

void tell_and_keep(nlohmann::ordered_json json, const Evaluation& evaluation, observe::Log& log,
                   std::optional<EvaluationFiles>& output) {
  json["split"] = split_name(evaluation.split);
  json["samples"] = evaluation.samples;
  json["seconds"] = evaluation.seconds;
  for (const Figure& figure : evaluation.figures) {
    json["figures"][figure.name] = observe::json_of(figure.value);
    log.info(fmt::format("  {:<24} {:.4f}", figure.name, figure.value));
  }
  for (const std::string& lines : evaluation.text) log.info(lines);
  if (!output) return;
  output->write(json.dump(2) + "\n", evaluation);
  std::vector<std::string_view> names;
  for (const ReportFile& file : evaluation.files) names.push_back(file.name);
  log.info(fmt::format(
      "written to {}{}", output->output().string(),
      names.empty() ? "" : fmt::format("; {} in {}", fmt::join(names, ", "), output->folder().string())));
}

}  // namespace pipeline::train
