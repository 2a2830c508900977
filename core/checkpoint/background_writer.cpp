#include "core/checkpoint/background_writer.hpp"

#include <utility>

namespace pipeline::checkpoint {

BackgroundWriter::BackgroundWriter(Store& store, Group group) : store_(store), group_(std::move(group)) {}

BackgroundWriter::~BackgroundWriter() {
  if (thread_.joinable()) thread_.join();
}

std::optional<Saved> BackgroundWriter::poll() { return busy() ? std::nullopt : finish(); }

std::optional<Saved> BackgroundWriter::finish() {
  if (!thread_.joinable()) return std::nullopt;
  thread_.join();
  if (const std::exception_ptr failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
  return std::move(saved_);
}

std::optional<Saved> BackgroundWriter::start(Contents contents, PieceSource pieces) {
  std::optional<Saved> previous = finish();
  done_ = false;
  thread_ = std::thread([this, contents = std::move(contents), pieces = std::move(pieces)]() mutable {
    try {
      saved_ = write(store_, contents, pieces, group_);
    } catch (...) {
      failure_ = std::current_exception();
    }
    pieces = nullptr;
    done_ = true;
  });
  return previous;
}

}  // namespace pipeline::checkpoint
