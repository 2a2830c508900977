#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/descriptor.hpp"
#include "core/safetensors/header.hpp"

namespace pipeline::safetensors {

struct WriterOptions {
  bool sync = false;                       // fsync before finish() returns
  Metadata metadata = {{"format", "pt"}};  // transformers refuses files without this entry
};

// Writes a safetensors file from front to back, with memory use that does not grow with the data: declare
// every tensor, then write the data of each, in any number of pieces, in the order of layout().
//
//   Writer writer(path);
//   writer.declare("wte.weight", Dtype::kF32, {vocab, width});
//   writer.write("wte.weight", bytes);
//   writer.finish();
//
// A file that is not finished is removed. Not for use by several threads at once.
class Writer {
 public:
  explicit Writer(const std::string& path, WriterOptions options = {});  // creates or replaces the file
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer();

  void declare(const std::string& name, Dtype dtype, const Shape& shape);

  // Returns the tensors in the order of their data: by decreasing element size, so that each is aligned,
  // then as declared. No declaration is accepted afterwards.
  std::span<const TensorInfo> layout();

  // Writes the next piece of `name`, which must be the first incomplete tensor of layout().
  void write(std::string_view name, std::span<const std::byte> piece);

  // Completes the file. Throws SafetensorsError when data is missing.
  void finish();

 private:
  void begin();
  void skip_complete();
  void append(std::span<const std::byte> bytes);
  void flush();
  void put(std::span<const std::byte> bytes);

  std::string name_;
  Descriptor file_;
  bool remove_unfinished_;
  WriterOptions options_;
  std::vector<TensorInfo> tensors_;
  bool laid_out_ = false;
  bool begun_ = false;
  bool finished_ = false;
  size_t current_ = 0;     // index of the tensor being written
  uint64_t position_ = 0;  // bytes of data accepted so far
  std::unique_ptr<std::byte[]> buffer_;
  size_t buffered_ = 0;
  uint64_t written_ = 0;  // bytes, with the header
};

}  // namespace pipeline::safetensors
