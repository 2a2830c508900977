#include "core/peers/server.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/fail.hpp"
#include "core/base/hash.hpp"

namespace pipeline::peers {
namespace {

using Stage = Connection::Stage;

constexpr std::size_t kMaxStrangers = 64;  // besides the ranks that are to come
constexpr Seconds kStrangersTime{10};
constexpr Seconds kReceiptPatience{0.5};
constexpr Seconds kGoodbyePatience{2};

void watch(const Socket& epoll, int operation, int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  ::epoll_ctl(epoll.fd(), operation, fd, &event);
}

std::string left_text(int32_t rank, const std::string& host, const std::string& exchange) {
  return fmt::format("rank {} (host {}) has left the run, and others wait for it in {}", rank, host,
                     exchange);
}

// The problem with a process that left when asked to prove that it knows the run's secret, or could not.
std::string other_secret(const Hello& hello) {
  return fmt::format("it calls itself rank {}, and its run secret differs from rank 0's: {}", hello.rank,
                     secret_remedy());
}

// Where the others look for rank 0, at the port that it has found free. A name may lead here through a
// service in front of it; a number that is not this host's is most likely another host's.
std::string place_of(const World& world, const Socket& listener) {
  Address bound;
  bound.length = sizeof bound.storage;
  const bool is_open = listener && ::getsockname(listener.fd(), bound.get(), &bound.length) == 0;
  return to_text(world.address, is_open ? bound.port() : world.port) +
         (is_elsewhere(world.address) ? ", which is no address of its host " + host_name() : "");
}

}  // namespace

Server::Server(const World& world, Seconds timeout, Seconds stall)
    : world_(world),
      timeout_(timeout),
      listener_(world.size > 1 ? listen_for(world) : Socket()),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      rendezvous_(hello_of(world), place_of(world, listener_), world.if_alone),
      rounds_(world.size),
      left_(static_cast<std::size_t>(world.size)),
      clock_(heartbeat_period(stall)),
      stall_(stall) {
  std::array<int, 2> ends{};
  if (!epoll_ || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    fail("rank 0 cannot make a socket: {}", std::strerror(errno));
  inside_ = Socket(ends[0]);
  inside_fd_ = ends[1];
  add(Socket(ends[1]), "this process");
  if (listener_) watch(epoll_, EPOLL_CTL_ADD, listener_.fd(), EPOLLIN);
  watch(epoll_, EPOLL_CTL_ADD, wake_.fd(), EPOLLIN);
  thread_ = start_thread("pl-server", [this] { run(); });
}

Server::~Server() {
  stopping_ = true;
  wake_.wake();
  thread_.join();
}

void Server::run() {
  while (!stopping_) {
    wait_and_handle(clock_.milliseconds_left());
    if (clock_.tick()) tick();
    answer_origin();
  }
  say_goodbye();
}

void Server::wait_and_handle(int milliseconds) {
  std::array<epoll_event, 64> events;
  const int n = ::epoll_wait(epoll_.fd(), events.data(), events.size(), milliseconds);
  for (int i = 0; i < n; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const int fd = event.data.fd;
    if (fd == listener_.fd()) {
      accept_all();
    } else if (fd == wake_.fd()) {
      wake_.clear();
    } else if (const auto entry = connections_.find(fd); entry != connections_.end()) {
      Connection& connection = *entry->second;
      if (event.events & EPOLLOUT) flush(connection);
      const bool open = !(event.events & ~EPOLLOUT) || read(connection);
      if (!open || (connection.stage == Stage::leaving && !connection.has_queue())) drop(fd);
    }
  }
}

void Server::accept_all() {
  for (;;) {
    Address from;
    from.length = sizeof from.storage;
    Socket socket(::accept4(listener_.fd(), from.get(), &from.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (!socket) {
      // Out of descriptors or memory: look again at the next tick instead of being woken at once.
      if (errno != EAGAIN && errno != EWOULDBLOCK) {
        watch(epoll_, EPOLL_CTL_MOD, listener_.fd(), 0);
        accepting_ = false;
      }
      return;
    }
    make_room();
    prepare(socket.fd());
    add(std::move(socket), to_text(from));
  }
}

// Closes the oldest of too many strangers: a process that belongs to the run proves it at once. A rank whose
// turn had not come tries again.
void Server::make_room() {
  std::size_t strangers = 0;
  const Connection* oldest = nullptr;
  for (const auto& [fd, connection] : connections_) {
    if (connection->stage >= Stage::admitted || fd == inside_fd_) continue;
    ++strangers;
    if (!oldest || connection->since() < oldest->since()) oldest = connection.get();
  }
  if (strangers < kMaxStrangers + rendezvous_.missing().size()) return;
  rendezvous_.turned_away(oldest->address(),
                          "it was the oldest of too many that had not proven who they are");
  drop(oldest->fd());
}

void Server::add(Socket socket, std::string address) {
  const int fd = socket.fd();
  watch(epoll_, EPOLL_CTL_ADD, fd, EPOLLIN);
  connections_[fd] = std::make_unique<Connection>(std::move(socket), std::move(address), Clock::now());
}

// Reads what has come. False: the connection has ended.
bool Server::read(Connection& connection) {
  const auto may_be_lost = [&] { return connection.stage == Stage::admitted && !stopping_; };
  try {
    if (connection.reader.receive(connection.fd(), MSG_DONTWAIT) == FrameReader::Input::end) {
      if (may_be_lost()) lose(connection, "its connection broke without a word");
      if (connection.stage == Stage::challenged)
        rendezvous_.turned_away(connection.address(), other_secret(connection.hello));
      return false;
    }
    while (connection.stage != Stage::leaving) {
      std::optional<Frame> frame = connection.reader.next();
      if (!frame) break;
      handle(connection, std::move(*frame));
    }
    if (watch_ && connection.reader.in_exchange()) watch_->moved(clock_.now());
    return true;
  } catch (const std::exception& e) {
    if (may_be_lost())
      lose(connection, e.what());
    else
      rendezvous_.turned_away(connection.address(), e.what());
    return false;
  }
}

void Server::handle(Connection& connection, Frame frame) {
  const bool admitted = connection.stage == Stage::admitted;
  if (frame.type == FrameType::hello && connection.stage == Stage::stranger)
    return on_hello(connection, frame);
  if (frame.type == FrameType::answer && connection.stage == Stage::challenged)
    return on_answer(connection, frame);
  if (frame.type == FrameType::admitted && connection.stage == Stage::invited) return on_admitted(connection);
  if (frame.type == FrameType::exchange && admitted && watch_)
    return on_exchange(connection, std::move(frame));
  if (frame.type == FrameType::put && admitted && watch_) return on_put(std::move(frame));
  if (frame.type == FrameType::get && admitted && watch_) return on_get(connection, frame);
  if (frame.type == FrameType::leave && admitted) return on_leave(connection);
  if (frame.type == FrameType::state && admitted) {
    if (watch_) watch_->heard(connection.rank(), parse<State>(frame.body), clock_.now());
  } else if (frame.type == FrameType::fail && admitted) {
    fail_run({{connection.rank(), connection.hello.host, std::move(frame.body), false}, frame.detail},
             &connection);
  } else {
    throw Error(PL_ERROR_CORRUPT, "a message came that has no place here");
  }
}

void Server::on_hello(Connection& connection, const Frame& frame) {
  connection.hello = parse<Hello>(frame.body);
  if (connection.hello.run_id != world_.run_id)  // it may be looking for its own port
    return turn_away(connection, rendezvous_.object_to(connection.hello)->refusal);
  const std::string nonce = random_secret();
  connection.expected = proof_by(Prover::other, world_.secret, nonce, frame.body);
  connection.stage = Stage::challenged;
  send(connection,
       encode(FrameType::challenge,
              json_text(Challenge{nonce, proof_by(Prover::rank_0, world_.secret, nonce, frame.body)})));
}

// Nothing that a connection has said counts before this.
void Server::on_answer(Connection& connection, const Frame& frame) {
  if (!same_in_constant_time(frame.body, connection.expected))
    return turn_away(connection, {other_secret(connection.hello), PL_ERROR_CONFIG});
  if (object(connection)) return;
  connection.stage = Stage::invited;
  send(connection, encode(FrameType::admit));
}

// True: the process is turned away.
bool Server::object(Connection& connection) {
  const auto objection = rendezvous_.object_to(connection.hello);
  if (!objection) return false;
  if (objection->ends_run)
    fail_run(
        {{connection.rank(), connection.hello.host, objection->refusal.why, true}, objection->refusal.code});
  turn_away(connection, objection->refusal);
  return true;
}

void Server::on_admitted(Connection& connection) {
  if (object(connection)) return;  // its twin was quicker
  connection.stage = Stage::admitted;
  connection.reader.set_max_body(kMaxBody);
  rendezvous_.admit(connection.hello);
  if (verdict_) return send(connection, encode(FrameType::failed, json_text(*verdict_)));  // it came too late
  if (rendezvous_.complete()) open_the_run();
}

void Server::turn_away(Connection& connection, const Refusal& refusal) {
  rendezvous_.turned_away(connection.address(), refusal.why);
  connection.stage = Stage::leaving;
  send(connection, encode(FrameType::refused, json_text(refusal)));
}

void Server::open_the_run() {
  watch_.emplace(rendezvous_.hosts(), stall_);
  watch_->moved(clock_.now());
  for (int32_t rank = 0; rank < world_.size; ++rank) watch_->heard(rank, {}, clock_.now());
  for_each_member([&](Connection& member) { send(member, encode(FrameType::ready)); });
}

void Server::on_exchange(Connection& connection, Frame frame) {
  if (verdict_) return;
  watch_->moved(clock_.now());
  std::optional<std::vector<Bytes>> replies;
  try {
    replies = rounds_.add(connection.rank(), static_cast<Collective>(frame.detail), frame.channel,
                          std::move(frame.body));
  } catch (const Error& e) {
    return fail_run({{connection.rank(), connection.hello.host, e.what(), false}, e.code()}, &connection);
  }
  if (replies) {
    for_each_member([&](Connection& member) {
      const Bytes& body = (*replies)[static_cast<std::size_t>(member.rank())];
      send(member, head_of(FrameType::reply, 0, frame.channel, body->size()), body);
    });
    return;
  }
  for (int32_t rank = 0; rank < world_.size; ++rank)
    if (left_[static_cast<std::size_t>(rank)])
      return fail_run({{rank, rendezvous_.host_of(rank),
                        left_text(rank, rendezvous_.host_of(rank), rounds_.waits_for(rank)), true},
                       PL_ERROR_PEER});
}

void Server::on_put(Frame frame) {
  watch_->moved(clock_.now());
  const Bytes value = std::make_shared<const std::string>(std::move(frame.body));
  const auto [first, last] = wanted_.equal_range(frame.channel);
  for (auto entry = first; entry != last; ++entry)
    send_value(*connections_.at(entry->second), frame.channel, value);
  wanted_.erase(first, last);
  store_.insert_or_assign(std::move(frame.channel), value);
}

void Server::on_get(Connection& connection, const Frame& frame) {
  watch_->moved(clock_.now());
  const auto entry = store_.find(frame.channel);
  if (entry == store_.end() && frame.detail == 1)
    wanted_.emplace(frame.channel, connection.fd());
  else
    send_value(connection, frame.channel, entry == store_.end() ? nullptr : entry->second);
}

void Server::send_value(Connection& connection, std::string_view key, const Bytes& value) {
  send(connection, head_of(FrameType::value, value ? 1 : 0, key, value ? value->size() : 0), value);
}

void Server::on_leave(Connection& connection) {
  const int32_t rank = connection.rank();
  left_[static_cast<std::size_t>(rank)] = true;
  connection.stage = Stage::leaving;
  if (watch_) watch_->left(rank);
  const std::string missed = rounds_.waits_for(rank);
  if (!missed.empty())
    fail_run(
        {{rank, connection.hello.host, left_text(rank, connection.hello.host, missed), true}, PL_ERROR_PEER});
}

void Server::tick() {
  if (!accepting_) {
    watch(epoll_, EPOLL_CTL_MOD, listener_.fd(), EPOLLIN);
    accepting_ = true;
  }
  if (!watch_) check_rendezvous();
  check_connections();
  check_stall();
  const std::string pulse = encode(FrameType::pulse, watch_ ? std::string() : rendezvous_.waiting_text());
  for_each_member([&](Connection& member) {
    if (!member.has_queue()) send(member, pulse);
  });
}

void Server::check_rendezvous() {
  const Seconds waited = Clock::now() - opened_;
  if (waited < timeout_ || verdict_) return;
  const int32_t first = rendezvous_.missing().front();
  fail_run({{first, "", rendezvous_.timeout_text(waited), true}, PL_ERROR_TIMEOUT});
}

void Server::check_connections() {
  std::vector<int> gone;
  for (const auto& [fd, connection] : connections_) {
    const bool admitted = connection->stage == Stage::admitted;
    if (!admitted && Clock::now() - connection->since() > kStrangersTime) {
      gone.push_back(fd);
    } else if (admitted && connection->reachability.lost(fd, clock_.now())) {
      lose(*connection, fmt::format("its host has not answered for {} (power, network, firewall)",
                                    seconds_text(Reachability::kPatience)));
      gone.push_back(fd);
    }
  }
  for (const int fd : gone) drop(fd);
}

void Server::check_stall() {
  if (!watch_ || verdict_) return;
  const auto stall = watch_->check(clock_.now(), [&](int32_t rank) { return rounds_.waits_in(rank); });
  if (stall) fail_run({{stall->rank, rendezvous_.host_of(stall->rank), stall->what, true}, PL_ERROR_TIMEOUT});
}

void Server::lose(Connection& connection, const std::string& how) {
  const int32_t rank = connection.rank();
  connection.stage = Stage::leaving;
  const std::string last = watch_ ? ", last seen in " + watch_->last_seen(rank) : "";
  fail_run({{rank, connection.hello.host,
             fmt::format("rank {} (host {}, process {}) was lost: {}{}\n"
                         "see the end of its log; if it has no error, the process was killed or crashed (out "
                         "of memory? see dmesg on its host)",
                         rank, connection.hello.host, connection.hello.process, how, last),
             true},
            PL_ERROR_PEER});
}

void Server::fail_run(Verdict verdict, const Connection* origin) {
  if (verdict_) return;
  verdict_ = std::move(verdict);
  origin_ = origin ? origin->fd() : -1;
  receipt_due_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(kReceiptPatience);
  const auto body = std::make_shared<const std::string>(json_text(*verdict_));
  for_each_member([&](Connection& member) {
    if (&member == origin) return;
    member.forget_queue();
    send(member, head_of(FrameType::failed, 0, {}, body->size()), body);
  });
}

// The rank that failed may end as soon as it has its receipt, and with rank 0 the server: so the others come
// first.
void Server::answer_origin() {
  const auto origin = connections_.find(origin_);
  if (origin == connections_.end()) return;
  if (!all_sent(origin->second.get()) && Clock::now() < receipt_due_) return;
  origin_ = -1;
  send(*origin->second, encode(FrameType::failed, json_text(*verdict_)));
}

void Server::send(Connection& connection, std::string head, Bytes body) {
  connection.queue(std::move(head), std::move(body));
  flush(connection);
}

void Server::flush(Connection& connection) {
  const bool waited = connection.has_queue() && connection.waits_for_room;
  const std::size_t sent = connection.flush();
  sent_ += sent;
  if (waited && sent > 0 && watch_) watch_->moved(clock_.now());
  if (connection.has_queue() == connection.waits_for_room) return;
  connection.waits_for_room = connection.has_queue();
  watch(epoll_, EPOLL_CTL_MOD, connection.fd(), connection.waits_for_room ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void Server::drop(int fd) {
  watch(epoll_, EPOLL_CTL_DEL, fd, 0);
  std::erase_if(wanted_, [fd](const auto& entry) { return entry.second == fd; });
  connections_.erase(fd);
}

bool Server::all_sent(const Connection* except) const {
  return std::none_of(connections_.begin(), connections_.end(), [&](const auto& entry) {
    return entry.second.get() != except && entry.second->stage != Stage::stranger &&
           entry.second->has_queue();
  });
}

template <class Function>
void Server::for_each_member(Function&& function) {
  for (const auto& [fd, connection] : connections_)
    if (connection->stage == Stage::admitted) function(*connection);
}

// What is queued goes out as long as somebody takes it. Then the others see the end of the stream and close,
// and only then is it safe to close here: with something unread, closing would take back what is still on its
// way to them.
void Server::say_goodbye() {
  for_each_member([&](Connection& member) { send(member, encode(FrameType::goodbye)); });
  std::erase_if(connections_, [](const auto& entry) { return entry.second->stage < Stage::admitted; });
  const Clock::time_point begun = Clock::now();
  Clock::time_point moved = begun;
  while (!all_sent(nullptr) && Clock::now() - moved < kGoodbyePatience &&
         Clock::now() - begun < 5 * kGoodbyePatience) {
    const uint64_t before = sent_;
    wait_and_handle(50);
    if (sent_ != before) moved = Clock::now();
  }
  for (const auto& [fd, connection] : connections_) connection->finish();
  const Clock::time_point finished = Clock::now();
  while (!connections_.empty() && Clock::now() - finished < kGoodbyePatience / 2) wait_and_handle(50);
}

}  // namespace pipeline::peers
