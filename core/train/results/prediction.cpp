#include "core/train/results/prediction.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/csv.hpp"
#include "core/base/error.hpp"
#include "core/base/monotonic_clock.hpp"
#include "core/observe/format.hpp"
#include "core/train/results/evaluation.hpp"
#include "core/train/results/partial_result.hpp"
#include "core/train/results/result_files.hpp"
#include "core/train/session/metrics.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

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
    throw Error(
        PL_ERROR_CONFIG,
        fmt::format("--output {}: there is a file that is no table of predictions, whose first column is "
                    "\"id\": choose another --output, or move it away",
                    output.string()));
}

// What one rank, or all in their order, made of one batch each.
struct Round {
  bool cancelled = false;  // what was made is dropped, and made again when the command goes on
  uint64_t samples = 0;
  std::string text;                // rows; together only on rank 0, and so is:
  Growth growth;                   // of the files that grow
  std::vector<std::string> files;  // names of side files
};

// Sizes and bytes, one after another.
std::string pack(const Growth& growth) {
  std::string packed;
  for (const auto& [name, bytes] : growth)
    packed += fmt::format("{} {} ", name.size(), bytes.size()) + name + bytes;
  return packed;
}

void unpack(std::string_view packed, Growth& growth) {
  const auto number = [&] {
    const size_t end = packed.find(' ');
    const size_t value = std::stoull(std::string(packed.substr(0, end)));
    packed.remove_prefix(end + 1);
    return value;
  };
  const auto text = [&](size_t size) {
    std::string value(packed.substr(0, size));
    packed.remove_prefix(size);
    return value;
  };
  while (!packed.empty()) {
    const size_t name = number(), bytes = number();
    growth.emplace_back(text(name), std::string());
    growth.back().second = text(bytes);
  }
}

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
  for (const std::string& packed : processes.gather("growth", pack(mine.growth), kTo))
    unpack(packed, all.growth);
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
                            {.row = {},
                             .file =
                                 [&](uint64_t, std::string_view name, std::span<const std::byte> bytes) {
                                   record.add({std::string(name)});
                                   write_side_file(side_files, name, bytes);
                                 },
                             .append = {}});
    record.remove_others();  // before the rows take their place: if this is killed, the same command goes on
                             // here
    file->finish();
  };
  if (result.complete) processes.on_first("finishing the predictions", finish);
  result.seconds = now_seconds() - began;
  return result;
}

}  // namespace pipeline::train
