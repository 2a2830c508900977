#include "backends/common/rendezvous.hpp"

#include <pipeline/torch/errors.hpp>

#include <c10/util/Logging.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <thread>

#include "backends/common/network.hpp"

C10_DECLARE_int(caffe2_log_level);

namespace pipeline::backends {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;

constexpr milliseconds kSlice{1000};  // of waiting, between two looks at the request to stop
constexpr int kFatal = 3;             // c10's log levels

std::string here(int32_t rank) { return concat("here/", rank); }

// What was thrown, in one line.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }
std::string reason_of(const std::exception& e) {
  const auto* torch = dynamic_cast<const c10::Error*>(&e);
  return first_line(torch == nullptr ? e.what() : torch->what_without_backtrace());
}

// Runs `ask` on a thread of its own, which stays behind when c10d gets no answer: it may wait for ever.
template <class F>
auto start_asking(F ask) {
  auto answer = std::make_shared<std::promise<decltype(ask())>>();
  auto future = answer->get_future();
  std::thread([answer, ask = std::move(ask)] {
    try {
      answer->set_value(ask());
    } catch (...) {
      answer->set_exception(std::current_exception());
    }
  }).detach();
  return future;
}

std::string listed(const std::vector<int32_t>& ranks) {
  std::string text;
  for (const int32_t rank : ranks) text += concat(text.empty() ? "" : ", ", rank);
  return text;
}

}  // namespace

void silence_c10d() {
  c10::initLogging();  // reads TORCH_CPP_LOG_LEVEL
  static const int before = FLAGS_caffe2_log_level;
  if (before >= 1) FLAGS_caffe2_log_level = kFatal;
}

Rendezvous::Rendezvous(const Context& context, Meeting meeting, const std::string& facts)
    : context_(context),
      meeting_(std::move(meeting)),
      deadline_(Clock::now() +
                std::chrono::duration_cast<Clock::duration>(duration<double>(meeting_.timeout_seconds))),
      identity_(concat(host_name(), " process ", ::getpid(), ' ', Clock::now().time_since_epoch().count())) {
  silence_c10d();
  try_to_meet(facts);
}

double Rendezvous::seconds_left() const { return duration<double>(deadline_ - Clock::now()).count(); }

milliseconds Rendezvous::slice() const {
  const auto left = std::chrono::ceil<milliseconds>(deadline_ - Clock::now());
  return std::clamp(left, milliseconds(1), kSlice);
}

// A store that is going away, of an earlier group at this port, may still answer: then it is tried again.
void Rendezvous::try_to_meet(const std::string& facts) {
  std::string problem = "no answer";
  while (seconds_left() > 0) {
    context_.throw_if_cancelled();
    try {
      connect();
      announce(facts);
      std::vector<int32_t> late = missing();
      while (!late.empty() && seconds_left() > 0) {
        is_there(here(late.front()));
        late = missing();
      }
      if (late.empty()) {
        for (int32_t rank = 0; rank < meeting_.world_size; ++rank) {
          const std::string value = store_->get_to_str(here(rank));
          facts_.push_back(value.substr(value.find('\n') + 1));
        }
        return;
      }
      fail_with(PL_ERROR_TIMEOUT, "open: after ", meeting_.timeout_seconds, " seconds of waiting these of ",
                meeting_.world_size, " ranks have not come: ", listed(late), " (rank 0 is at ",
                meeting_.address, ':', meeting_.port,
                "): was the run started on every host, with the same address, port and number of processes, "
                "and does "
                "a firewall let them through?");
    } catch (const c10::Error& e) {
      facts_.clear();
      problem = reason_of(e);
      if (meeting_.rank == 0 && problem.find("EADDRINUSE") != std::string::npos) {
        fail("open: port ", meeting_.port, " is in use on ", host_name(),
             ", where rank 0 has to listen: another run? Choose another port (MASTER_PORT)");
      }
      std::this_thread::sleep_for(std::min(slice(), milliseconds(50)));
    }
  }
  fail_with(PL_ERROR_TIMEOUT, "open: after ", meeting_.timeout_seconds, " seconds of waiting these of ",
            meeting_.world_size, " ranks have not come: 0; nothing answers at ", meeting_.address, ':',
            meeting_.port, " (", problem,
            "): is that the host of rank 0, is it running, and does a firewall let port ", meeting_.port,
            " through?");
}

void Rendezvous::connect() {
  std::string problem;
  try {
    address_towards(meeting_.address, meeting_.port);  // c10d would not say that the name is unknown
  } catch (const Error& e) {
    C10_THROW_ERROR(DistNetworkError, e.what());
  }
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(meeting_.port);
  options.isServer = meeting_.rank == 0;
  options.waitWorkers = false;
  options.multiTenant = true;  // two groups of a process may meet at one port
  options.timeout = std::chrono::ceil<milliseconds>(deadline_ - Clock::now());
  auto store = start_asking([address = meeting_.address, options] {
    return c10::make_intrusive<c10d::TCPStore>(address, options);
  });
  while (store.wait_for(slice()) != std::future_status::ready) {
    context_.throw_if_cancelled();
    if (seconds_left() < -1)  // what listens there is no rank 0
      C10_THROW_ERROR(DistNetworkError, "it takes connections, and does not answer");
  }
  store_ = c10::make_intrusive<c10d::PrefixStore>(meeting_.group, store.get());
}

void Rendezvous::announce(const std::string& facts) {
  check_world_size();
  const std::string mine = identity_ + '\n' + facts;
  const std::string there = store_->compareSet(here(meeting_.rank), "", mine);
  if (there == mine) return;
  fail_with(PL_ERROR_PEER, "open: rank ", meeting_.rank, " is there twice: here and as ",
            there.substr(0, there.rfind(' ', there.find('\n'))));
}

void Rendezvous::check_world_size() {
  const std::string mine = std::to_string(meeting_.world_size);
  const std::string there = store_->compareSet("world", "", mine);
  if (there == mine) return;
  fail_with(PL_ERROR_PEER, "open: rank ", meeting_.rank, " says that the group has ", mine,
            " ranks, another one said ", there);
}

std::vector<int32_t> Rendezvous::missing() const {
  std::vector<int32_t> late;
  for (int32_t rank = 0; rank < meeting_.world_size; ++rank) {
    if (!store_->check({here(rank)})) late.push_back(rank);
  }
  return late;
}

std::vector<std::string> Rendezvous::exchange(const std::string& what, const std::string& mine) {
  std::vector<std::string> all;
  store_->set(concat(what, '/', meeting_.rank), mine);
  for (int32_t rank = 0; rank < meeting_.world_size; ++rank) {
    const std::string key = concat(what, '/', rank);
    while (!is_there(key)) {
      if (seconds_left() <= 0)
        fail_with(PL_ERROR_TIMEOUT, "open: after ", meeting_.timeout_seconds, " seconds rank ", rank,
                  ", which had come, has not sent its ", what, ": did its process end? See its log");
    }
    all.push_back(store_->get_to_str(key));
  }
  return all;
}

// Waits for a slice of time at most: c10d would not see a request to stop.
bool Rendezvous::is_there(const std::string& key) {
  context_.throw_if_cancelled();
  try {
    store_->wait({key}, slice());
    return true;
  } catch (const c10::DistStoreError&) {  // not yet
    return false;
  }
}

// On rank 0's host its address may lead to the loopback interface (Debian gives the host's own name
// 127.0.1.1), where no other host can come.
LocalAddress Rendezvous::local_address() {
  LocalAddress local = address_towards(meeting_.address, meeting_.port);
  for (const std::string& ip : exchange("first-ip", local.loopback ? "" : local.ip)) {
    if (local.loopback && !ip.empty()) local = address_towards(ip, meeting_.port);
  }
  return local;
}

}  // namespace pipeline::backends
