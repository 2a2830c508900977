#include "plugins/tasks/common/record_store/single_record.hpp"

#include "plugins/tasks/common/record_store/record_writer.hpp"

namespace pipeline::records {

std::optional<std::string> load(const std::string& path, const Kind& kind, const Hash128& key,
                                bool& problem) {
  const RecordStore store(path, kind);
  const Record* record = store.find(key);
  const bool whole = record != nullptr && store.problem().empty() && store.is_whole(*record);
  problem = store.is_there() && !whole;
  return whole ? std::optional(std::string(store.payload(*record))) : std::nullopt;
}

void save(const std::string& path, const Kind& kind, const Hash128& key, std::string_view payload) {
  RecordWriter writer(path, kind);
  writer.append(make_record(key, payload));
  writer.replace();
}

}  // namespace pipeline::records
