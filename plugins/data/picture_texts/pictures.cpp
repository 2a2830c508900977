#include "plugins/data/picture_texts/pictures.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <string_view>

#include "core/base/descriptor.hpp"
#include "core/base/foreign.hpp"
#include "core/base/utf8.hpp"
#include "plugins/data/files/error.hpp"
#include "plugins/data/files/regular_file.hpp"

namespace pipeline::picture_texts {
namespace {

std::vector<std::byte> read_file(const std::string& path) {
  const Descriptor file(files::open_regular(path, O_RDONLY));
  const off_t size = file ? ::lseek(file.fd(), 0, SEEK_END) : -1;
  if (size < 0) throw files::system_error(path, "check the name and task.data.images");
  if (static_cast<uint64_t>(size) > kMostFileBytes)
    throw files::DataError(path + ": has " + std::to_string(size) + " bytes: may have " +
                           std::to_string(kMostFileBytes));
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  if (files::read_at(file.fd(), 0, reinterpret_cast<char*>(bytes.data()), bytes.size(), path,
                     "check the disk") < bytes.size())
    throw files::DataError(path + ": has become shorter while it was being read");
  return bytes;
}

std::string_view text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TarIndex index_of(const Pictures::Options& options, const files::Hooks& hooks) {
  try {
    return TarIndex(options.archives, hooks);
  } catch (const files::DataError& error) {
    throw files::DataError(error.what() +
                           std::string(": it is read because pictures are looked for in the "
                                       "*.tar files of ") +
                           options.folder.string() + ": mend it, or move it away");
  }
}

}  // namespace

std::filesystem::path name_within(const std::filesystem::path& folder, const std::filesystem::path& name) {
  std::filesystem::path normal = name.lexically_normal();
  if (normal.is_absolute())
    normal = normal.lexically_relative(
        std::filesystem::absolute(folder.empty() ? "." : folder).lexically_normal());
  return normal.empty() || *normal.begin() == ".." ? std::filesystem::path() : normal;
}

struct Pictures::Said {
  std::mutex mutex;
  std::set<std::string> broken;  // names of pictures
  std::set<std::string> notes;
};

Pictures::Pictures(Options options, const files::Hooks& hooks)
    : options_(std::move(options)), archives_(index_of(options_, hooks)), said_(std::make_shared<Said>()) {}

std::vector<std::byte> Pictures::bytes(const messages::Picture& picture) const {
  if (!picture.bytes.empty()) {
    const auto* const first = reinterpret_cast<const std::byte*>(picture.bytes.data());
    return {first, first + picture.bytes.size()};
  }
  const std::string& name = picture.name;
  const std::filesystem::path inner = name_within(options_.folder, name);
  if (inner.empty())
    throw images::ImageError("leads out of the pictures' folder (" + options_.folder.string() +
                             "): set task.data.images");
  if (auto found = archives_.read(inner.string())) return std::move(*found);
  return read_file((options_.folder / inner).string());
}

std::string Pictures::shown(const std::string& name) const {
  return printable((options_.folder / name).string(), "");
}

void Pictures::note(const std::string& name, const std::string& text) const {
  const std::lock_guard lock(said_->mutex);
  if (!said_->notes.insert(text).second) return;
  options_.warn(shown(name) + ": " + text + "; if others are like it, they are not named");
}

std::string Pictures::png(const messages::Picture& picture) const {
  try {
    return images::encode_png(
        images::seen_of(images::decode_image(bytes(picture), options_.decode), options_.tiles));
  } catch (const std::runtime_error&) {
    return {};  // load() has named it
  }
}

std::optional<Pictures::Loaded> Pictures::load(
    const messages::Picture& picture,
    const std::function<bool(const files::Hash128& content)>& is_known) const {
  const std::string& name = picture.name;
  std::string problem;
  std::vector<std::byte> file;
  try {
    file = bytes(picture);
    if (is_known && is_known(files::hash128(text_of(file)))) return Loaded();
    images::DecodeOptions decode = options_.decode;
    decode.note = [&](const std::string& text) { note(name, text); };
    const images::Image image = images::decode_image(file, decode);
    return Loaded{
        .width = image.width, .height = image.height, .pixels = images::numbers_of(image, options_.tiles)};
  } catch (const images::ImageError& error) {
    const std::string what = foreign::content(text_of(file).substr(0, foreign::kStart));
    problem = shown(name) + ": " + (what.empty() ? error.what() : what);
  } catch (const files::DataError& error) {  // names the file
    problem = printable(error.what(), "");
  }
  if (options_.is_asked) throw files::DataError(problem);
  const std::lock_guard lock(said_->mutex);
  const std::string known = picture.bytes.empty() ? name : name + " " + files::hash128(picture.bytes).hex();
  if (!said_->broken.insert(known).second) return std::nullopt;
  const uint64_t count = said_->broken.size();
  if (count > options_.most_broken)
    throw files::DataError(problem + ": " + std::to_string(count) + (count == 1 ? " picture" : " pictures") +
                           " cannot be used, and " + std::to_string(options_.most_broken) +
                           " may be: mend them, or raise task.data.max_broken_share");
  options_.warn(problem + ": its sample is skipped");
  return std::nullopt;
}

}  // namespace pipeline::picture_texts
