#include "core/report/live_page.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include "core/base/fail.hpp"
#include "core/base/hash.hpp"
#include "core/base/thread.hpp"

namespace pipeline::report {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using namespace std::chrono_literals;

constexpr size_t kMostConnections = 16;
constexpr size_t kMostRequestBytes = size_t{8} << 10;
constexpr auto kRequestLimit = 10s, kResponseLimit = 60s, kFarewellLimit = 1s;
constexpr auto kRetry = 100ms;  // where descriptors have run out
constexpr int kNice = 10;

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    fail("no random token can be made: {}", std::strerror(errno));
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

// The value of `token` in the part of a target after '?'.
std::string_view token_in(std::string_view query) {
  constexpr std::string_view kName = "token=";
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    if (one.starts_with(kName)) return one.substr(kName.size());
    query.remove_prefix(std::min(query.size(), one.size() + 1));
  }
  return {};
}

std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(1, std::min(host.find(']'), host.size()) - 1);
  return host.substr(0, host.find(':'));
}

bool is_loopback_name(std::string_view host) {
  if (beast::iequals({host.data(), host.size()}, "localhost")) return true;
  error_code not_an_address;
  const auto address = asio::ip::make_address(std::string(host), not_an_address);
  return !not_an_address && address.is_loopback();
}

}  // namespace

class PageServer::Server {
 public:
  Server(const HostPort& at, Answer answer) : at_(at), answer_(std::move(answer)) {
    const Resolved resolved = resolve(at.host, at.port);
    if (resolved.addresses.empty()) throw Error(resolved.problem);
    const Address& address = resolved.addresses.front();
    Socket socket = listen_at(address);
    if (!socket) throw Error(why_not_listening(errno, at.port));
    acceptor_.assign(address.storage.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), socket.release());
    const asio::ip::address here = acceptor_.local_endpoint().address();
    if (!here.is_loopback()) token_ = random_token();
    url_ =
        fmt::format("http://{}/{}",
                    to_text(here.is_unspecified() ? host_name() : at.host, acceptor_.local_endpoint().port()),
                    token_.empty() ? "" : "?token=" + token_);
    accept();
    thread_ = start_thread("page server", [this] { run(); });
  }
  ~Server() {
    io_.stop();
    thread_.join();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& url() const { return url_; }

 private:
  // One request, one answer. Lives as long as something is under way for it.
  struct Connection {
    Connection(tcp::socket socket, std::vector<Connection*>& all) : stream(std::move(socket)), open(all) {
      request.header_limit(static_cast<uint32_t>(kMostRequestBytes));
      open.push_back(this);
    }
    ~Connection() { std::erase(open, this); }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    beast::tcp_stream stream;
    beast::flat_buffer buffer{2 * kMostRequestBytes};
    http::request_parser<http::empty_body> request;
    std::string head;
    std::shared_ptr<const std::string> body;
    std::array<char, 4096> rest{};
    std::vector<Connection*>& open;
  };
  using Client = std::shared_ptr<Connection>;

  void run() noexcept {
    ::setpriority(PRIO_PROCESS, 0, kNice);  // of this thread: the training goes first
    try {
      io_.run();
    } catch (const std::exception&) {  // out of memory: there is no page any more, and the run goes on
    }
  }

  void accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (error) return accept_later();
      ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
      make_room();
      read(std::make_shared<Connection>(std::move(socket), open_));
      accept();
    });
  }

  // Who wants the page asks for it at once: of too many the oldest goes that has not asked, or else the
  // oldest of all.
  void make_room() {
    if (open_.size() < kMostConnections) return;
    const auto silent =
        std::ranges::find_if(open_, [](const Connection* each) { return each->head.empty(); });
    const auto oldest = silent == open_.end() ? open_.begin() : silent;
    (*oldest)->stream.close();  // what is under way for it ends, and with that its life
    open_.erase(oldest);
  }

  void accept_later() {
    pause_.expires_after(kRetry);
    pause_.async_wait([this](error_code) { accept(); });
  }

  void read(const Client& client) {
    client->stream.expires_after(kRequestLimit);
    http::async_read_header(client->stream, client->buffer, client->request,
                            [this, client](error_code error, size_t) {
                              if (is_gone(error)) return;
                              respond(client, error);
                            });
  }

  // Whether the client is gone or took too long.
  static bool is_gone(error_code error) {
    return error == http::error::end_of_stream ||
           (error && error.category() != http::make_error_code(http::error::bad_method).category());
  }

  void respond(const Client& client, error_code problem) {
    const auto& request = client->request.get();
    Text text{.type = "text/plain"};
    const auto refuse = [&](http::status status, std::string why) {
      text = {.type = "text/plain", .text = std::make_shared<const std::string>(std::move(why) + "\n")};
      return status;
    };
    const std::string_view target(request.target().data(), request.target().size());
    const size_t question = std::min(target.find('?'), target.size());
    http::status status = http::status::ok;
    if (problem == http::error::header_limit || problem == http::error::buffer_overflow) {
      status = refuse(http::status::request_header_fields_too_large, "the request is too long");
    } else if (problem) {
      status = refuse(http::status::bad_request, "this is no request that can be understood");
    } else if (const std::string why = why_not_allowed(request, target.substr(question)); !why.empty()) {
      status = refuse(http::status::forbidden, why);
    } else if (request.method() != http::verb::get && request.method() != http::verb::head) {
      status = refuse(http::status::method_not_allowed, "this can be read with GET and HEAD, and no more");
    } else {
      try {
        text = answer_(target.substr(0, question));
        if (!text.text) status = refuse(http::status::not_found, "there is nothing here");
      } catch (const std::exception& error) {
        status = refuse(http::status::service_unavailable, error.what());
      }
    }
    write(client, status, text);
  }

  // Why the request is not allowed; "": it is.
  std::string why_not_allowed(const http::request<http::empty_body>& request, std::string_view query) const {
    if (!token_.empty()) {
      if (!query.empty()) query.remove_prefix(1);
      return same_in_constant_time(token_in(query), token_)
                 ? ""
                 : "this needs the token that the run's console has shown: open the whole address that is "
                   "there";
    }
    const auto host = request[http::field::host];
    const std::string_view name = without_port({host.data(), host.size()});
    if (is_loopback_name(name) || (!name.empty() && beast::iequals({name.data(), name.size()}, at_.host)))
      return "";
    return fmt::format("this answers to the names of this host alone: open {}", url_);
  }

  void write(const Client& client, http::status status, const Text& text) {
    http::response<http::empty_body> response(status, 11);
    response.set(http::field::content_type, text.type + "; charset=utf-8");
    response.set(http::field::cache_control, "no-store");
    response.set("X-Content-Type-Options", "nosniff");
    response.set("Referrer-Policy", "no-referrer");  // the address may have the token
    response.set("Content-Security-Policy",
                 "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
                 "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    if (status == http::status::method_not_allowed) response.set(http::field::allow, "GET, HEAD");
    response.content_length(text.text->size());
    response.keep_alive(false);
    std::ostringstream head;
    head << response.base();
    client->head = head.str();
    if (client->request.get().method() != http::verb::head) client->body = text.text;
    const std::array<asio::const_buffer, 2> parts{
        asio::buffer(client->head), client->body ? asio::buffer(*client->body) : asio::const_buffer()};
    client->stream.expires_after(kResponseLimit);
    asio::async_write(client->stream, parts, [this, client](error_code error, size_t) {
      if (error) return;
      error_code gone;
      client->stream.socket().shutdown(tcp::socket::shutdown_send, gone);
      client->stream.expires_after(kFarewellLimit);
      drain(client);
    });
  }

  // Reads to the end of what the client still sends: closing before would take back the answer.
  void drain(const Client& client) {
    client->stream.async_read_some(asio::buffer(client->rest), [this, client](error_code error, size_t) {
      if (!error) drain(client);
    });
  }

  const HostPort at_;
  const Answer answer_;
  std::string token_, url_;
  std::vector<Connection*> open_;  // the oldest first
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  asio::steady_timer pause_{io_};
  std::thread thread_;
};

PageServer::PageServer(const HostPort& at, Answer answer)
    : server_(std::make_unique<Server>(at, std::move(answer))) {}
PageServer::~PageServer() = default;
const std::string& PageServer::url() const { return server_->url(); }

}  // namespace pipeline::report
