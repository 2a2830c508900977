#include "core/train/results/prediction.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "core/base/csv.hpp"
#include "core/base/descriptor.hpp"
#include "core/base/error.hpp"
#include "core/base/files.hpp"
#include "core/base/monotonic_clock.hpp"
#include "core/observe/format.hpp"
#include "core/train/results/evaluation.hpp"
#include "core/train/results/result_files.hpp"
#include "core/train/session/metrics.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

// The file under construction, and beside it how far it is known to be good.
class PartialFile {
 public:
  PartialFile(fs::path output, std::string identity)
      : output_(std::move(output)),
        part_(output_.string() + ".part"),
        progress_(output_.string() + ".progress"),
        identity_(std::move(identity)) {
    std::ifstream in(progress_);
    const auto stored = in ? nlohmann::json::parse(in, nullptr, false) : nlohmann::json();
    std::error_code error;
    if (stored.is_object() && stored.value("identity", "") == identity_ &&
        fs::file_size(part_, error) >= stored.value("bytes", uint64_t{0}) && !error) {
      samples_ = stored.value("samples", uint64_t{0});
      bytes_ = stored.value("bytes", uint64_t{0});
    }
    file_ = Descriptor(::open(part_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    if (!file_) throw write_error(part_, errno);
    if (::ftruncate(file_.fd(), static_cast<off_t>(bytes_)) != 0 || ::lseek(file_.fd(), 0, SEEK_END) < 0)
      fail(part_);
  }

  uint64_t samples() const { return samples_; }
  bool empty() const { return bytes_ == 0; }

  void append(std::string_view text, uint64_t samples_done) {
    std::span<const std::byte> left = std::as_bytes(std::span(text));
    if (!write_all(file_.fd(), left)) fail(part_);
    bytes_ += text.size();
    samples_ = samples_done;
    const fs::path temporary = progress_.string() + ".tmp";
    std::ofstream out(temporary, std::ios::trunc);
    out << nlohmann::json{{"identity", identity_}, {"samples", samples_}, {"bytes", bytes_}};
    if (!out.flush()) fail(temporary);
    out.close();
    fs::rename(temporary, progress_);
  }

  void sync() {
    if (::fsync(file_.fd()) != 0) fail(part_);
  }

  void finish() {
    fs::rename(part_, output_);
    fs::remove(progress_);
  }

 private:
  [[noreturn]] static void fail(const fs::path& file) {
    const int error = errno;
    throw Error(
        error == ENOSPC ? PL_ERROR_NO_SPACE : PL_ERROR_FAILED,
        fmt::format("{}: cannot be written: {}; what is there is kept, and the same command goes on with it",
                    file.string(), std::strerror(error)));
  }

  fs::path output_, part_, progress_;
  std::string identity_;
  Descriptor file_;
  uint64_t samples_ = 0, bytes_ = 0;
};

std::string header(plugins::Task& task) {
  std::string line = "id";
  for (const std::string& column : task.prediction_columns()) line += "," + csv_field(column);
  return line;
}

// What one rank, or all in their order, made of one batch each.
struct Round {
  bool cancelled = false;  // what was made is dropped, and made again when the command goes on
  uint64_t samples = 0;
  std::string text;                // rows; together only on rank 0
  std::vector<std::string> files;  // names of side files
};

Round exchange(ProcessGroup& processes, Round mine) {
  if (processes.world().size == 1) return mine;
  Round all;
  for (const nlohmann::json& rank :
       processes.exchange("predict", nlohmann::json::array({mine.cancelled, mine.samples, mine.files}))) {
    all.cancelled = all.cancelled || rank[0].get<bool>();
    all.samples += rank[1].get<uint64_t>();
    for (const nlohmann::json& name : rank[2]) all.files.push_back(name);
  }
  if (all.cancelled) return all;
  for (const std::string& text : processes.peers().gather("rows", mine.text)) all.text += text;
  return all;
}

}  // namespace

Prediction predict(Session& session, const PredictionRequest& request) {
  const double began = now_seconds();
  plugins::Task& task = session.task();
  if (!task.has_predict())
    throw Error(PL_ERROR_CONFIG, fmt::format("{} makes no predictions", session.task_plugin().label()));
  const uint64_t total = task.sample_count(request.split);
  ProcessGroup& processes = session.processes();
  const fs::path side_files = side_files_of(request.output);
  std::optional<PartialFile> file;  // of rank 0, and so is:
  SideFileRecord record(request.output);
  const uint64_t first = std::stoull(processes.on_first("opening the predictions", [&] {
    file.emplace(request.output, request.identity);
    if (file->empty()) file->append(header(task) + "\n", 0);
    if (file->samples() == 0) record.begin();
    return std::to_string(file->samples());
  }));
  DealtBatches batches(processes, task, request_for(session, request.split, PL_PURPOSE_PREDICT), first,
                       total);

  Prediction result{.samples = first, .continued = first};
  std::map<uint64_t, std::string>
      rows;  // of one batch, by sample; Task::predict sees to it that none is missing
  std::vector<std::pair<std::string, std::vector<std::byte>>> files;  // side files of one batch
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
          }};
  while (result.samples < total) {
    rows.clear();
    files.clear();
    const bool cancelled = !batches.next([&](const plugins::Batch& batch, uint64_t) {
      pl_evaluate_args args{};
      args.purpose = PL_PURPOSE_PREDICT;
      task.predict(batch, args, sink);
    });
    Round mine{.cancelled = cancelled, .samples = rows.size()};
    for (const auto& [sample, row] : rows) mine.text += row;
    for (const auto& [name, bytes] : files) mine.files.push_back(name);
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
    if (file) file->append(round.text, result.samples);
    session.log().console().progress("predicting", result.samples, total);
  }
  session.log().console().status({});
  result.complete = result.samples >= total;
  if (result.complete && file) {
    file->sync();
    record.remove_others();  // before the rows take their place: if this is killed, the same command goes on
                             // here
    file->finish();
  }
  result.seconds = now_seconds() - began;
  return result;
}

}  // namespace pipeline::train
