#include "plugins/data/stores/record_writer.hpp"

namespace pipeline::stores {
namespace {

constexpr uint64_t kLeastUnused = uint64_t{1} << 20;  // bytes: less is not worth a new file

}  // namespace

RecordWriter::RecordWriter(const std::string& path, const Kind& kind) : file_(std::in_place, path) {
  append(files::bytes_of(FileHeader(kind)));
}

RecordWriter::RecordWriter(const RecordStore& store, const Kind& kind) {
  if (store.is_ours()) {
    file_.emplace(store.path(), store.end());
    return;
  }
  file_.emplace(store.path());
  append(files::bytes_of(FileHeader(kind)));
  replace();
}

bool is_mostly_other_than(const RecordStore& store, const Keys& keys) {
  uint64_t used = 0;
  for (const Record& record : store.records())
    used += keys.contains(record.key) ? store.bytes_of(record).size() : 0;
  const uint64_t unused = store.end() - used;
  return unused > kLeastUnused && unused > used;
}

void keep_only(RecordStore& store, const Kind& kind, const Keys& keys) {
  RecordWriter writer(store.path(), kind);
  for (const Record& record : store.records())
    if (keys.contains(record.key) && store.is_whole(record)) writer.append(store.bytes_of(record));
  writer.replace();
  store = RecordStore(std::string(store.path()), kind);
}

}  // namespace pipeline::stores
