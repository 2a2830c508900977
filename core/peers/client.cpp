#include "core/peers/client.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/fail.hpp"
#include "core/peers/join.hpp"

namespace pipeline::peers {
namespace {

constexpr std::chrono::seconds kReceiptTime{2};  // for fail() and leave()
constexpr std::chrono::seconds kVerdictTime{2};  // the server's clock may be a little behind
constexpr std::size_t kMaxText = 64 * 1024;      // of a failure
constexpr std::size_t kMaxCollective = 512;      // of its name, in a state

}  // namespace

void Activity::at(std::string_view phase, uint64_t step) {
  moved();
  std::lock_guard lock(mutex_);
  phase_ = phase;
  step_ = step;
  since_ = Clock::now();
}

State Activity::now() const {
  std::lock_guard lock(mutex_);
  const Seconds since = Clock::now() - since_;
  return {phase_, step_, since.count(), moves_.load(std::memory_order_relaxed), {}};
}

Client::Client(const World& world, PeersOptions options)
    : world_(world),
      options_(std::move(options)),
      waiting_for_(
          std::make_unique<Waiting>(world.size > 1 ? options_.on_waiting : nullptr, options_.notice)),
      server_(world.rank == 0 ? std::make_unique<Server>(world, options_.timeout, options_.stall) : nullptr),
      socket_(connect_and_join()),
      sender_(socket_.fd()),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      clock_(heartbeat_period(options_.stall)) {
  await_start(begun_ + std::chrono::duration_cast<Clock::duration>(options_.timeout) + kVerdictTime);
  waiting_for_.reset();

  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake_.fd();
  ::epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, wake_.fd(), &event);
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.fd = socket_.fd();
  ::epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, socket_.fd(), &event);
  thread_ = start_thread("pl-peers", [this] { run(); });
}

Client::~Client() {
  leave();
  stopping_ = true;
  wake_.wake();
  thread_.join();
}

Socket Client::connect_and_join() {
  Join join(world_, options_.timeout, options_.cancelled, waiting_for_.get());
  if (!server_) return join.connect_and_join();
  Socket socket = server_->connect_here();
  join.join(socket);
  return socket;
}

// Before the background thread starts: the calling thread reads, and nobody else does anything.
void Client::await_start(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  reading_ = true;
  const auto read_until = [&](Clock::time_point until, const auto& over) {
    while (!started_ && !verdict_ && !closed_ && !over() && Clock::now() < until) {
      lock.unlock();
      if (wait_for(socket_.fd(), POLLIN, std::min(until, Clock::now() + kLook))) read(MSG_DONTWAIT);
      lock.lock();
    }
  };
  const auto cancelled = [&] { return options_.cancelled && options_.cancelled(); };
  read_until(deadline, cancelled);
  if (!started_ && !verdict_) {
    const bool stops = cancelled();
    const std::string who = fmt::format("rank {} (host {})", world_.rank, host_name());
    const std::string text =
        stops ? fmt::format("{} was told to stop while it waited for all ranks", who)
              : fmt::format("{} waited {} for all ranks: {}", who, seconds_text(options_.timeout), missing_);
    const uint8_t code = stops ? PL_ERROR_CANCELLED : PL_ERROR_TIMEOUT;
    const Clock::time_point receipt = Clock::now() + kReceiptTime;
    lock.unlock();
    sender_.send(FrameType::fail, code, {}, text, receipt);
    lock.lock();
    // The server, perhaps this process's, must have told the others before anybody goes.
    read_until(receipt, [] { return false; });
    reading_ = false;
    throw Error(code, text);
  }
  reading_ = false;
  if (!started_) throw Error(verdict_->code, describe(verdict_->failure));
}

void Client::check_open() const {
  if (verdict_) throw Error(PL_ERROR_PEER, describe(verdict_->failure));
  if (left_) throw Error(PL_ERROR_PEER, "this rank has left the run and can no longer exchange data");
  if (ended_) throw Error(PL_ERROR_PEER, "rank 0 has left the run: nothing can be exchanged any more");
}

void Client::check_size(std::string_view what, std::string_view channel, std::string_view body) const {
  if (channel.size() > kMaxChannel || body.size() > kMaxBody)
    pipeline::fail("{} of '{}' with {} bytes: a name has at most {} bytes, what is sent {}", what, channel,
                   body.size(), kMaxChannel, kMaxBody);
}

std::string Client::exchange(Collective kind, std::string_view channel, std::string_view mine,
                             const Cancelled& cancelled) {
  check_size(name_of(kind), channel, mine);
  return ask(FrameType::exchange, static_cast<uint8_t>(kind), channel, mine, {}, cancelled)->body;
}

void Client::put(std::string_view key, std::string_view value) {
  check_size("put", key, value);
  activity.moved();
  {
    std::lock_guard lock(mutex_);
    check_open();
  }
  sender_.send(FrameType::put, 0, key, value);
}

std::optional<std::string> Client::get(std::string_view key, Seconds timeout, const Cancelled& cancelled) {
  check_size("get", key, {});
  const bool waits = timeout > Seconds(0);
  const std::optional<Frame> answer = ask(FrameType::get, waits ? 1 : 0, key, {},
                                          waits ? Deadline(deadline_after(timeout)) : Deadline(), cancelled);
  return answer && answer->detail == 1 ? std::optional(answer->body) : std::nullopt;
}

// Sends, and waits for the answer; nothing when the time is up.
std::optional<Frame> Client::ask(FrameType type, uint8_t detail, std::string_view channel,
                                 std::string_view body, Deadline deadline, const Cancelled& cancelled) {
  activity.moved();
  Waiter waiter{type == FrameType::get ? FrameType::value : FrameType::reply, channel};
  {
    std::lock_guard lock(mutex_);
    check_open();
    waiting_.push_back(&waiter);
  }
  sender_.send(type, detail, channel, body);  // whether that worked shows in what comes back
  std::unique_lock lock(mutex_);
  const auto done = [&] { return waiter.done || verdict_ || left_ || ended_; };
  bool stops = false;
  const auto next_look = [&] {
    return std::min(deadline.value_or(Clock::time_point::max()), Clock::now() + kLook);
  };
  while (!await(lock, done, cancelled ? Deadline(next_look()) : deadline)) {
    if (deadline && Clock::now() >= *deadline) break;
    if ((stops = cancelled && cancelled())) break;
  }
  std::erase(waiting_, &waiter);
  if (!waiter.done) check_open();
  if (stops) throw Error(PL_ERROR_CANCELLED, "told to stop while waiting for other ranks");
  activity.moved();
  return waiter.done ? std::optional(std::move(waiter.answer)) : std::nullopt;
}

// Reads, or waits for the thread that reads, until `done`.
template <class Done>
bool Client::await(std::unique_lock<std::mutex>& lock, Done done, Deadline deadline) {
  bool mine = false;
  while (!done() && !(deadline && Clock::now() >= *deadline)) {
    if (!mine && (reading_ || closed_)) {
      deadline ? static_cast<void>(changed_.wait_until(lock, *deadline)) : changed_.wait(lock);
      continue;
    }
    if (!std::exchange(mine, true)) {
      reading_ = true;
      listen(false);
    }
    lock.unlock();
    if (!deadline)
      read(0);
    else if (wait_for(socket_.fd(), POLLIN, deadline))
      read(MSG_DONTWAIT);
    lock.lock();
    if (closed_) break;
  }
  if (mine) {
    reading_ = false;
    changed_.notify_all();  // somebody else may have to read now
    if (!closed_) listen(true);
  }
  return done();
}

// Called by the one thread that reads now.
void Client::read(int flags) {
  try {
    const FrameReader::Input input = reader_.receive(socket_.fd(), flags);
    heard_ = true;
    while (auto frame = reader_.next()) handle(std::move(*frame));
    if (input == FrameReader::Input::end) on_end();
  } catch (const std::exception& e) {
    lose_server(e.what());
    on_end();
  }
}

void Client::handle(Frame frame) {
  if (frame.type == FrameType::reply || frame.type == FrameType::value) return on_answer(std::move(frame));
  if (frame.type == FrameType::failed) {
    settle(parse<Verdict>(frame.body));
    wake_.wake();
    return;
  }
  if (frame.type == FrameType::refused) {  // another rank was admitted in its place meanwhile
    const Refusal refusal = parse<Refusal>(frame.body);
    return settle({{world_.rank, host_name(), refusal.why, true}, refusal.code});
  }
  std::lock_guard lock(mutex_);
  if (frame.type == FrameType::ready) started_ = true;
  if (frame.type == FrameType::pulse && !started_) {
    missing_ = std::move(frame.body);
    if (waiting_for_) waiting_for_->is_for("waiting for all ranks: " + missing_);
  }
  if (frame.type == FrameType::goodbye) ended_ = true;
}

// An answer does not go to a caller that gave up; a value goes to all who wait for it.
void Client::on_answer(Frame frame) {
  std::lock_guard lock(mutex_);
  if (waiting_.size() > 1) changed_.notify_all();
  for (Waiter* waiter : waiting_) {
    if (waiter->done || waiter->type != frame.type || waiter->channel != frame.channel) continue;
    waiter->done = true;
    waiter->answer.detail = frame.detail;
    if (frame.type == FrameType::reply) return waiter->answer.body.swap(frame.body);
    waiter->answer.body = frame.body;
  }
}

void Client::on_end() {
  bool expected = false;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    expected = left_ || ended_ || verdict_;
    changed_.notify_all();
  }
  ::shutdown(socket_.fd(), SHUT_RDWR);
  if (!expected)
    lose_server(
        "its connection broke without a word, so its process was killed or crashed (see the end of its log)");
}

void Client::lose_server(const std::string& how, uint32_t code) {
  const State state = activity.now();
  settle({{0, world_.address,
           fmt::format("rank 0 (at {}) was lost: {}; this is rank {} (host {}) in {}, step {}",
                       to_text(world_.address, world_.port), how, world_.rank, host_name(), state.phase,
                       state.step),
           true},
          code});
  ::shutdown(socket_.fd(), SHUT_RDWR);  // ends what still reads or sends
  wake_.wake();
}

// What somebody else is sending in its place is a sign of life, too.
void Client::send_state() {
  State mine = activity.now();
  if (options_.collective) mine.collective = options_.collective();
  if (mine.collective.size() > kMaxCollective) mine.collective.resize(kMaxCollective);
  sender_.try_to_send(encode(FrameType::state, json_text(mine)));
}

std::optional<Failure> Client::failure(Seconds wait) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline_after(wait), [&] { return verdict_ || left_ || ended_; });
  return verdict_ ? std::optional(verdict_->failure) : std::nullopt;
}

void Client::settle(Verdict verdict) {
  verdict.failure.stalled = verdict.failure.by_peer_loss && verdict.code == PL_ERROR_TIMEOUT;
  verdict.failure.lasting = !verdict.failure.by_peer_loss && verdict.code == PL_ERROR_CONFIG;
  std::lock_guard lock(mutex_);
  if (!verdict_ && !left_) verdict_ = std::move(verdict);
  changed_.notify_all();
}

void Client::fail(std::string_view what, uint32_t code) {
  const Clock::time_point deadline = Clock::now() + kReceiptTime;
  const std::string text(what.substr(0, kMaxText));
  {
    std::lock_guard lock(mutex_);
    if (verdict_ || left_) return;
  }
  sender_.send(FrameType::fail, static_cast<uint8_t>(code), {}, text, deadline);
  {
    std::unique_lock lock(mutex_);
    await(
        lock, [&] { return verdict_ || ended_; }, deadline);
  }
  settle(
      {{world_.rank, host_name(), text, false}, PL_ERROR_FAILED});  // nobody hears it, but it is known here
  wake_.wake();
}

void Client::leave() {
  const Clock::time_point deadline = Clock::now() + kReceiptTime;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(left_, true)) return;
    changed_.notify_all();
  }
  sender_.send(FrameType::leave, 0, {}, {}, deadline);
  ::shutdown(socket_.fd(), SHUT_WR);
  {
    std::unique_lock lock(mutex_);
    await(
        lock, [&] { return closed_; }, deadline);  // the server closes
  }
  ::shutdown(socket_.fd(), SHUT_RDWR);
}

void Client::run() {
  while (!stopping_) {
    std::array<epoll_event, 2> events;
    const int n = ::epoll_wait(epoll_.fd(), events.data(), events.size(), clock_.milliseconds_left());
    for (int i = 0; i < n; ++i) {
      if (events[static_cast<std::size_t>(i)].data.fd == wake_.fd())
        wake_.clear();
      else
        take_a_look();
    }
    tell_failure();
    if (clock_.tick()) tick();
  }
  tell_failure();  // a caller that has heard of it may have left at once
}

void Client::tell_failure() {
  std::optional<Failure> failure;
  {
    std::lock_guard lock(mutex_);
    if (told_ || !verdict_) return;
    failure = verdict_->failure;
  }
  told_ = true;
  if (options_.on_failure) options_.on_failure(*failure);
}

// The connection has something, and nobody else was reading it.
void Client::take_a_look() {
  std::unique_lock lock(mutex_);
  if (reading_ || closed_) return;  // who reads will ask for the next look
  reading_ = true;
  lock.unlock();
  read(MSG_DONTWAIT);
  lock.lock();
  reading_ = false;
  if (!waiting_.empty()) changed_.notify_all();
  if (!closed_) listen(true);
}

void Client::tick() {
  {
    std::lock_guard lock(mutex_);
    if (verdict_ || left_ || ended_) return;
  }
  if (heard_.exchange(false)) heard_at_ = clock_.now();
  const Seconds silence = clock_.now() - heard_at_;
  if (options_.stall > Seconds(0) && silence > options_.stall)
    return lose_server(
        fmt::format("it has given no sign of life for {}: its process is stopped or its machine hangs",
                    seconds_text(silence)),
        PL_ERROR_TIMEOUT);
  if (reachability_.lost(socket_.fd(), clock_.now()))
    return lose_server(fmt::format("its host has not answered for {} (power, network, firewall)",
                                   seconds_text(Reachability::kPatience)));
  send_state();
}

void Client::listen(bool on) {
  epoll_event event{};
  event.events = EPOLLONESHOT | (on ? EPOLLIN : 0u);
  event.data.fd = socket_.fd();
  ::epoll_ctl(epoll_.fd(), EPOLL_CTL_MOD, socket_.fd(), &event);
}

}  // namespace pipeline::peers
