// A few texts over HTTP, for browsers, on a thread of its own. It only reads: GET and HEAD of what `answer`
// knows. Whatever clients do, it takes no more than a few connections, kilobytes and seconds for each of
// them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/socket.hpp"

namespace pipeline::report {

class PageServer {
 public:
  struct Text {
    std::string type;                         // text/html
    std::shared_ptr<const std::string> text;  // null: there is nothing at this path
  };
  // Returns the text at a path ("/"), on the server's thread. May throw: the client is told why.
  using Answer = std::function<Text(std::string_view path)>;

  // Port 0: any that is free. On a loopback address it takes only requests for a name of this host, so that
  // no other site's name can be made to lead here (DNS rebinding); on any other address only those with the
  // token, a new one for each server. Throws Error where it cannot listen.
  PageServer(const HostPort& at, Answer answer);
  // Ends every connection at once.
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  // What to open in a browser, with the token if it needs one.
  const std::string& url() const;

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace pipeline::report
