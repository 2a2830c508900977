#include "core/safetensors/file.hpp"

#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/safetensors/descriptor.hpp"
#include "core/safetensors/error.hpp"

namespace pipeline::safetensors {
namespace {

std::span<std::byte> map_file(const std::string& path) {
  const Descriptor file(path, O_RDONLY);
  struct stat status;
  if (::fstat(file.fd(), &status) != 0) throw system_error(path + ": cannot be examined");
  if (!S_ISREG(status.st_mode)) throw Error(path + ": is not a regular file");
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) throw Error(path + ": is empty");
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (address == MAP_FAILED)
    throw system_error(path + ": cannot be mapped (" + std::to_string(size) + " bytes)");
  return {static_cast<std::byte*>(address), size};
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
  Header header = parse_header(image, path);
  file.metadata_ = std::move(header.metadata);
  for (TensorInfo& tensor : header.tensors) {
    file.index_.emplace(tensor.name, file.tensors_.size());
    file.tensors_.push_back({std::move(tensor.name), tensor.dtype, std::move(tensor.shape),
                             image.subspan(header.data_start + tensor.begin, tensor.end - tensor.begin)});
  }
  return file;
}

void File::Unmap::operator()(void* address) const { ::munmap(address, size); }

const TensorView* File::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const TensorView& File::at(std::string_view name) const {
  if (const TensorView* tensor = find(name)) return *tensor;
  throw Error(path_ + ": has no tensor \"" + std::string(name) + "\" among its " +
              std::to_string(tensors_.size()));
}

}  // namespace pipeline::safetensors
