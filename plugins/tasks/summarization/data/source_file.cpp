#include "plugins/tasks/summarization/data/source_file.hpp"

#include "plugins/tasks/summarization/data/files.hpp"
#include "plugins/tasks/summarization/data/input.hpp"

namespace pipeline::summarization {
namespace {

// What is wrong with a file that has no state, those who open it say better.
SourceFile state_of(const std::string& path) {
  std::error_code ignored;
  return {.path = path,
          .bytes = std::filesystem::file_size(path, ignored),
          .time = std::filesystem::last_write_time(path, ignored),
          .hash = {}};
}

}  // namespace

SourceFile hash_source(const std::string& path,
                       const std::function<void(uint64_t done, uint64_t total)>& on_block) {
  SourceFile file = state_of(path);  // first, so that a change while it is hashed is noticed, too
  Input input(path, [&](uint64_t done) {
    if (on_block) on_block(done, file.bytes);
  });
  Hasher128 hasher;
  for (auto block = input.ahead(); !block.empty(); block = input.ahead()) {
    hasher.update(block);
    input.advance(block.size());
  }
  file.hash = hasher.finish();
  return file;
}

void check_unchanged(const SourceFile& file) {
  const SourceFile now = state_of(file.path);
  if (now.bytes != file.bytes || now.time != file.time) {
    throw DataError(file.path + ": changed while it was being read: start again when it is complete");
  }
}

}  // namespace pipeline::summarization
