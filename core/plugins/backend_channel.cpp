// The table behind a Communicator: every call goes through it, and on record.
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>

#include "core/base/abi_values.hpp"
#include "core/base/fail.hpp"
#include "core/plugins/backend.hpp"

namespace pipeline::plugins {

using Clock = std::chrono::steady_clock;

std::string describe(const Flight& flight) {
  if (flight.count == 0) return fmt::format("{} #{}", flight.operation, flight.sequence);
  const std::string_view label = flight.label.data();
  return fmt::format("{} #{} ({} x {}{}{})", flight.operation, flight.sequence, flight.count,
                     dtype_name(flight.dtype), label.empty() ? "" : ", ", label);
}

void FlightRecord::begin(const char* operation, const pl_buffer* full, const pl_buffer* first,
                         const pl_work* work) {
  std::lock_guard lock(mutex_);
  Entry entry{{.sequence = next_++, .operation = operation, .started = Clock::now()}, work};
  if (full != nullptr) {
    entry.flight.count = full->count;
    entry.flight.dtype = full->dtype;
    const std::string_view label =
        PL_HAS(pl_buffer, first, label) ? view(first->label).substr(0, entry.flight.label.size() - 1) : "";
    std::ranges::copy(label, entry.flight.label.begin());
  }
  entry.flight.finished = entry.flight.started;
  if (under_way_++ == 0) first_began_ = entry.flight.started;
  if (entries_.size() < kCapacity) {
    entries_.push_back(entry);
  } else {
    Entry& oldest = entries_[(entry.flight.sequence - 1) % kCapacity];
    if (!oldest.flight.done) --under_way_;  // its end will not be seen
    oldest = entry;
  }
}

void FlightRecord::wait(const pl_work* work) {
  std::lock_guard lock(mutex_);
  for (Entry& entry : entries_)
    if (entry.work == work && !entry.flight.done) {
      entry.flight.waited = Clock::now();
      if (kept_) entry.flight.waiter = ::gettid();
    }
}

void FlightRecord::end(const pl_work* work, bool failed) {
  std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.work != work || entry.flight.done) continue;
    entry.flight.done = true;
    entry.flight.failed = failed;
    entry.flight.finished = Clock::now();
    const auto seconds = [&](Clock::time_point begin) {
      return std::chrono::duration<double>(entry.flight.finished - begin).count();
    };
    if (entry.flight.waited) times_.blocked += seconds(*entry.flight.waited);
    if (--under_way_ == 0) times_.in_flight += seconds(first_began_);
    if (kept_) kept_->flights.push_back(entry.flight);
  }
}

FlightRecord::Times FlightRecord::times() const {
  std::lock_guard lock(mutex_);
  return times_;
}

void FlightRecord::keep() {
  std::lock_guard lock(mutex_);
  kept_.emplace();
}

void FlightRecord::ran(const Ran& times) {
  std::lock_guard lock(mutex_);
  if (kept_) kept_->ran.push_back(times);
}

FlightRecord::Kept FlightRecord::stop_keeping() {
  std::lock_guard lock(mutex_);
  Kept kept = std::exchange(kept_, std::nullopt).value_or(Kept());
  for (const Entry& entry : entries_) {
    if (entry.flight.done) continue;
    kept.flights.push_back(entry.flight);
    kept.flights.back().finished = Clock::now();
  }
  return kept;
}

std::optional<Flight> FlightRecord::find(const pl_work* work) const {
  std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_)
    if (entry.work == work && !entry.flight.done) return entry.flight;
  return std::nullopt;
}

std::vector<Flight> FlightRecord::recent() const {
  std::lock_guard lock(mutex_);
  std::vector<Flight> flights;
  for (const Entry& entry : entries_) flights.push_back(entry.flight);
  std::sort(flights.begin(), flights.end(),
            [](const Flight& a, const Flight& b) { return a.sequence < b.sequence; });
  return flights;
}
namespace {

using Channel = Communicator::Channel;

Channel& channel(pl_comm* comm) { return *reinterpret_cast<Channel*>(comm); }

// Adds to what goes wrong in a group of some ranks which those are, since a group numbers its ranks anew.
template <class Call>
void with_group(const Channel& self, const Call& call) {
  if (self.of_some.empty()) return call();
  try {
    call();
  } catch (const Error& e) {
    throw Error(e.code(), e.what() + self.of_some);
  }
}

// Starts a collective by the backend's `slot`. `full`: the larger buffer, `first`: of the call.
template <auto slot>
pl_error* forward(pl_comm* comm, const char* operation, const pl_buffer* full, const pl_buffer* first,
                  pl_work** out, const auto&... args) noexcept {
  return guard([&] {
    Channel& self = channel(comm);
    const SerialCheck::Scope scope(self.serial, self.call.plugin().label(), operation);
    with_group(self,
               [&] { self.call.any(operation, [&] { return (self.api.*slot)(self.comm, args..., out); }); });
    if (!*out) fail("{}: {} returned no error and no work", self.call.plugin().label(), operation);
    self.record.begin(operation, full, first, *out);
  });
}

pl_error* open(const pl_host*, const pl_context*, const pl_config*, const pl_backend_open_args*,
               pl_comm**) noexcept {
  return make_error(PL_ERROR_UNSUPPORTED, "groups of ranks are opened by the host alone");
}

pl_error* info(pl_comm* comm, pl_backend_info* out) noexcept {
  return guard([&] {
    Channel& self = channel(comm);
    self.call.any("info", [&] { return self.api.info(self.comm, out); });
  });
}

pl_error* all_reduce(pl_comm* comm, const pl_buffer* in_out, std::uint32_t reduce, pl_work** out) noexcept {
  return forward<&pl_backend_api::all_reduce>(comm, "all_reduce", in_out, in_out, out, in_out, reduce);
}

pl_error* reduce_scatter(pl_comm* comm, const pl_buffer* in, const pl_buffer* out_shard,
                         const std::uint64_t* counts, std::uint32_t reduce, pl_work** out) noexcept {
  return forward<&pl_backend_api::reduce_scatter>(comm, "reduce_scatter", in, in, out, in, out_shard, counts,
                                                  reduce);
}

pl_error* all_gather(pl_comm* comm, const pl_buffer* in_shard, const pl_buffer* out_full,
                     const std::uint64_t* counts, pl_work** out) noexcept {
  return forward<&pl_backend_api::all_gather>(comm, "all_gather", out_full, in_shard, out, in_shard, out_full,
                                              counts);
}

pl_error* broadcast(pl_comm* comm, const pl_buffer* in_out, std::int32_t root, pl_work** out) noexcept {
  return forward<&pl_backend_api::broadcast>(comm, "broadcast", in_out, in_out, out, in_out, root);
}

pl_error* all_to_all(pl_comm* comm, const pl_buffer* in, const pl_buffer* out_buffer,
                     const std::uint64_t* send_counts, const std::uint64_t* receive_counts,
                     pl_work** out) noexcept {
  return forward<&pl_backend_api::all_to_all>(comm, "all_to_all", in, in, out, in, out_buffer, send_counts,
                                              receive_counts);
}

pl_error* barrier(pl_comm* comm, pl_work** out) noexcept {
  return forward<&pl_backend_api::barrier>(comm, "barrier", nullptr, nullptr, out);
}

// A failure says which collective it was.
template <auto slot>
pl_error* end_work(pl_comm* comm, const char* name, pl_work* work, const auto& how) noexcept {
  return guard([&] {
    Channel& self = channel(comm);
    const std::optional<Flight> flight = self.record.find(work);
    self.record.wait(work);
    bool failed = true;
    try {
      self.call.any(name, [&] { return (self.api.*slot)(self.comm, work, how); });
      failed = false;
    } catch (const Error& e) {
      self.record.end(work, failed);
      throw Error(e.code(),
                  (flight ? fmt::format("{} in {}", e.what(), describe(*flight)) : std::string(e.what())) +
                      self.of_some);
    }
    self.record.end(work, failed);
  });
}

pl_error* wait(pl_comm* comm, pl_work* work, pl_stream stream) noexcept {
  return end_work<&pl_backend_api::wait>(comm, "wait", work, stream);
}

pl_error* wait_host(pl_comm* comm, pl_work* work, double timeout_seconds) noexcept {
  return end_work<&pl_backend_api::wait_host>(comm, "wait_host", work, timeout_seconds);
}

void abort(pl_comm* comm, pl_str reason) noexcept {
  Channel& self = channel(comm);
  self.call.cannot_fail("abort", [&] { self.api.abort(self.comm, reason); });
}

// Does nothing: the group is the host's, which closes it.
void close(pl_comm*) noexcept {}

std::uint32_t is_done(pl_comm* comm, pl_work* work) noexcept {
  Channel& self = channel(comm);
  std::uint32_t done = 1;  // the wait that follows tells what failed
  if (self.api.is_done) self.call.cannot_fail("is_done", [&] { done = self.api.is_done(self.comm, work); });
  return done;
}

}  // namespace

const pl_backend_api& forwarding_table() {
  static const pl_backend_api table{sizeof(pl_backend_api),
                                    0,
                                    open,
                                    info,
                                    all_reduce,
                                    reduce_scatter,
                                    all_gather,
                                    broadcast,
                                    all_to_all,
                                    barrier,
                                    wait,
                                    wait_host,
                                    abort,
                                    close,
                                    is_done};
  return table;
}

}  // namespace pipeline::plugins
