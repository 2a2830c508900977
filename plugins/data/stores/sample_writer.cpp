#include "plugins/data/stores/sample_writer.hpp"

#include "plugins/data/files/cache_folder.hpp"

namespace pipeline::stores {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

}  // namespace

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

}  // namespace pipeline::stores
