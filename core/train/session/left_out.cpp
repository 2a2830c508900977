#include "core/train/session/left_out.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "core/base/fail.hpp"
#include "core/base/program.hpp"
#include "core/config/sources.hpp"
#include "core/observe/format.hpp"
#include "core/safetensors/crc32c.hpp"
#include "core/safetensors/header.hpp"
#include "core/train/session/value_source.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKey = "train.init_from";

std::string folder_here(const Session& session) {
  const config::Config& config = session.config();
  return config::absolute_path(config.options().train.init_from, config.origin(kKey).base);
}

// Whether a file of a model's folder decides what is read from it.
bool has_weights(const fs::path& file) {
  static constexpr std::array<std::string_view, 4> kTensors{".safetensors", ".bin", ".pt", ".pth"};
  static constexpr std::array<std::string_view, 2> kConfigs{"config.json", "adapter_config.json"};
  const std::string name = file.filename().string(), extension = file.extension().string();
  return std::ranges::find(kTensors, extension) != kTensors.end() ||
         std::ranges::find(kConfigs, name) != kConfigs.end() || name.ends_with(".index.json");
}

uint32_t checksum_of(const fs::path& file) {
  try {
    return safetensors::checksum_file(file.string());
  } catch (const safetensors::SafetensorsError& error) {
    throw Error(error.what());
  }
}

std::vector<checkpoint::StoredFile> files_of(const std::string& folder) {
  std::vector<checkpoint::StoredFile> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file() && has_weights(entry.path()))
      files.push_back({entry.path().filename().string(), entry.file_size(), checksum_of(entry.path())});
  std::ranges::sort(files, {}, &checkpoint::StoredFile::name);
  return files;
}

// What keeps `folder` from being the one with these files; empty: nothing.
std::string problem_of(const fs::path& folder, const std::vector<checkpoint::StoredFile>& files) {
  if (!fs::is_directory(folder)) return fmt::format("there is no folder {}", as_shown(folder.string()));
  for (const checkpoint::StoredFile& file : files) {
    const fs::path path = folder / file.name;
    std::error_code error;
    const uint64_t bytes = fs::file_size(path, error);
    if (error) return fmt::format("{} is not there", as_shown(path.string()));
    if (bytes != file.bytes)
      return fmt::format("{} has {} bytes now, and had {}", as_shown(path.string()), bytes, file.bytes);
    if (const uint32_t sum = checksum_of(path); sum != file.crc32c)
      return fmt::format("{} is another file now: its CRC-32C is {}, and was {}", as_shown(path.string()),
                         checkpoint::hex(sum), checkpoint::hex(file.crc32c));
  }
  return "";
}

std::string place_of(const Session& session, const checkpoint::Checkpoint& from) {
  const checkpoint::LeftOut& left_out = from.contents().left_out;
  std::string problem;
  for (const std::string& place : {folder_here(session), left_out.folder}) {
    if (place.empty() || is_ours(place)) continue;
    const std::string found = problem_of(place, left_out.files);
    if (found.empty()) return place;
    if (problem.empty()) problem = found;
  }
  fail(PL_ERROR_CONFIG,
       "{}: has no frozen weights (checkpoint.frozen = \"left_out\"): they are those of "
       "the folder that {} named, but {}: bring it back, or say where it is now with "
       "--set {}=FOLDER",
       as_shown(from.path()), kKey, problem, kKey);
}

}  // namespace

checkpoint::LeftOut what_is_left_out(Session& session, std::vector<std::string> frozen) {
  checkpoint::LeftOut left_out;
  if (session.options().checkpoint.frozen == "kept") return left_out;
  left_out.parameters = std::move(frozen);
  if (left_out.parameters.empty()) {
    session.log().warning("checkpoint.frozen = \"left_out\" has no effect: all parameters train");
    return left_out;
  }
  if (!session.options().stage.init_from.empty() || !is_foreign(folder_here(session)))
    throw session.config().error(
        "checkpoint.frozen",
        fmt::format("{} of the parameters do not train, and do not come from a model's folder, where a "
                    "checkpoint's reader would find them: name one in {}, or use \"kept\"",
                    left_out.parameters.size(), kKey));
  session.processes().on_first("reading the folder of what is left out", [&] {
    const observe::Elapsed elapsed(session.log().console(), "checksums of the frozen weights");
    left_out.folder = fs::absolute(folder_here(session)).string();
    left_out.files = files_of(left_out.folder);
  });
  return left_out;
}

void import_left_out(Session& session, const checkpoint::Checkpoint& from) {
  session.task().import_model(session.processes().on_first("finding the frozen weights", [&] {
    const observe::Elapsed elapsed(session.log().console(), "verifying the frozen weights");
    return place_of(session, from);
  }));
}

}  // namespace pipeline::train
