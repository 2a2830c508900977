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

// Releases the memory of a part of a mapped file, only the whole pages within it; the next access reads
// them from the file again.
void forget(std::span<const std::byte> mapped);

// One tensor in a mapped file. The data is row-major, little-endian, borrowed from its File, and may be
// unaligned, depending on the file's writer: copy it out rather than cast it.
struct TensorView {
  std::string name;
  Dtype dtype;
  Shape shape;
  std::span<const std::byte> data;

  std::string_view dtype_name() const { return safetensors::dtype_name(dtype); }
  int64_t element_count() const;
  void forget() const { safetensors::forget(data); }
};

struct Unmap {  // of a file in memory
  size_t size;
  void operator()(void* address) const;
};

// A safetensors file, mapped into memory read-only: opening reads only the header, data is read on access.
// Immutable and safe for any thread. If another process shortens the file while it is mapped, access raises
// SIGBUS, as with any mapped file: write new files and rename them into place.
class File {
 public:
  // Throws SafetensorsError unless the file is valid in every respect that parse_header() checks.
  static File open(const std::string& path);

  const std::string& path() const { return path_; }
  const Metadata& metadata() const { return metadata_; }
  const std::vector<TensorView>& tensors() const { return tensors_; }  // in the order of their data

  const TensorView* find(std::string_view name) const;  // nullptr if there is none
  const TensorView& at(std::string_view name) const;    // throws SafetensorsError if there is none

 private:
  File() = default;

  std::string path_;
  std::unique_ptr<void, Unmap> image_;  // the whole file
  Metadata metadata_;
  std::vector<TensorView> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
};

// The weights in a Hugging Face model folder: `model.safetensors` or, if there is none, the shards named in
// `model.safetensors.index.json`; or of another name. Immutable and safe for any thread.
class Folder {
 public:
  // Throws SafetensorsError unless the files are valid and agree with the index: every tensor that it lists
  // is in the file named for it, and every tensor in those files is listed with that file.
  static Folder open(const std::string& folder, const std::string& name = "model.safetensors");

  const std::string& path() const { return path_; }
  const std::vector<File>& files() const { return files_; }

  std::vector<std::string> names() const;               // sorted
  size_t size() const { return index_.size(); }         // tensors
  const TensorView* find(std::string_view name) const;  // nullptr if there is none
  const TensorView& at(std::string_view name) const;    // throws SafetensorsError if there is none

 private:
  void open_shards(const std::string& index_path);

  std::string path_;
  std::vector<File> files_;
  std::map<std::string, const TensorView*, std::less<>> index_;  // into files_
};

}  // namespace pipeline::safetensors
