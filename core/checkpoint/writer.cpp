#include "core/checkpoint/writer.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iterator>
#include <span>
#include <utility>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/base/thread.hpp"
#include "core/observe/format.hpp"
#include "core/safetensors/crc32c.hpp"

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

constexpr std::string_view kConstant = "constant";

std::string file_name(std::string_view what, const Group& group) {
  char name[64];
  std::snprintf(name, sizeof name, "%.*s-%05d-of-%05d.safetensors", static_cast<int>(what.size()),
                what.data(), group.rank, group.world_size);
  return name;
}

uint64_t byte_count(const pl_piece& piece) { return piece.count * (piece.dtype.bits / 8u); }

void check_piece(const pl_piece& piece, const std::string& label) {
  const uint64_t count = element_count(shape_of(piece));
  if (piece.offset > count || piece.count > count - piece.offset)
    throw Error("checkpoint piece " + label + ": " + std::to_string(piece.count) + " elements from " +
                std::to_string(piece.offset) + " on, but the tensor has " + std::to_string(count));
  if (piece.count > 0 && !piece.data) throw Error("checkpoint piece " + label + ": has no data");
}

bool has_size(const std::string& path, uint64_t bytes) {
  std::error_code error;
  return std::filesystem::file_size(path, error) == bytes && !error;
}

void write_text(FileSystem& file_system, const std::string& path, const std::string& text) {
  const std::unique_ptr<OutputFile> file = file_system.create(path);
  file->write(std::as_bytes(std::span(text)));
  file->sync();
  file->close();
}

// One checkpoint on its way to disk, in phases that all ranks enter and leave together.
class Transaction {
 public:
  Transaction(Store& store, const Contents& contents, const Group& group, Constant* constant)
      : store_(store),
        files_(store.file_system()),
        contents_(contents),
        group_(group),
        constant_(constant),
        folder_(store.temporary_path_of(contents.step)) {}

  uint64_t run(const PieceSource& pieces) {
    try {
      together([&] {
        if (group_.rank == 0) begin();
      });
      together([&] { write_pieces(pieces); });
      together([&] {
        if (group_.rank == 0) commit();
      });
      if (constant_ != nullptr) constant_->moved_to(store_.path_of(contents_.step));
    } catch (...) {
      if (group_.rank == 0) discard();
      throw;
    }
    return bytes_;
  }

 private:
  // Runs one rank's part and agrees with the others that all parts went well.
  void together(const std::function<void()>& part) {
    std::string problem;
    uint32_t code = 0;
    try {
      part();
    } catch (const Error& error) {
      code = error.code();
      problem = error.what();
    } catch (const std::exception& error) {
      code = PL_ERROR_FAILED;
      problem = error.what();
    }
    const uint32_t worst = group_.worst ? group_.worst(code) : code;
    if (worst == 0) return;
    // All ranks throw the same code, so that all go on, or none.
    if (code == 0)
      problem = store_.path_of(contents_.step) +
                ": not written: another rank could not write its part, see its log";
    throw Error(worst, problem);
  }

  void begin() {
    files_.remove(folder_);
    files_.make_folder(folder_);
  }

  void write_pieces(const PieceSource& pieces) {
    const auto some = [&](bool is_constant) -> PieceSource {
      return [this, &pieces, is_constant](const PieceVisitor& visit) {
        pieces([&](const pl_piece& piece) {
          if ((constant_ != nullptr && constant_->has(piece)) == is_constant) visit(piece);
        });
      };
    };
    const std::string name = file_name("state", group_);
    PieceFile file(name, some(false));
    if (!file.empty()) {
      check_space(file.bytes());
      merge(share_, file.write(files_, folder_), name);
      bytes_ = file.bytes();
    }
    if (constant_ != nullptr && contents_.left_out.parameters.empty()) write_constant(some(true));
    if (group_.rank != 0)
      write_text(files_, share_path(group_.rank), format_manifest(share_, share_path(group_.rank)));
  }

  void write_constant(const PieceSource& pieces) {
    const std::string name = Constant::file_name(group_);
    PieceFile file(name, pieces);
    if (file.empty() && !constant_->is_in_place()) return;
    const auto [share, is_new] = constant_->put(file, files_, folder_, [&] { check_space(file.bytes()); });
    merge(share_, share, name);
    (is_new ? bytes_ : shared_bytes_) += share.files.front().bytes;
  }

  void check_space(uint64_t needed) const {
    const uint64_t available = files_.free_bytes(folder_);
    if (available >= needed) return;
    throw Error(PL_ERROR_NO_SPACE, store_.path_of(contents_.step) + ": needs " +
                                       observe::human_bytes(needed) + ", the disk has " +
                                       observe::human_bytes(available) + " free");
  }

  void commit() {
    Manifest manifest = share_;
    for (int rank = 1; rank < group_.world_size; ++rank) {
      const std::string path = share_path(rank);
      merge(manifest, parse_manifest(read_text(path), path), path);
      files_.remove(path);
    }
    manifest.contents = contents_;
    manifest.world_size = group_.world_size;
    const std::string path = folder_ + "/" + kManifestName;
    check_coverage(manifest, path);
    write_text(files_, path, format_manifest(manifest, path));
    files_.sync_folder(folder_);
    move_into_place();
    bytes_ = 0;
    for (const StoredFile& file : manifest.files)
      if (shared_bytes_ == 0 || !file.name.starts_with(kConstant)) bytes_ += file.bytes;
  }

  void move_into_place() {
    const std::string target = store_.path_of(contents_.step);
    const std::string replaced = store_.replaced_path_of(contents_.step);
    const bool replaces = exists(target);
    if (replaces) {
      files_.remove(replaced);
      files_.rename(target, replaced);
    }
    try {
      files_.rename(folder_, target);
    } catch (...) {
      if (replaces) files_.rename(replaced, target);
      throw;
    }
    files_.sync_folder(store_.options().folder);
    if (replaces) files_.remove(replaced);
  }

  // The error that led here is the one to tell; what cannot be removed now goes in the next Store::recover().
  void discard() noexcept {
    try {
      files_.remove(folder_);
    } catch (...) {
    }
  }

  std::string share_path(int rank) const { return folder_ + "/share-" + std::to_string(rank) + ".json"; }

  Store& store_;
  FileSystem& files_;
  const Contents& contents_;
  const Group& group_;
  Constant* const constant_;
  std::string folder_;
  Manifest share_;
  uint64_t bytes_ = 0, shared_bytes_ = 0;  // written; and there already
};

}  // namespace

bool Constant::is_in_place() const {
  return is_linked_ && has_size(folder_ + "/" + share_.files.front().name, share_.files.front().bytes);
}

std::string Constant::file_name(const Group& group) { return checkpoint::file_name(kConstant, group); }

void Constant::continue_from(const Checkpoint& from, const Group& group) {
  folder_ = from.path();
  share_ = from.manifest().of_file(file_name(group));
}

std::pair<Manifest, bool> Constant::put(PieceFile& file, FileSystem& file_system, const std::string& folder,
                                        const std::function<void()>& before_writing) {
  const auto sorted = [](std::vector<Tensor> tensors) {
    std::ranges::sort(tensors, {}, [](const Tensor& t) { return std::pair(t.kind, t.parameter); });
    return tensors;
  };
  is_linked_ = false;
  const bool is_known = !folder_.empty() && !share_.files.empty();
  if (is_known && (file.empty() || sorted(share_.tensors) == sorted(file.layout().tensors))) {
    const StoredFile& stored = share_.files.front();
    const std::string to = folder + "/" + stored.name;
    if (file_system.link(folder_ + "/" + stored.name, to)) {
      if (has_size(to, stored.bytes)) {
        is_linked_ = true;
        return {share_, false};
      }
      file_system.remove(to);  // somebody has cut it off
    }
  }
  if (file.empty())
    throw Error(PL_ERROR_CORRUPT,
                folder_ + "/" + share_.files.front().name + ": was removed or cut off by another program");
  before_writing();
  folder_.clear();  // until this one is in place, no folder has what share_ says
  share_ = {};
  Manifest written = file.write(file_system, folder);
  share_ = written;
  const std::string probe = folder + "/link";
  is_linked_ = file_system.link(folder + "/" + share_.files.front().name, probe);
  if (is_linked_) file_system.remove(probe);
  return {std::move(written), true};
}

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
  } catch (const safetensors::SafetensorsError& error) {
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

Saved write(Store& store, const Contents& contents, const PieceSource& pieces, const Group& group,
            Constant* constant) {
  const auto start = std::chrono::steady_clock::now();
  Saved saved{contents.step, store.path_of(contents.step), 0, 0, {}, {}};
  const auto prune = [&] {
    if (group.rank != 0) return;
    try {
      std::ranges::move(store.prune(contents.step), std::back_inserter(saved.pruned));
    } catch (const Error& error) {
      saved.prune_problem = error.what();
    }
  };
  prune();  // what was kept until the last one proved sound makes room
  saved.bytes = Transaction(store, contents, group, constant).run(pieces);
  prune();
  saved.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return saved;
}

BackgroundWriter::BackgroundWriter(Store& store, Group group, Constant* constant)
    : store_(store), group_(std::move(group)), constant_(constant) {}

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
  thread_ =
      start_thread("pl-write", [this, contents = std::move(contents), pieces = std::move(pieces)]() mutable {
        try {
          saved_ = write(store_, contents, pieces, group_, constant_);
        } catch (...) {
          failure_ = std::current_exception();
        }
        pieces = nullptr;
        done_ = true;
      });
  return previous;
}

}  // namespace pipeline::checkpoint
