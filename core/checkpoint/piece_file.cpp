#include "core/checkpoint/piece_file.hpp"

#include <algorithm>
#include <span>
#include <string>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/safetensors/crc32c.hpp"
#include "core/safetensors/header.hpp"

namespace pipeline::checkpoint {
namespace {

// Small enough that the checksum leaves the bytes in the processor's cache for the write that follows.
constexpr size_t kWriteBytes = size_t{1} << 20;

class SummingFile {
 public:
  SummingFile(FileSystem& file_system, const std::string& path) : file_(file_system.create(path)) {}

  void write(std::span<const std::byte> bytes) {
    bytes_ += bytes.size();
    while (!bytes.empty()) {
      const std::span<const std::byte> chunk = bytes.first(std::min(bytes.size(), kWriteBytes));
      crc_ = safetensors::crc32c(crc_, chunk);
      file_->write(chunk);
      bytes = bytes.subspan(chunk.size());
    }
  }
  void finish() {
    file_->sync();
    file_->close();
  }
  uint64_t bytes() const { return bytes_; }
  uint32_t crc32c() const { return crc_; }

 private:
  std::unique_ptr<OutputFile> file_;
  uint64_t bytes_ = 0;
  uint32_t crc_ = 0;
};

uint64_t byte_count(const pl_piece& piece) { return piece.count * (piece.dtype.bits / 8u); }

void check_piece(const pl_piece& piece, const std::string& label) {
  const uint64_t count = element_count(shape_of(piece));
  if (piece.offset > count || piece.count > count - piece.offset)
    throw Error("checkpoint piece " + label + ": " + std::to_string(piece.count) + " elements from " +
                std::to_string(piece.offset) + " on, but the tensor has " + std::to_string(count));
  if (piece.count > 0 && !piece.data) throw Error("checkpoint piece " + label + ": has no data");
}

}  // namespace

PieceFile::PieceFile(const std::string& name, const PieceSource& pieces) : pieces_(pieces) {
  std::vector<safetensors::TensorInfo> tensors;
  Manifest found;
  pieces_([&](const pl_piece& piece) {
    const std::string kind(view(piece.kind));
    const std::string parameter(view(piece.parameter));
    const std::string label = tensor_label(kind, parameter);
    const std::vector<int64_t> shape = shape_of(piece);
    const safetensors::Dtype dtype = dtype_of(piece, label);
    check_piece(piece, label);
    const bool whole = piece.count == element_count(shape);
    const std::string stored = whole ? label : label + "@" + std::to_string(piece.offset);
    tensors.push_back(
        {stored, dtype, whole ? shape : safetensors::Shape{static_cast<int64_t>(piece.count)}, 0, 0});
    found.tensors.push_back({kind,
                             parameter,
                             std::string(safetensors::dtype_name(dtype)),
                             shape,
                             {{piece.offset, piece.count, 0, stored}}});
    widths_.insert(piece.dtype.bits);
  });
  merge(share_, found, name);
  share_.files = {{name, 0, 0}};
  try {
    data_bytes_ = safetensors::lay_out(tensors, name);
    header_ = safetensors::format_header(tensors, {{"format", "pt"}}, name);
  } catch (const safetensors::Error& error) {
    throw Error(error.what());
  }
}

Manifest PieceFile::write(FileSystem& file_system, const std::string& folder) {
  StoredFile& stored = share_.files.front();
  SummingFile file(file_system, folder + "/" + stored.name);
  file.write(std::as_bytes(std::span(header_)));
  for (const int width : widths_) {
    pieces_([&](const pl_piece& piece) {
      if (piece.dtype.bits == width)
        file.write({static_cast<const std::byte*>(piece.data), byte_count(piece)});
    });
  }
  if (file.bytes() != bytes())
    throw Error(stored.name + ": the snapshot's pieces add up to " + std::to_string(file.bytes()) +
                " bytes now, and to " + std::to_string(bytes()) + " when they were counted");
  file.finish();
  stored.bytes = file.bytes();
  stored.crc32c = file.crc32c();
  return share_;
}

safetensors::Dtype dtype_of(const pl_piece& piece, std::string_view label) {
  using safetensors::Dtype;
  static constexpr struct {
    pl_dtype dtype;
    Dtype stored;
  } kStored[] = {
      {{PL_DTYPE_FLOAT, 16, 1}, Dtype::kF16}, {{PL_DTYPE_FLOAT, 32, 1}, Dtype::kF32},
      {{PL_DTYPE_FLOAT, 64, 1}, Dtype::kF64}, {{PL_DTYPE_BFLOAT, 16, 1}, Dtype::kBF16},
      {{PL_DTYPE_INT, 8, 1}, Dtype::kI8},     {{PL_DTYPE_INT, 16, 1}, Dtype::kI16},
      {{PL_DTYPE_INT, 32, 1}, Dtype::kI32},   {{PL_DTYPE_INT, 64, 1}, Dtype::kI64},
      {{PL_DTYPE_UINT, 8, 1}, Dtype::kU8},    {{PL_DTYPE_UINT, 16, 1}, Dtype::kU16},
      {{PL_DTYPE_UINT, 32, 1}, Dtype::kU32},  {{PL_DTYPE_UINT, 64, 1}, Dtype::kU64},
      {{PL_DTYPE_BOOL, 8, 1}, Dtype::kBool},
  };
  for (const auto& [dtype, stored] : kStored)
    if (dtype.code == piece.dtype.code && dtype.bits == piece.dtype.bits && dtype.lanes == piece.dtype.lanes)
      return stored;
  throw Error(PL_ERROR_UNSUPPORTED,
              "checkpoint piece " + std::string(label) + ": dtype code " + std::to_string(piece.dtype.code) +
                  " with " + std::to_string(piece.dtype.bits) + " bits and " +
                  std::to_string(piece.dtype.lanes) + " lanes cannot be stored in safetensors");
}

}  // namespace pipeline::checkpoint
