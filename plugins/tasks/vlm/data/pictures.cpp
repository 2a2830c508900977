#include "plugins/tasks/vlm/data/pictures.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "plugins/tasks/common/files/error.hpp"

namespace pipeline::vlm {
namespace {

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw ImageError(std::strerror(errno));
  std::vector<std::byte> bytes(static_cast<size_t>(file.tellg()));
  file.seekg(0).read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw ImageError("cannot be read to its end");
  return bytes;
}

// A name from a data file must not lead out of the pictures' folder.
bool leads_out(const std::filesystem::path& name) {
  const std::filesystem::path normal = name.lexically_normal();
  return normal.is_absolute() || (!normal.empty() && *normal.begin() == "..");
}

}  // namespace

struct Pictures::Broken {
  std::mutex mutex;
  std::set<std::string> names;
};

Pictures::Pictures(Options options, const files::Hooks& hooks)
    : options_(std::move(options)),
      archives_(tar_archives(options_.folder), hooks),
      broken_(std::make_shared<Broken>()) {}

std::vector<std::byte> Pictures::bytes(const std::string& name) const {
  if (leads_out(name)) throw ImageError("leads out of the pictures' folder");
  try {
    if (auto found = archives_.read(name)) return std::move(*found);
  } catch (const files::DataError& error) {
    throw ImageError(error.what());
  }
  return read_file(options_.folder / name);
}

std::string Pictures::png(const std::string& name) const {
  try {
    return encode_png(squared(decode_image(bytes(name), options_.decode), options_.resize));
  } catch (const ImageError&) {
    return {};  // load() has named it
  }
}

bool Pictures::load(const std::string& name, float* out,
                    const std::function<bool(const files::Hash128& content)>& is_known) const {
  const std::filesystem::path path = options_.folder / name;
  std::string problem;
  try {
    const std::vector<std::byte> file = bytes(name);
    if (is_known && is_known(files::hash128({reinterpret_cast<const char*>(file.data()), file.size()})))
      return true;
    resize_image(decode_image(file, options_.decode), options_.resize, out);
    return true;
  } catch (const ImageError& error) {
    problem = error.what();
  }
  if (options_.is_asked) throw files::DataError(path.string() + ": " + problem);
  const std::lock_guard lock(broken_->mutex);
  if (!broken_->names.insert(name).second) return false;
  const uint64_t count = broken_->names.size();
  if (count > options_.most_broken)
    throw files::DataError(path.string() + ": " + problem + ": " + std::to_string(count) +
                           (count == 1 ? " picture" : " pictures") + " cannot be used, and " +
                           std::to_string(options_.most_broken) +
                           " may be: mend them, or raise task.data.max_broken_share");
  options_.warn(path.string() + ": " + problem + ": its sample is skipped");
  return false;
}

}  // namespace pipeline::vlm
