#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/safetensors/header.hpp"

namespace pipeline::safetensors {

// Gives back the memory that reading a part of a mapped file took, whole pages inside it alone; the next
// reading brings it in from the file again.
void forget(std::span<const std::byte> mapped);

// One tensor in a mapped file. The data is row-major, little-endian, borrowed from its File, and aligned only
// as far as the writer of the file cared: copy it out rather than cast it.
struct TensorView {
  std::string name;
  Dtype dtype;
  Shape shape;
  std::span<const std::byte> data;

  std::string_view dtype_name() const { return safetensors::dtype_name(dtype); }
  int64_t element_count() const;
  void forget() const { safetensors::forget(data); }
};

// A safetensors file, mapped into memory read-only: opening costs the header, data comes in as it is touched.
// Const and safe for any thread. A file that another process shortens while it is mapped raises SIGBUS on
// access, as with any mapped file: write new files and rename them into place.
class File {
 public:
  // Throws Error unless the file is valid in every respect that parse_header() checks.
  static File open(const std::string& path);

  const std::string& path() const { return path_; }
  const Metadata& metadata() const { return metadata_; }
  const std::vector<TensorView>& tensors() const { return tensors_; }  // in the order of their data

  const TensorView* find(std::string_view name) const;  // nullptr when there is none
  const TensorView& at(std::string_view name) const;    // throws Error when there is none

 private:
  struct Unmap {
    size_t size;
    void operator()(void* address) const;
  };

  File() = default;

  std::string path_;
  std::unique_ptr<void, Unmap> image_;  // the whole file
  Metadata metadata_;
  std::vector<TensorView> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
};

}  // namespace pipeline::safetensors
