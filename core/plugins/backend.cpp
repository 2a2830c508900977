#include "core/plugins/backend.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/abi_values.hpp"

namespace pipeline::plugins {
namespace {

const std::uint64_t* counts_or_null(std::span<const std::uint64_t> counts, std::int32_t world_size,
                                    const char* what) {
  if (counts.empty()) return nullptr;
  if (counts.size() != static_cast<std::size_t>(world_size))
    throw Error(std::string(what) + ": needs one count for each of the " + std::to_string(world_size) +
                " ranks, got " + std::to_string(counts.size()));
  return counts.data();
}

pl_backend_info info_of(const pl_communicator& communicator) {
  auto info = sized<pl_backend_info>();
  check(communicator.api->info(communicator.comm, &info));
  return info;
}

void on_ran(void* user, uint64_t sequence, int64_t begin, int64_t end) noexcept {
  using Time = std::chrono::steady_clock::time_point;  // CLOCK_MONOTONIC
  static_cast<FlightRecord*>(user)->ran(
      {sequence, Time(std::chrono::nanoseconds(begin)), Time(std::chrono::nanoseconds(end))});
}

}  // namespace

Work::~Work() {
  if (handle_) host_table().error_free(communicator_->api->wait_host(communicator_->comm, handle_, 0));
}

void Work::wait(std::chrono::duration<double> timeout) {
  check(communicator_->api->wait_host(communicator_->comm, std::exchange(handle_, nullptr), timeout.count()));
}

void Work::wait_on(pl_stream stream) {
  check(communicator_->api->wait(communicator_->comm, std::exchange(handle_, nullptr), stream));
}

bool Work::is_done() const { return communicator_->api->is_done(communicator_->comm, handle_) != 0; }

Communicator::Communicator(const Plugin& backend, const pl_context& context, const pl_config* config,
                           const OpenArgs& args)
    : channel_(std::make_unique<Channel>(backend, context)) {
  auto raw = sized<pl_backend_open_args>();
  raw.rank = args.rank;
  raw.world_size = args.world_size;
  raw.local_rank = args.local_rank;
  raw.local_world_size = args.local_world_size;
  raw.device = args.device;
  raw.timeout_seconds = args.timeout.count();
  raw.address = to_pl(args.address);
  raw.group = to_pl(args.group);
  if (!args.members.empty()) {
    raw.members = args.members.data();
    raw.member_count = args.members.size();
    channel_->of_some = fmt::format(" (in the group of ranks {})", fmt::join(args.members, ", "));
  }
  try {
    channel_->call.main(
        "open", [&] { return channel_->api.open(&host_table(), &context, config, &raw, &channel_->comm); });
  } catch (const Error& e) {
    throw Error(e.code(), e.what() + channel_->of_some);
  }
  if (!channel_->comm) throw Error(backend.label() + ": open returned no error and no group");
  view_ = sized<pl_communicator>();
  view_.rank = args.rank;
  view_.world_size = args.world_size;
  view_.api = &forwarding_table();
  view_.comm = reinterpret_cast<pl_comm*>(channel_.get());
}

Communicator::~Communicator() {
  channel_->call.cannot_fail("close", [&] { channel_->api.close(channel_->comm); });
}

const Plugin& Communicator::plugin() const { return channel_->call.plugin(); }
const FlightRecord& Communicator::record() const { return channel_->record; }

void Communicator::observe(pl_collective_ran ran) {
  if (!channel_->api.observe) return;
  channel_->call.main("observe", [&]() -> pl_error* {
    channel_->api.observe(channel_->comm, ran, &channel_->record);
    return nullptr;
  });
}

void Communicator::keep_flights() {
  channel_->record.keep();
  observe(on_ran);
}

FlightRecord::Kept Communicator::stop_keeping_flights() {
  observe(nullptr);
  FlightRecord::Kept kept = channel_->record.stop_keeping();
  kept.has_times = channel_->api.observe != nullptr;
  return kept;
}

std::string Communicator::library() const { return std::string(pipeline::view(info_of(view_).library)); }
std::string Communicator::transport() const { return std::string(pipeline::view(info_of(view_).transport)); }

// Starts a collective: `slot` of the forwarding table.
template <auto slot>
Work Communicator::start(const auto&... args) {
  pl_work* work = nullptr;
  check((view_.api->*slot)(view_.comm, args..., &work));
  return Work(view_, work);
}

Work Communicator::all_reduce(const pl_buffer& in_out, std::uint32_t reduce) {
  return start<&pl_backend_api::all_reduce>(&in_out, reduce);
}

Work Communicator::reduce_scatter(const pl_buffer& in, const pl_buffer& out_shard,
                                  std::span<const std::uint64_t> counts, std::uint32_t reduce) {
  return start<&pl_backend_api::reduce_scatter>(
      &in, &out_shard, counts_or_null(counts, view_.world_size, "reduce_scatter"), reduce);
}

Work Communicator::all_gather(const pl_buffer& in_shard, const pl_buffer& out_full,
                              std::span<const std::uint64_t> counts) {
  return start<&pl_backend_api::all_gather>(&in_shard, &out_full,
                                            counts_or_null(counts, view_.world_size, "all_gather"));
}

Work Communicator::broadcast(const pl_buffer& in_out, std::int32_t root) {
  return start<&pl_backend_api::broadcast>(&in_out, root);
}

Work Communicator::all_to_all(const pl_buffer& in, const pl_buffer& out,
                              std::span<const std::uint64_t> send_counts,
                              std::span<const std::uint64_t> receive_counts) {
  return start<&pl_backend_api::all_to_all>(
      &in, &out, counts_or_null(send_counts, view_.world_size, "all_to_all (send)"),
      counts_or_null(receive_counts, view_.world_size, "all_to_all (receive)"));
}

Work Communicator::barrier() { return start<&pl_backend_api::barrier>(); }

void Communicator::abort(std::string_view reason) { view_.api->abort(view_.comm, to_pl(reason)); }

pl_buffer host_buffer(void* data, std::uint64_t count, pl_dtype dtype) {
  auto buffer = sized<pl_buffer>();
  buffer.data = data;
  buffer.count = count;
  buffer.dtype = dtype;
  buffer.device = {PL_DEVICE_CPU, 0};
  return buffer;
}

}  // namespace pipeline::plugins
