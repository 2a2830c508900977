#include "core/train/results/partial_result.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <span>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/files.hpp"
#include "core/plugins/task.hpp"
#include "core/train/results/result_files.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& file) {
  const int error = errno;
  throw Error(
      error == ENOSPC ? PL_ERROR_NO_SPACE : PL_ERROR_FAILED,
      fmt::format("{}: cannot be written: {}; what is there is kept, and the same command goes on with it",
                  file.string(), std::strerror(error)));
}

fs::path part_of(const fs::path& file) { return file.string() + ".part"; }

uint64_t size_of(const fs::path& file) {
  std::error_code error;
  const uint64_t size = fs::file_size(file, error);
  return error ? 0 : size;
}

}  // namespace

void PartialResult::File::open() {
  file = Descriptor(above_standard(::open(part.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)));
  if (!file) throw write_error(part, errno);
  if (::ftruncate(file.fd(), static_cast<off_t>(bytes)) != 0 || ::lseek(file.fd(), 0, SEEK_END) < 0)
    fail(part);
}

void PartialResult::File::append(std::string_view text) {
  std::span<const std::byte> left = std::as_bytes(std::span(text));
  if (!write_all(file.fd(), left)) fail(part);
  bytes += text.size();
}

void PartialResult::File::sync() const {
  if (::fsync(file.fd()) != 0) fail(part);
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
  if (!out.flush()) fail(temporary);
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

}  // namespace pipeline::train
