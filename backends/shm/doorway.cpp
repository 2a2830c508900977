#include "backends/shm/doorway.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

namespace pipeline::backends::shm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration;
using std::chrono::milliseconds;

constexpr uint32_t kMagic = 0x706c7368;  // "plsh"
constexpr milliseconds kSlice{200};      // of waiting, between two looks at the request to stop
constexpr const char* kSeveralHosts =
    "shm works for processes of one host (and one container) alone, gloo over any network";

class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

// What a rank says when it comes in, and is told by rank 0; the last one when all are there.
struct Hello {
  uint32_t magic = kMagic;
  int32_t rank = -1;
  int32_t world_size = 0;
  uint32_t status = 0;  // PL_ERROR_...; 0: welcome
  uint64_t slot_bytes = 0;
  char text[200] = "";
};

// In Linux's abstract namespace, which ends with the host or container; a user's groups meet among
// themselves.
std::pair<sockaddr_un, socklen_t> address_of(const Meeting& meeting) {
  const std::string name = concat("pipeline-shm/", ::geteuid(), '/', meeting.port, '/', meeting.group);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path)
    fail("open: the group's name is too long for a local socket: ", meeting.group);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

Socket new_socket() {
  Socket socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) fail("open: no local socket can be had: ", std::strerror(errno));
  return socket;
}

bool same_user(const Socket& socket) {
  ucred other{};
  socklen_t size = sizeof other;
  return ::getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == ::geteuid();
}

// Sends one message, with a file descriptor when `fd` is one.
bool send_hello(const Socket& socket, Hello hello, int fd = -1) {
  iovec data{&hello, sizeof hello};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  return ::sendmsg(socket.fd(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof hello);
}

// One message, if there is one; with a file descriptor in `fd`, or -1.
bool receive_hello(const Socket& socket, Hello& hello, int& fd) {
  iovec data{&hello, sizeof hello};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  fd = -1;
  if (::recvmsg(socket.fd(), &message, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(sizeof hello)) return false;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return hello.magic == kMagic;
}

class Deadline {
 public:
  Deadline(const Context& context, const Meeting& meeting)
      : context_(context),
        at_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                               duration<double>(std::min(meeting.timeout_seconds, 1e9)))) {}
  bool passed() const { return Clock::now() >= at_; }
  // Waits a little for one of the sockets; true when there is something to read or to accept.
  bool wait_for(std::vector<pollfd>& sockets) const {
    context_.throw_if_cancelled();
    const auto left = std::chrono::ceil<milliseconds>(at_ - Clock::now());
    return ::poll(sockets.data(), sockets.size(),
                  static_cast<int>(std::clamp(left, milliseconds(0), kSlice).count())) > 0;
  }

 private:
  const Context& context_;
  Clock::time_point at_;
};

// ------------------------------------------------------------------------------------------------ rank 0

class Host {
 public:
  Host(const Context& context, const Meeting& meeting)
      : meeting_(meeting),
        deadline_(context, meeting),
        segment_(meeting.world_size, meeting.slot_bytes),
        visitors_(static_cast<size_t>(meeting.world_size)) {
    segment_.claim(0);
  }

  Segment wait_for_all() {
    listen();
    while (missing() > 0) {
      if (deadline_.passed()) late();
      std::vector<pollfd> sockets{{door_.fd(), POLLIN, 0}};
      for (const Visitor& visitor : visitors_)
        if (visitor.socket.fd() >= 0) sockets.push_back({visitor.socket.fd(), POLLIN, 0});
      if (!deadline_.wait_for(sockets)) continue;
      for (const pollfd& polled : sockets)
        if (polled.revents != 0 && polled.fd != door_.fd()) hear(polled.fd);
      if (sockets[0].revents != 0) let_in();
    }
    for (const Visitor& visitor : visitors_)
      if (visitor.socket.fd() >= 0) send_hello(visitor.socket, Hello());
    return std::move(segment_);
  }

 private:
  struct Visitor {
    Socket socket;
    bool in_place = false;  // it has claimed its rank
  };

  void listen() {
    const auto [address, size] = address_of(meeting_);
    door_ = new_socket();
    while (::bind(door_.fd(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
      if (errno != EADDRINUSE) fail("open: no local socket can be had: ", std::strerror(errno));
      if (deadline_.passed()) {
        fail("open: another run of this host is meeting at port ", meeting_.port,
             " just now: choose another port (MASTER_PORT)");
      }
      std::vector<pollfd> nothing;
      deadline_.wait_for(nothing);
    }
    if (::listen(door_.fd(), meeting_.world_size) != 0) fail("open: cannot listen: ", std::strerror(errno));
  }

  void let_in() {
    Socket visitor(::accept4(door_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (visitor.fd() < 0 || !same_user(visitor)) return;
    Hello hello;
    int fd;
    std::vector<pollfd> one{{visitor.fd(), POLLIN, 0}};
    if (!deadline_.wait_for(one) || !receive_hello(visitor, hello, fd)) return;
    const std::string problem = objection(hello);
    if (!problem.empty()) {
      Hello refusal;
      refusal.status = PL_ERROR_PEER;
      problem.copy(refusal.text, sizeof refusal.text - 1);
      send_hello(visitor, refusal);
    } else if (send_hello(visitor, Hello(), segment_.fd())) {
      visitors_[static_cast<size_t>(hello.rank)] = {std::move(visitor), false};
    }
  }

  std::string objection(const Hello& hello) const {
    if (hello.world_size != meeting_.world_size) {
      return concat("open: rank ", hello.rank, " says that the group has ", hello.world_size,
                    " ranks, another one said ", meeting_.world_size);
    }
    if (hello.rank <= 0 || hello.rank >= meeting_.world_size ||
        visitors_[static_cast<size_t>(hello.rank)].socket.fd() >= 0)
      return concat("open: rank ", hello.rank, " is there twice");
    if (hello.slot_bytes != meeting_.slot_bytes)
      return concat("open: rank ", hello.rank, " has another backend.buffer_kib than rank 0");
    return "";
  }

  // A visitor says that it is in place, or hangs up.
  void hear(int fd) {
    for (Visitor& visitor : visitors_) {
      if (visitor.socket.fd() != fd) continue;
      Hello hello;
      int none;
      visitor.in_place = receive_hello(visitor.socket, hello, none);
      if (!visitor.in_place) visitor = Visitor();
      return;
    }
  }

  int missing() const {
    int count = 0;
    for (size_t r = 1; r < visitors_.size(); ++r) count += !visitors_[r].in_place;
    return count;
  }

  [[noreturn]] void late() const {
    std::string ranks;
    for (size_t r = 1; r < visitors_.size(); ++r)
      if (!visitors_[r].in_place) ranks += concat(ranks.empty() ? "" : ", ", r);
    const std::string text = concat("open: after ", meeting_.timeout_seconds, " seconds of waiting these of ",
                                    meeting_.world_size, " ranks have not come: ", ranks);
    Hello hello;
    hello.status = PL_ERROR_TIMEOUT;
    text.copy(hello.text, sizeof hello.text - 1);
    for (const Visitor& visitor : visitors_)
      if (visitor.socket.fd() >= 0) send_hello(visitor.socket, hello);
    fail_with(PL_ERROR_TIMEOUT, text, ". ", kSeveralHosts);
  }

  const Meeting& meeting_;
  Deadline deadline_;
  Segment segment_;
  Socket door_;
  std::vector<Visitor> visitors_;  // by rank; none at 0
};

// ------------------------------------------------------------------------------------------------ others

class Guest {
 public:
  Guest(const Context& context, const Meeting& meeting) : meeting_(meeting), deadline_(context, meeting) {
    mine_.rank = meeting.rank;
    mine_.world_size = meeting.world_size;
    mine_.slot_bytes = meeting.slot_bytes;
  }

  Segment wait_for_all() {
    for (;;) {
      knock();
      Segment segment;
      // Where rank 0 gives up, it may come again.
      if (!listen(segment)) continue;
      segment.claim(meeting_.rank);
      if (send_hello(door_, mine_) && listen(segment)) return segment;
    }
  }

 private:
  void knock() {
    const auto [address, size] = address_of(meeting_);
    for (;;) {
      door_ = new_socket();
      if (::connect(door_.fd(), reinterpret_cast<const sockaddr*>(&address), size) == 0 && same_user(door_) &&
          send_hello(door_, mine_))
        return;
      check_time();
      std::this_thread::sleep_for(milliseconds(5));
    }
  }

  // False: rank 0 is gone.
  bool listen(Segment& segment) {
    for (;;) {
      std::vector<pollfd> one{{door_.fd(), POLLIN, 0}};
      if (deadline_.wait_for(one)) break;
      check_time();
    }
    Hello hello;
    int fd;
    if (!receive_hello(door_, hello, fd)) {
      check_time();
      return false;
    }
    if (hello.status != 0) throw Error(hello.status, hello.text);
    if (fd >= 0) segment = Segment(fd, meeting_.world_size, meeting_.slot_bytes);
    return true;
  }

  void check_time() const {
    if (!deadline_.passed()) return;
    fail_with(PL_ERROR_TIMEOUT, "open: after ", meeting_.timeout_seconds, " seconds of waiting these of ",
              meeting_.world_size, " ranks have not come: 0; it is not on this host at port ", meeting_.port,
              ", or has not started. ", kSeveralHosts);
  }

  const Meeting& meeting_;
  Deadline deadline_;
  Hello mine_;
  Socket door_;
};

}  // namespace

Segment meet(const Context& context, const Meeting& meeting) {
  return meeting.rank == 0 ? Host(context, meeting).wait_for_all() : Guest(context, meeting).wait_for_all();
}

}  // namespace pipeline::backends::shm
