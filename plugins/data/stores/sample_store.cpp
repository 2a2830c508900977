#include "plugins/data/stores/sample_store.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <regex>

#include <fcntl.h>
#include <unistd.h>

#include "core/base/descriptor.hpp"
#include "plugins/data/files/cache_folder.hpp"
#include "plugins/data/files/regular_file.hpp"

namespace pipeline::stores {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

Hash128 hash_of_parts(std::string_view parts, const Footer& footer) {
  return files::Hasher128()
      .update(parts)
      .update(files::bytes_of(footer).substr(0, offsetof(Footer, hash)))
      .finish();
}

uint64_t hash_of_sample(uint64_t number, std::string_view payload) {
  return files::Hasher128().update(files::bytes_of(number)).update(payload).finish().low;
}

}  // namespace

Header::Header(const SampleKind& kind) : version(kind.version) {
  std::copy_n(kind.name.begin(), std::min(kind.name.size(), sizeof name), name);
}

SampleStore::SampleStore(const std::string& path, const SampleKind& kind, const Hash128& key)
    : path_(path),
      file_(std::make_shared<const Descriptor>(
          files::open_regular(path, O_RDONLY, "remove it: it is made again"))) {
  if (!*file_ && errno == ENOENT) return;
  if (!*file_) throw files::system_error(path, "the cache folder must be readable");
  const off_t bytes = ::lseek(file_->fd(), 0, SEEK_END);
  if (bytes < 0) throw files::system_error(path, "the cache folder must be on a healthy disk");
  if (std::string problem = find_parts(kind, key, static_cast<uint64_t>(bytes)); !problem.empty()) {
    problem_ = path + ": " + problem + ": it is made again";
    return;
  }
  is_whole_ = true;
}

// False where the file is too short.
bool SampleStore::read(uint64_t begin, char* into, uint64_t bytes) const {
  return files::read_at(file_->fd(), begin, into, bytes, path_,
                        "check the disk, or remove it: it is made again") == bytes;
}

// Why the parts of the file cannot be found; empty: they are.
std::string SampleStore::find_parts(const SampleKind& kind, const Hash128& key, uint64_t bytes) {
  constexpr const char* kNoEnd = "its end is missing or damaged";
  const Header expected(kind);
  std::string start(sizeof expected, '\0');
  if (!read(0, start.data(), start.size()) || start != files::bytes_of(expected))
    return "of another version or kind, or its start is damaged";
  Footer footer{};
  if (bytes < sizeof(Header) + sizeof footer) return kNoEnd;
  const uint64_t end = bytes - sizeof footer;
  if (!read(end, reinterpret_cast<char*>(&footer), sizeof footer) ||
      footer.directory_begin > footer.summary_begin || footer.summary_begin > end ||
      footer.summary_bytes > end - footer.summary_begin)
    return kNoEnd;
  const uint64_t indices = footer.samples / kSamplesAnIndex + (footer.samples % kSamplesAnIndex > 0 ? 1 : 0);
  if ((footer.summary_begin - footer.directory_begin) / sizeof(uint64_t) != indices ||
      end - footer.summary_begin != padded(footer.summary_bytes))
    return kNoEnd;
  std::string parts(end - footer.directory_begin, '\0');
  if (!read(footer.directory_begin, parts.data(), parts.size()) ||
      hash_of_parts(parts, footer) != footer.hash)
    return kNoEnd;
  if (footer.key != key) return "made of other data, or with other options";
  directory_.resize(indices);
  if (indices > 0) std::memcpy(directory_.data(), parts.data(), indices * sizeof(uint64_t));
  summary_ = parts.substr(indices * sizeof(uint64_t), footer.summary_bytes);
  footer_ = footer;
  return "";
}

Place SampleStore::place(uint64_t i) const {
  Place place;
  if (!read(directory_.at(i / kSamplesAnIndex) + i % kSamplesAnIndex * sizeof place,
            reinterpret_cast<char*>(&place), sizeof place))
    fail_changed();
  return place;
}

uint64_t SampleStore::bytes(uint64_t i) const { return place(i).bytes; }

Sample SampleStore::operator[](uint64_t i) const {
  const Place where = place(i);
  uint64_t hash = 0;
  // Everything lies before the directory.
  if (where.begin < sizeof hash || where.begin > footer_.directory_begin ||
      where.bytes > footer_.directory_begin - where.begin)
    fail_changed();
  Sample sample(where.bytes);
  if (!read(where.begin - sizeof hash, sample.bytes_.data(), sample.bytes_.size())) fail_changed();
  std::memcpy(&hash, sample.bytes_.data(), sizeof hash);
  if (hash_of_sample(i, sample.payload()) != hash) fail_changed();
  return sample;
}

void SampleStore::fail_changed() const {
  throw files::DataError(
      path_ +
      ": is damaged, or was changed while it is in use (a sample of it is not the one that "
      "was written): stop what uses or changes it, remove it, and run again: it is made "
      "again");
}

SampleWriter::SampleWriter(const std::string& path, const SampleKind& kind) : file_(path) {
  put(files::bytes_of(Header(kind)));
}

void SampleWriter::put(std::string_view bytes) {
  buffer_ += bytes;
  buffer_.append(padded(bytes.size()) - bytes.size(), '\0');
  if (buffer_.size() >= kBufferBytes) flush();
}

void SampleWriter::flush() {
  file_.append(buffer_);
  buffer_.clear();
}

void SampleWriter::append(std::string_view payload) {
  const uint64_t hash = hash_of_sample(samples_++, payload);
  content_.update(files::bytes_of(hash));
  put(files::bytes_of(hash));
  index_.push_back({end(), payload.size()});
  put(payload);
  if (index_.size() == kSamplesAnIndex) put_index();
}

void SampleWriter::put_index() {
  directory_.push_back(end());
  put(files::bytes_of(index_));
  index_.clear();
}

void SampleWriter::finish(const Hash128& key, std::string_view summary) {
  if (!index_.empty()) put_index();
  Footer footer{.key = key,
                .content = content_.finish(),
                .samples = samples_,
                .directory_begin = end(),
                .summary_begin = end() + directory_.size() * sizeof(uint64_t),
                .summary_bytes = summary.size(),
                .hash = {}};
  std::string parts(files::bytes_of(directory_));
  parts += summary;
  parts.append(padded(parts.size()) - parts.size(), '\0');
  footer.hash = hash_of_parts(parts, footer);
  put(parts);
  put(files::bytes_of(footer));
  flush();
  file_.replace();
}

SampleStore open_or_fill(const std::string& path, const SampleKind& kind, const Hash128& key,
                         const std::string& what, const files::Hooks& hooks,
                         const std::function<std::string(SampleWriter& writer)>& fill) {
  SampleStore store(path, kind, key);
  if (store.is_whole()) {
    files::mark_used(path);
    return store;
  }
  hooks.tell(store.problem());
  const files::FileLock lock(
      path + ".lock", [&] { hooks.tell("waiting for another process that is " + what); }, hooks.cancelled);
  store = SampleStore(path, kind, key);
  if (store.is_whole()) return store;  // whoever held the lock has made it
  {
    SampleWriter writer(path, kind);
    const std::string summary = fill(writer);
    writer.finish(key, summary);
  }
  store = SampleStore(path, kind, key);
  if (!store.is_whole()) throw files::DataError(path + ": was written and cannot be read: check the disk");
  return store;
}

std::string SampleSource::path(const SampleKind& kind) const {
  return (std::filesystem::path(folder) / (name + "-" + key.hex() + "." + std::string(kind.ending))).string();
}

SampleStore open_or_fill(const SampleSource& source, const SampleKind& kind, const files::Hooks& hooks,
                         const std::function<std::string(SampleWriter& writer)>& fill) {
  bool is_new = false;
  SampleStore store =
      open_or_fill(source.path(kind), kind, source.key, source.what, hooks, [&](SampleWriter& writer) {
        is_new = true;
        return fill(writer);
      });
  if (!is_new) return store;
  const std::string names = R"(.+-[0-9a-f]{32}\.)" + std::string(kind.ending) + R"((\.part|\.lock)?|)" +
                            std::string(kind.others) + R"(source-[0-9a-f]{32}\.hash(\.lock)?)";
  hooks.tell(files::remove_unused(source.folder, std::regex(names)));
  return store;
}

}  // namespace pipeline::stores
