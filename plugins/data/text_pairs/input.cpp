#include "plugins/data/text_pairs/input.hpp"

#include <utility>

#include "plugins/data/files/text_file.hpp"

namespace pipeline::text_pairs {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 16;

// What is wrong with a file that has no state, those who open it say better.
SourceFile state_of(const std::string& path) {
  std::error_code ignored;
  return {.path = path,
          .bytes = std::filesystem::file_size(path, ignored),
          .time = std::filesystem::last_write_time(path, ignored),
          .hash = {}};
}

}  // namespace

Input::Input(const std::string& path, OnBlock on_block)
    : file_(path), on_block_(std::move(on_block)), block_(kBlockBytes) {
  look_at_start();
}

void Input::look_at_start() {
  // A read may hand out fewer bytes than are asked for.
  while (end_ < files::kStartOfText) {
    const size_t before = end_;
    fill();
    if (end_ == before) break;
  }
  const std::string_view start(block_.data(), end_);
  if (start.empty()) throw DataError(path() + ": the file is empty: it must hold at least one pair");
  if (const std::string problem = files::why_no_text(start); !problem.empty())
    throw DataError(path() + ": " + problem);
  if (start.starts_with("\xef\xbb\xbf")) at_ = 3;
}

// Appends to what is there if nothing was taken yet (look_at_start), else starts the block anew.
void Input::fill() {
  if (at_ == end_ && at_ > 0) at_ = end_ = 0;
  const size_t got = file_.read(block_.data() + end_, block_.size() - end_);
  end_ += got;
  if (got > 0 && on_block_) on_block_(file_.bytes_read());
}

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

}  // namespace pipeline::text_pairs
