// Folders as runs leave them.
#pragma once

#include <string>
#include <vector>

#include "core/report/run_record.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::tests {

// A run with these losses, at 100 tokens in `seconds` a step. Of several ranks the last works longest.
inline report::RunRecord record_of(const std::string& name, const std::vector<double>& losses,
                                   double seconds = 1, uint64_t processes = 1,
                                   const std::string& options = "") {
  const FilesFolder folder;
  std::string metrics;
  for (size_t i = 0; i < losses.size(); ++i)
    metrics +=
        nlohmann::ordered_json{{"step", i + 1}, {"loss", losses[i]}, {"tokens", 100}, {"seconds", seconds}}
            .dump() +
        "\n";
  folder.write("metrics.jsonl", metrics);
  folder.write("config.toml", options);
  folder.write("finished.txt", "");
  const nlohmann::ordered_json rank{{"host", "h"},
                                    {"host_memory", 5'000'000},
                                    {"device_memory", 0},
                                    {"overlapped_communication", 0.5},
                                    {"seconds", {{"compute", 3.0}, {"data", 1.0}}}};
  std::vector<nlohmann::ordered_json> ranks(processes, rank);
  if (processes > 1) ranks.back()["seconds"]["compute"] = 5.0;
  folder.write("summary.json",
               nlohmann::ordered_json{{"processes", processes}, {"ranks", std::move(ranks)}}.dump());
  return report::read_run(folder.path(), name);
}

}  // namespace pipeline::tests
