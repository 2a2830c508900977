#include "core/plugins/free_port.hpp"

#include <cerrno>
#include <cstring>
#include <string>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/plugins/error.hpp"

namespace pipeline::plugins {

std::uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);  // it must be free on every interface
  socklen_t size = sizeof address;
  const bool bound = fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  const int problem = errno;
  if (fd >= 0) ::close(fd);
  if (!bound) throw Error(std::string("no free TCP port: ") + std::strerror(problem));
  return ntohs(address.sin_port);
}

}  // namespace pipeline::plugins
