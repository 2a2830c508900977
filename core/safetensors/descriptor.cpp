#include "core/safetensors/descriptor.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace pipeline::safetensors {

Error system_error(const std::string& what) {
  const int code = errno;
  return Error(what + ": " + std::strerror(code), code);
}

Descriptor::Descriptor(const std::string& path, int flags)
    : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
  if (fd_ < 0) throw system_error(path + ": cannot be opened");
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

void Descriptor::close(const std::string& path) {
  if (::close(std::exchange(fd_, -1)) != 0) throw system_error(path + ": cannot be closed");
}

}  // namespace pipeline::safetensors
