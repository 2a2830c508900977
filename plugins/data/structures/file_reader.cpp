#include "plugins/data/structures/file_reader.hpp"

#include <algorithm>
#include <chrono>
#include <new>

#include "plugins/data/structures/structure.hpp"

namespace pipeline::structures {
namespace {

int64_t now() {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

std::string record_of(const files::Hash128& key, const std::string& content, const ReadLimits& limits,
                      MemoryBudget::Share& memory) try {
  const uint64_t size = is_gzip(content) ? std::min(limits.max_file_bytes, gzip_size(content)) : 0;
  memory.set(content.size() + size);
  std::string unpacked;
  const std::string_view text = unpack(content, limits, unpacked);
  memory.set(content.size() + unpacked.size() + memory_to_parse(text));
  return stores::make_record(key, structure_payload(parse_text(text)));
} catch (const ReadError&) {
  throw;
} catch (const files::DataError& error) {
  return stores::make_record(key, failure_payload(error.what()));
}

}  // namespace

ReadResult read_file(const InputFile& file, const ReadLimits& limits, const stores::RecordStore& cache,
                     MemoryBudget& budget) {
  ReadResult result;
  result.memory = MemoryBudget::Share(budget);
  result.entry.is.state = file.state;
  result.entry.is.limit = limits.max_file_bytes;
  const int64_t begin = now();
  try {
    result.memory.set(std::min(file.state.bytes, limits.max_file_bytes));
    const FileContent content = read_content(file.path, limits);
    const files::Hash128 key = files::hash128(content.bytes);
    const auto* known = cache.find(key);
    const bool whole = known != nullptr && StoredFile::of(cache, *known);
    if (!whole) result.record = record_of(key, content.bytes, limits, result.memory);
    result.is_damaged = known != nullptr && !whole;
    result.entry.is.state = content.state;
    result.entry.is.hash = key;
    result.lasting = content.state.settled_at(begin);
  } catch (const ReadError& error) {
    result.entry.is.cause = error.cause();
    result.entry.is.code = error.code();
    result.entry.reason = error.what();
    result.lasting = error.cause() != ReadError::kPassing && file.state.settled_at(begin);
  } catch (const std::bad_alloc&) {
    result.entry.reason = "needs more memory than there is";
  }
  result.memory.set(result.record.size());
  return result;
}

bool holds(const FileIndex::Entry& entry, const InputFile& file, const ReadLimits& limits) {
  if (entry.is_read()) return true;
  if (entry.is.cause == ReadError::kLimit) return entry.is.limit == limits.max_file_bytes;
  return entry.is.cause != ReadError::kSystem || opening_error(file.path) == entry.is.code;
}

}  // namespace pipeline::structures
