#include "plugins/data/records/input.hpp"

#include <utility>

#include "plugins/data/files/regular_file.hpp"

namespace pipeline::records {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 16;

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
  if (start.empty()) throw DataError(path() + ": the file is empty: it must hold at least one record");
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

}  // namespace pipeline::records
