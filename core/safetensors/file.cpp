#include "core/safetensors/file.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/descriptor.hpp"
#include "core/base/foreign.hpp"
#include "core/json/strict_json.hpp"

namespace pipeline::safetensors {
namespace {

std::span<std::byte> map_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe would hold us up
  if (!file) throw system_error(path + ": cannot be opened");
  struct stat status;
  if (::fstat(file.fd(), &status) != 0) throw system_error(path + ": cannot be examined");
  if (!S_ISREG(status.st_mode)) throw SafetensorsError(path + ": is not a regular file");
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) throw SafetensorsError(path + ": is empty");
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (address == MAP_FAILED)
    throw system_error(path + ": cannot be mapped (" + std::to_string(size) + " bytes)");
  return {static_cast<std::byte*>(address), size};
}

using nlohmann::json;

// An index comes with weights from elsewhere: it may name files beside it, never a path.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

json parse_index(std::string_view text, const std::string& path) {
  try {
    return strict_json::parse(text, path);
  } catch (const strict_json::JsonError& error) {
    throw SafetensorsError(error.what());
  }
}

}  // namespace

int64_t TensorView::element_count() const {
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  return count;
}

void forget(std::span<const std::byte> data) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(data.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(data.data() + data.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

File File::open(const std::string& path) {
  File file;
  file.path_ = path;
  const std::span<std::byte> image = map_file(path);
  file.image_ = {image.data(), Unmap{image.size()}};
  const std::string_view start(reinterpret_cast<const char*>(image.data()),
                               std::min(image.size(), foreign::kStart));
  if (const std::string found = foreign::content(start); !found.empty())
    throw SafetensorsError(path + ": " + found);
  Header header = parse_header(image, path);
  file.metadata_ = std::move(header.metadata);
  for (TensorInfo& tensor : header.tensors) {
    file.index_.emplace(tensor.name, file.tensors_.size());
    file.tensors_.push_back({std::move(tensor.name), tensor.dtype, std::move(tensor.shape),
                             image.subspan(header.data_start + tensor.begin, tensor.end - tensor.begin)});
  }
  return file;
}

void Unmap::operator()(void* address) const { ::munmap(address, size); }

const TensorView* File::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const TensorView& File::at(std::string_view name) const {
  if (const TensorView* tensor = find(name)) return *tensor;
  throw SafetensorsError(path_ + ": has no tensor \"" + std::string(name) + "\" among its " +
                         std::to_string(tensors_.size()));
}

Folder Folder::open(const std::string& folder, const std::string& name) {
  Folder result;
  result.path_ = folder;
  const std::filesystem::path base(folder);
  std::error_code ignored;
  const std::string index = name + ".index.json";
  if (std::filesystem::exists(base / name, ignored)) {
    result.files_.push_back(File::open((base / name).string()));
    for (const TensorView& tensor : result.files_.front().tensors())
      result.index_.emplace(tensor.name, &tensor);
  } else if (std::filesystem::exists(base / index, ignored)) {
    result.open_shards((base / index).string());
  } else {
    const std::string found = foreign::folder(folder);
    throw SafetensorsError(folder + ": " + (found.empty() ? "has neither " + name + " nor " + index : found));
  }
  return result;
}

void Folder::open_shards(const std::string& index_path) {
  const std::span<std::byte> image = map_file(index_path);
  const std::unique_ptr<void, Unmap> owner(image.data(), Unmap{image.size()});
  const json index = parse_index({reinterpret_cast<const char*>(image.data()), image.size()}, index_path);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    throw SafetensorsError(index_path + ": must be an object with \"weight_map\", an object of file names");

  std::map<std::string, std::string> expected;  // tensor -> shard
  std::map<std::string, size_t> shards;         // shard -> index in files_
  for (const auto& [name, shard] : index["weight_map"].items()) {
    if (!shard.is_string() || !is_plain_name(shard.get_ref<const std::string&>()))
      throw SafetensorsError(index_path + ": weight_map[" + strict_json::excerpt(name) + "] = " +
                             strict_json::excerpt(shard) + ": must be the name of a file in the same folder");
    expected.emplace(name, shard.get<std::string>());
    shards.emplace(shard.get<std::string>(), 0);
  }
  for (auto& [shard, position] : shards) {
    position = files_.size();
    files_.push_back(File::open((std::filesystem::path(path_) / shard).string()));
    for (const TensorView& tensor : files_.back().tensors()) {
      const auto mapped = expected.find(tensor.name);
      if (mapped == expected.end() || mapped->second != shard)
        throw SafetensorsError(files_.back().path() + ": tensor " + strict_json::excerpt(tensor.name) + ": " +
                               index_path + " maps it to " +
                               (mapped == expected.end() ? "no file" : strict_json::excerpt(mapped->second)));
    }
  }
  for (const auto& [name, shard] : expected) {
    const File& file = files_[shards.at(shard)];
    const TensorView* tensor = file.find(name);
    if (tensor == nullptr)
      throw SafetensorsError(file.path() + ": has no tensor " + strict_json::excerpt(name) + ", which " +
                             index_path + " maps to it");
    index_.emplace(name, tensor);
  }
}

std::vector<std::string> Folder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : index_) names.push_back(entry.first);
  return names;
}

const TensorView* Folder::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : found->second;
}

const TensorView& Folder::at(std::string_view name) const {
  if (const TensorView* tensor = find(name)) return *tensor;
  throw SafetensorsError(path_ + ": has no tensor " + strict_json::excerpt(std::string(name)) +
                         " among its " + std::to_string(size()));
}

}  // namespace pipeline::safetensors
