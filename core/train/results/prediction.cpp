#include "core/train/results/prediction.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "core/base/csv.hpp"
#include "core/base/fail.hpp"
#include "core/base/files.hpp"
#include "core/base/monotonic_clock.hpp"
#include "core/observe/format.hpp"
#include "core/plugins/task.hpp"
#include "core/train/results/evaluation.hpp"
#include "core/train/results/result_files.hpp"
#include "core/train/session/metrics.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_to_write(const fs::path& file) {
  const int error = errno;
  fail(error == ENOSPC ? PL_ERROR_NO_SPACE : PL_ERROR_FAILED,
       "{}: cannot be written: {}; what is there is kept, and the same command goes on with it",
       file.string(), std::strerror(error));
}

fs::path part_of(const fs::path& file) { return file.string() + ".part"; }

uint64_t size_of(const fs::path& file) {
  std::error_code error;
  const uint64_t size = fs::file_size(file, error);
  return error ? 0 : size;
}

std::string header(plugins::Task& task) {
  std::string line = "id";
  for (const std::string& column : task.prediction_columns()) line += "," + csv_field(column);
  return line;
}

// What is at `output` is replaced: it must be a table of predictions, and not, say, what they are made of.
void require_own_table(const fs::path& output) {
  std::ifstream there(output);
  std::string line;
  if (there && std::getline(there, line) && line != "id" && !line.starts_with("id,"))
    fail(PL_ERROR_CONFIG,
         "--output {}: there is a file that is no table of predictions, whose first column is \"id\": choose "
         "another --output, or move it away",
         output.string());
}

// What one rank, or all in their order, made of one batch each.
struct Round {
  bool cancelled = false;  // what was made is dropped, and made again when the command goes on
  uint64_t samples = 0;
  std::string text;                // rows; together only on rank 0, and so is:
  Growth growth;                   // of the files that grow
  std::vector<std::string> files;  // names of side files
};

Round exchange(ProcessGroup& processes, Round mine) {
  if (processes.world().size == 1) return mine;
  Round all;
  bool grows = false;
  for (const nlohmann::json& rank : processes.exchange(
           "predict",
           nlohmann::json::array({mine.cancelled, mine.samples, mine.files, !mine.growth.empty()}))) {
    all.cancelled = all.cancelled || rank[0].get<bool>();
    all.samples += rank[1].get<uint64_t>();
    for (const nlohmann::json& name : rank[2]) all.files.push_back(name);
    grows = grows || rank[3].get<bool>();
  }
  if (all.cancelled) return all;
  constexpr auto kTo = ProcessGroup::To::first;
  for (const std::string& text : processes.gather("rows", mine.text, kTo)) all.text += text;
  if (!grows) return all;
  std::string packed;
  nlohmann::json::to_cbor(mine.growth, packed);  // text of any encoding
  for (const std::string& of_rank : processes.gather("growth", packed, kTo))
    for (auto& one : nlohmann::json::from_cbor(of_rank).get<Growth>()) all.growth.push_back(std::move(one));
  return all;
}

}  // namespace

void PartialResult::File::open() {
  file = Descriptor(above_standard(::open(part.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)));
  if (!file) throw write_error(part, errno);
  if (::ftruncate(file.fd(), static_cast<off_t>(bytes)) != 0 || ::lseek(file.fd(), 0, SEEK_END) < 0)
    fail_to_write(part);
}

void PartialResult::File::append(std::string_view text) {
  std::span<const std::byte> left = std::as_bytes(std::span(text));
  if (!write_all(file.fd(), left)) fail_to_write(part);
  bytes += text.size();
}

void PartialResult::File::sync() const {
  if (::fsync(file.fd()) != 0) fail_to_write(part);
}

PartialResult::PartialResult(fs::path output, std::string identity)
    : output_(std::move(output)),
      folder_(side_files_of(output_)),
      progress_(output_.string() + ".progress"),
      identity_(std::move(identity)) {
  table_.part = part_of(output_);
  if (!continues(identity_)) {
    for (const auto& [name, file] : grown_) fs::remove(file.part);
    grown_.clear();
    samples_ = table_.bytes = 0;
  }
  table_.open();
  for (auto& [name, file] : grown_) file.open();
}

// Reads how far the result was; false where that is of something else, or does not fit what is there.
bool PartialResult::continues(const std::string& identity) {
  std::ifstream in(progress_);
  const auto stored = in ? nlohmann::json::parse(in, nullptr, false) : nlohmann::json();
  if (!stored.is_object()) return false;
  samples_ = stored.value("samples", uint64_t{0});
  table_.bytes = stored.value("bytes", uint64_t{0});
  bool fits = stored.value("identity", "") == identity && size_of(table_.part) >= table_.bytes;
  for (const auto& [name, bytes] : stored.value("grown", std::map<std::string, uint64_t>())) {
    if (!plugins::is_side_file_name(name)) return false;
    const fs::path done = folder_ / name;
    File& file = grown_[name];
    file.part = part_of(done);
    file.bytes = bytes;
    // A file that grows may have got its name before the table did.
    if (!fs::exists(file.part) && size_of(done) == bytes) fs::rename(done, file.part);
    fits = fits && size_of(file.part) >= bytes;
  }
  return fits;
}

PartialResult::File& PartialResult::grown(const std::string& name) {
  const auto [place, is_new] = grown_.try_emplace(name);
  if (is_new) {
    fs::create_directories(folder_);
    place->second.part = part_of(folder_ / name);
    place->second.open();
  }
  return place->second;
}

void PartialResult::append(std::string_view rows, const Growth& growth, uint64_t samples_done) {
  for (const auto& [name, bytes] : growth) grown(name).append(bytes);
  table_.append(rows);
  samples_ = samples_done;
  save_progress();
}

void PartialResult::save_progress() const {
  nlohmann::json progress{{"identity", identity_}, {"samples", samples_}, {"bytes", table_.bytes}};
  for (const auto& [name, file] : grown_) progress["grown"][name] = file.bytes;
  const fs::path temporary = progress_.string() + ".tmp";
  std::ofstream out(temporary, std::ios::trunc);
  out << progress;
  if (!out.flush()) fail_to_write(temporary);
  out.close();
  fs::rename(temporary, progress_);
}

void PartialResult::finish_files() {
  table_.sync();
  for (const auto& [name, file] : grown_) file.sync();
  for (const auto& [name, file] : grown_) fs::rename(file.part, folder_ / name);
}

void PartialResult::finish() {
  fs::rename(table_.part, output_);
  fs::remove(progress_);
}

Prediction predict(Session& session, const PredictionRequest& request) {
  const double began = now_seconds();
  plugins::Task& task = session.task();
  if (!task.has_predict()) fail(PL_ERROR_CONFIG, "{} makes no predictions", session.task_plugin().label());
  const uint64_t all = task.sample_count(request.split);
  const uint64_t total = request.samples > 0 ? std::min(request.samples, all) : all;
  ProcessGroup& processes = session.processes();
  const fs::path side_files = side_files_of(request.output);
  std::optional<PartialResult> file;  // of rank 0, and so is:
  SideFileRecord record(request.output);
  const uint64_t first = std::stoull(processes.on_first("opening the predictions", [&] {
    require_own_table(request.output);
    file.emplace(request.output, request.identity);
    if (file->empty()) file->append(header(task) + "\n", {}, 0);
    if (file->samples() == 0) record.begin();
    return std::to_string(file->samples());
  }));
  DealtBatches batches(processes, task, request_for(session, request.split, PL_PURPOSE_PREDICT), first,
                       total);

  Prediction result{.samples = first, .continued = first};
  std::map<uint64_t, std::string>
      rows;  // of one batch, by sample; Task::predict sees to it that none is missing
  std::vector<std::pair<std::string, std::vector<std::byte>>> files;  // side files of one batch
  std::map<uint64_t, Growth> growth;                                  // what grows, of one batch, by sample
  const plugins::PredictionSink sink{
      .row =
          [&](uint64_t sample, std::span<const std::string_view> fields) {
            std::string text = csv_field(task.sample_name(request.split, sample));
            for (const std::string_view field : fields) text += "," + csv_field(field);
            rows[sample] = text + "\n";
          },
      .file =
          [&](uint64_t, std::string_view name, std::span<const std::byte> bytes) {
            files.emplace_back(name, std::vector(bytes.begin(), bytes.end()));
          },
      .append =
          [&](uint64_t sample, std::string_view name, std::span<const std::byte> bytes) {
            growth[sample].emplace_back(
                name, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
          }};
  std::set<std::string> grown_names;
  while (result.samples < total) {
    rows.clear();
    files.clear();
    growth.clear();
    const bool cancelled = !batches.next([&](const plugins::Batch& batch, uint64_t) {
      pl_evaluate_args args{};
      args.purpose = PL_PURPOSE_PREDICT;
      task.predict(batch, args, sink);
    });
    Round mine{.cancelled = cancelled, .samples = rows.size()};
    for (const auto& [sample, row] : rows) mine.text += row;
    for (const auto& [name, bytes] : files) mine.files.push_back(name);
    for (auto& [sample, grown] : growth) std::ranges::move(grown, std::back_inserter(mine.growth));
    for (const auto& [name, bytes] : mine.growth)
      if (grown_names.insert(name).second) mine.files.push_back(name);
    const Round round = exchange(processes, std::move(mine));
    if (round.cancelled) break;
    if (!round.files.empty()) {
      // On record before they are written, and written before their rows: a kill leaves no file that nobody
      // knows, and no row without its files.
      processes.on_first("recording files", [&] { record.add(round.files); });
      for (const auto& [name, bytes] : files) write_side_file(side_files, name, bytes);
      processes.peers().barrier("files are written");
    }
    result.samples += round.samples;
    if (file) file->append(round.text, round.growth, result.samples);
    session.log().console().progress("predicting", result.samples, total);
  }
  session.log().console().status({});
  result.complete = result.samples >= total;
  const auto finish = [&] {
    file->finish_files();
    task.finish_predictions(request.split, side_files.string(),
                            {.file = [&](uint64_t, std::string_view name, std::span<const std::byte> bytes) {
                              record.add({std::string(name)});
                              write_side_file(side_files, name, bytes);
                            }});
    record.remove_others();  // before the rows take their place: if this is killed, the same command goes on
                             // here
    file->finish();
  };
  if (result.complete) processes.on_first("finishing the predictions", finish);
  result.seconds = now_seconds() - began;
  return result;
}

}  // namespace pipeline::train
