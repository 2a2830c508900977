#include "core/checkpoint/checkpoint.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <sys/stat.h>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/checkpoint/file_system.hpp"
#include "core/checkpoint/store.hpp"
#include "core/checkpoint/writer.hpp"
#include "core/safetensors/crc32c.hpp"
#include "core/safetensors/header.hpp"

namespace pipeline::checkpoint {
namespace {

void check_size(const std::string& path, uint64_t expected) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) corrupt(path + ": is missing");
    throw Error(path + ": cannot be examined: " + std::strerror(errno));
  }
  const auto actual = static_cast<uint64_t>(status.st_size);
  if (actual != expected)
    corrupt(path + ": has " + std::to_string(actual) + " bytes, the manifest says " +
            std::to_string(expected) + (actual < expected ? ": truncated" : ""));
}

constexpr uint64_t kElements = uint64_t{1} << 20;  // in memory at once

}  // namespace

Manifest read_manifest(const std::string& path) {
  const std::string file = path + "/" + kManifestName;
  if (!exists(file)) corrupt(file + ": is missing: not a complete checkpoint");
  Manifest manifest = parse_manifest(read_text(file), file);
  check_coverage(manifest, file);
  for (const StoredFile& stored : manifest.files) check_size(path + "/" + stored.name, stored.bytes);
  return manifest;
}

Checkpoint Checkpoint::open(const std::string& path) {
  Checkpoint checkpoint(path, read_manifest(path));
  try {
    checkpoint.open_files();
  } catch (const safetensors::SafetensorsError& error) {
    if (error.os_error() != 0) throw Error(error.what());
    corrupt(error.what());
  }
  return checkpoint;
}

Checkpoint::Checkpoint(std::string path, Manifest manifest)
    : path_(std::move(path)), manifest_(std::move(manifest)) {
  for (size_t i = 0; i < manifest_.tensors.size(); ++i) {
    const Tensor& tensor = manifest_.tensors[i];
    if (!index_.try_emplace({tensor.kind, tensor.parameter}, i).second)
      corrupt(path_ + "/" + kManifestName + ": tensor " + tensor_label(tensor.kind, tensor.parameter) +
              " occurs twice");
  }
}

void Checkpoint::open_files() {
  for (const StoredFile& stored : manifest_.files)
    files_.push_back(safetensors::File::open(path_ + "/" + stored.name));
  for (const Tensor& tensor : manifest_.tensors) {
    for (const Extent& extent : tensor.extents) {
      const safetensors::TensorView& view = files_[extent.file].at(extent.name);
      if (view.dtype_name() != tensor.dtype || static_cast<uint64_t>(view.element_count()) != extent.count)
        corrupt(files_[extent.file].path() + ": tensor \"" + extent.name + "\" has " +
                std::to_string(view.element_count()) + " elements of " + std::string(view.dtype_name()) +
                ", the manifest says " + std::to_string(extent.count) + " of " + tensor.dtype);
    }
  }
}

const Tensor* Checkpoint::find(std::string_view kind, std::string_view parameter) const {
  const auto found = index_.find({std::string(kind), std::string(parameter)});
  return found == index_.end() ? nullptr : &manifest_.tensors[found->second];
}

void Checkpoint::verify() const {
  for (const StoredFile& stored : manifest_.files) {
    const std::string path = path_ + "/" + stored.name;
    check_size(path, stored.bytes);
    try {
      const uint32_t actual = safetensors::checksum_file(path);
      if (actual != stored.crc32c)
        corrupt(path + ": is damaged: its CRC-32C is " + hex(actual) + ", the manifest says " +
                hex(stored.crc32c));
    } catch (const safetensors::SafetensorsError& error) {
      throw Error(error.what());
    }
  }
}

// Widens bfloat16 to float32.
static void widen(std::span<const std::byte> narrow, std::byte* out) {
  for (size_t at = 0; at < narrow.size(); at += sizeof(uint16_t), out += sizeof(float)) {
    uint16_t bfloat16 = 0;
    std::memcpy(&bfloat16, narrow.data() + at, sizeof bfloat16);
    const float value = widened(bfloat16);
    std::memcpy(out, &value, sizeof value);
  }
}

void Checkpoint::read(const pl_piece& request, void* destination) const {
  const std::string label = tensor_label(view(request.kind), view(request.parameter));
  const std::string where = path_ + ": tensor " + label;
  const Tensor* tensor = find(view(request.kind), view(request.parameter));
  if (!tensor) throw Error(PL_ERROR_CONFIG, where + ": is not in this checkpoint");
  const std::vector<int64_t> shape = shape_of(request);
  const std::string_view dtype = safetensors::dtype_name(dtype_of(request, label));
  const bool is_widened = dtype == "F32" && tensor->dtype == "BF16";
  if (shape != tensor->shape || (dtype != tensor->dtype && !is_widened))
    throw Error(PL_ERROR_CONFIG, where + ": is " + tensor->dtype + " " +
                                     safetensors::shape_string(tensor->shape) + ", this run needs " +
                                     std::string(dtype) + " " + safetensors::shape_string(shape));
  const uint64_t count = element_count(shape);
  if (request.offset > count || request.count > count - request.offset)
    throw Error(where + ": " + std::to_string(request.count) + " elements from " +
                std::to_string(request.offset) + " on asked for, it has " + std::to_string(count));
  if (request.count == 0) return;

  // The extents are contiguous, so the first one that reaches past the offset holds its element.
  auto extent =
      std::upper_bound(tensor->extents.begin(), tensor->extents.end(), request.offset,
                       [](uint64_t offset, const Extent& e) { return offset < e.offset + e.count; });
  const size_t width = request.dtype.bits / 8u, stored = is_widened ? sizeof(uint16_t) : width;
  auto* out = static_cast<std::byte*>(destination);
  for (uint64_t done = 0; done < request.count; ++extent) {
    const uint64_t skip = request.offset + done - extent->offset;
    const uint64_t taken = std::min(extent->count - skip, request.count - done);
    const std::span<const std::byte> data =
        files_[extent->file].at(extent->name).data.subspan(skip * stored, taken * stored);
    if (is_widened) {
      widen(data, out + done * width);
    } else {
      std::memcpy(out + done * width, data.data(), data.size());
    }
    safetensors::forget(data);  // so that loading does not hold everything twice
    done += taken;
  }
}

Differences Checkpoint::check(std::span<const Wanted> wanted, bool may_drop) const {
  static constexpr std::string_view kValueKinds[] = {"value", "int8", "nf4"};
  const auto is_value = [](const Tensor& tensor) {
    return std::ranges::find(kValueKinds, tensor.kind) != std::end(kValueKinds);
  };
  std::map<std::string_view, const Tensor*> values;
  for (const Tensor& tensor : manifest_.tensors)
    if (is_value(tensor)) values[tensor.parameter] = &tensor;
  Differences allowed;
  std::string missing, unexpected, mis_shaped;
  std::map<std::string_view, bool> known;
  for (const Wanted& want : wanted) {
    known[want.parameter] = true;
    const auto found = values.find(want.parameter);
    const Tensor* tensor = found == values.end() ? nullptr : found->second;
    if (tensor && tensor->kind != want.kind) {
      if (tensor->kind == "value" && tensor->shape == want.value_shape) continue;
      const auto form = [](const std::string& kind) { return kind == "value" ? "auto" : kind; };
      mis_shaped += "\n  of another train.frozen_precision: " + want.parameter + " is \"" +
                    form(tensor->kind) + "\", the run has \"" + form(want.kind) + "\"";
    } else if (!tensor && want.may_be_missing) {
      allowed.missing.push_back(want.parameter);
    } else if (!tensor) {
      missing += "\n  missing: " + want.parameter + " " + safetensors::shape_string(want.shape);
    } else if (tensor->shape != want.shape) {
      mis_shaped += "\n  mis-shaped: " + want.parameter + " is " + safetensors::shape_string(tensor->shape) +
                    ", the model has " + safetensors::shape_string(want.shape);
    }
  }
  for (const Tensor& tensor : manifest_.tensors) {
    if (!is_value(tensor) || known.contains(tensor.parameter)) continue;
    const std::vector<std::string>& droppable = manifest_.contents.droppable;
    if (may_drop && std::ranges::find(droppable, tensor.parameter) != droppable.end()) {
      allowed.dropped.push_back(tensor.parameter);
    } else {
      unexpected += "\n  unexpected: " + tensor.parameter + " " + safetensors::shape_string(tensor.shape);
    }
  }
  if (!missing.empty() || !unexpected.empty() || !mis_shaped.empty())
    throw Error(PL_ERROR_CONFIG, path_ + ": does not fit the model:" + missing + unexpected + mis_shaped);
  return allowed;
}

Average Average::before(Checkpoint last, uint64_t count) {
  const std::string folder = std::filesystem::path(last.path()).parent_path().string(), path = last.path();
  std::vector<Checkpoint> of;
  of.push_back(std::move(last));
  const uint64_t step = of.front().contents().step;
  const Scan scan = Store({.folder = folder.empty() ? "." : folder}).scan();
  for (const Found& found : scan.checkpoints) {
    if (of.size() == count) break;
    if (found.step >= step) continue;
    of.push_back(Checkpoint::open(found.path));
    of.back().verify();
  }
  if (of.size() < count)
    throw Error(PL_ERROR_CONFIG,
                "--average " + std::to_string(count) + ": there are " + std::to_string(of.size()) +
                    " checkpoints up to " + path +
                    ": average as many, or keep more in the next run (checkpoint.keep, checkpoint.every)");
  return Average(std::move(of));
}

void Average::read(const pl_piece& request, void* destination) const {
  if (request.dtype.code != PL_DTYPE_FLOAT)
    return of_.front().read(request, destination);  // frozen, all alike
  auto* out = static_cast<float*>(destination);
  std::vector<float> values;
  std::vector<double> sum;
  pl_piece piece = request;
  for (uint64_t done = 0; done < request.count; done += piece.count) {
    piece.offset = request.offset + done;
    piece.count = std::min(kElements, request.count - done);
    values.resize(piece.count);
    sum.assign(piece.count, 0);
    for (const Checkpoint& one : of_) {
      one.read(piece, values.data());
      for (uint64_t i = 0; i < piece.count; ++i) sum[i] += static_cast<double>(values[i]);
    }
    for (uint64_t i = 0; i < piece.count; ++i)
      out[done + i] = static_cast<float>(sum[i] / static_cast<double>(of_.size()));
  }
}

}  // namespace pipeline::checkpoint
