#include "core/safetensors/writer.hpp"

#include <algorithm>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/json/strict_json.hpp"

namespace pipeline::safetensors {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

// Whether it is a regular file, which alone is ours to remove: a path may also lead to a device or a pipe.
bool is_regular(int fd) {
  struct stat status;
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

Writer::Writer(const std::string& path, WriterOptions options)
    : name_(path),
      file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)),
      remove_unfinished_(file_ && is_regular(file_.fd())),
      options_(std::move(options)) {
  if (!file_) throw system_error(name_ + ": cannot be opened");
}

Writer::~Writer() {
  if (remove_unfinished_ && !finished_) ::unlink(name_.c_str());
}

void Writer::declare(const std::string& name, Dtype dtype, const Shape& shape) {
  const std::string context = name_ + ": tensor " + strict_json::excerpt(name);
  if (laid_out_) throw SafetensorsError(context + ": declared after the layout was fixed");
  if (name == "__metadata__") throw SafetensorsError(context + ": this name is reserved by the format");
  byte_size(dtype, shape, context);                // throws for a shape that cannot be
  tensors_.push_back({name, dtype, shape, 0, 0});  // offsets: see layout()
}

std::span<const TensorInfo> Writer::layout() {
  if (laid_out_) return tensors_;
  lay_out(tensors_, name_);
  laid_out_ = true;
  return tensors_;
}

void Writer::begin() {
  if (begun_) return;
  layout();
  begun_ = true;
  buffer_ = std::make_unique<std::byte[]>(kBufferBytes);
  const std::string header = format_header(tensors_, options_.metadata, name_);
  append(std::as_bytes(std::span(header)));
  skip_complete();
}

void Writer::skip_complete() {
  while (current_ < tensors_.size() && position_ == tensors_[current_].end) ++current_;
}

void Writer::write(std::string_view name, std::span<const std::byte> piece) {
  if (finished_) throw SafetensorsError(name_ + ": written to after it was finished");
  begin();
  if (piece.empty()) return;
  if (current_ == tensors_.size() || tensors_[current_].name != name)
    throw SafetensorsError(name_ + ": data of tensor " + strict_json::excerpt(std::string(name)) +
                           " written, expected " +
                           (current_ == tensors_.size() ? "none: all are complete"
                                                        : strict_json::excerpt(tensors_[current_].name)));
  const TensorInfo& tensor = tensors_[current_];
  if (piece.size() > tensor.end - position_)
    throw SafetensorsError(name_ + ": tensor " + strict_json::excerpt(tensor.name) + ": " +
                           std::to_string(position_ - tensor.begin + piece.size()) +
                           " bytes written, expected " + std::to_string(tensor.end - tensor.begin));
  append(piece);
  position_ += piece.size();
  skip_complete();
}

void Writer::finish() {
  if (finished_) throw SafetensorsError(name_ + ": finished twice");
  begin();
  if (current_ < tensors_.size()) {
    const TensorInfo& tensor = tensors_[current_];
    throw SafetensorsError(name_ + ": tensor " + strict_json::excerpt(tensor.name) + ": only " +
                           std::to_string(position_ - tensor.begin) + " of " +
                           std::to_string(tensor.end - tensor.begin) + " bytes were written");
  }
  flush();
  if (options_.sync && ::fsync(file_.fd()) != 0) throw system_error(name_ + ": cannot be synced to disk");
  if (!file_.close())
    throw system_error(name_ + ": cannot be closed");  // maybe the first sign of a lost write
  finished_ = true;
}

// Small pieces are gathered, large ones go straight through.
void Writer::append(std::span<const std::byte> bytes) {
  if (buffered_ + bytes.size() > kBufferBytes) flush();
  if (bytes.size() >= kBufferBytes) return put(bytes);
  std::copy(bytes.begin(), bytes.end(), buffer_.get() + buffered_);
  buffered_ += bytes.size();
}

void Writer::flush() {
  put({buffer_.get(), buffered_});
  buffered_ = 0;
}

void Writer::put(std::span<const std::byte> bytes) {
  const size_t all = bytes.size();
  const bool whole = write_all(file_.fd(), bytes);
  written_ += all - bytes.size();
  if (!whole) throw system_error(name_ + ": cannot be written after " + std::to_string(written_) + " bytes");
}

}  // namespace pipeline::safetensors
