// HTTP as bytes, so that a test can send what no client would.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "core/base/socket.hpp"

namespace pipeline::tests {

inline uint16_t port_of(const std::string& url) {  // "http://127.0.0.1:8080/..."
  const std::string rest = url.substr(url.find("//") + 2);
  return split_address(rest.substr(0, rest.find('/'))).value().port;
}

inline Socket connect_to_port(uint16_t port) {
  return connect_to(resolve("127.0.0.1", port).addresses.at(0), std::chrono::seconds(5));
}

// What the server sends back until it closes; empty where it cannot be reached.
inline std::string talk(uint16_t port, const std::string& sent) {
  const Socket socket = connect_to_port(port);
  std::string answer;
  if (!socket) return answer;
  ::send(socket.fd(), sent.data(), sent.size(), MSG_NOSIGNAL);
  char block[4096];
  for (ssize_t count = 0; (count = ::read(socket.fd(), block, sizeof block)) > 0;)
    answer.append(block, static_cast<size_t>(count));
  return answer;
}

inline std::string request(uint16_t port, const std::string& line, const std::string& host = "localhost") {
  return talk(port, line + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
}

inline std::string body_of(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }

}  // namespace pipeline::tests
