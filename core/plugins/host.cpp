#include "core/plugins/host.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include <fmt/format.h>

#include "core/base/fail.hpp"
#include "core/base/hash.hpp"
#include "core/config/settings.hpp"
#include "core/peers/peers.hpp"
#include "core/plugins/call.hpp"

void pl_context::set_run_info(const pl_run_info& info) {
  run_dir_ = pipeline::view(info.run_dir);
  cache_dir_ = pipeline::view(info.cache_dir);
  info_ = info;
  info_.struct_size = sizeof(pl_run_info);
  info_.run_dir = pipeline::to_pl(run_dir_);
  info_.cache_dir = pipeline::to_pl(cache_dir_);
}

namespace pipeline::plugins {
namespace {

// Runs a callback that has no way to fail: what it throws waits in the call that this thread is in.
template <class Function>
void keep(const pl_context* context, Function&& function) noexcept {
  try {
    function();
  } catch (...) {
    if (PendingException* call = PendingException::innermost())
      call->keep();
    else
      say_exception(context);
  }
}

bool is_float_scalar(const pl_tensor* tensor) {
  return tensor && tensor->data && tensor->ndim == 0 && tensor->dtype.code == PL_DTYPE_FLOAT &&
         (tensor->dtype.bits == 32 || tensor->dtype.bits == 64);
}

void log(const pl_context* context, std::uint32_t level, pl_str line) noexcept {
  if (context->log) keep(context, [&] { context->log(level, view(line)); });
}

void metric(const pl_context* context, pl_str name, double sum, double weight) noexcept {
  keep(context, [&] {
    check_main_thread(context->main_thread(), context->plugin, "pl_host.metric");
    if (context->metric) context->metric(view(name), sum, weight);
  });
}

void metric_tensor(const pl_context* context, pl_str name, const pl_tensor* sum, double weight) noexcept {
  keep(context, [&] {
    check_main_thread(context->main_thread(), context->plugin, "pl_host.metric_tensor");
    if (!is_float_scalar(sum))
      fail("gives the metric '{}' a tensor that is not a float32 or float64 scalar", view(name));
    if (context->metric_tensor) context->metric_tensor(view(name), *sum, weight);
  });
}

void progress(const pl_context* context, pl_str what, std::uint64_t done, std::uint64_t total) noexcept {
  if (context->progress) keep(context, [&] { context->progress(view(what), done, total); });
}

std::uint32_t cancelled(const pl_context* context) noexcept {
  bool answer = false;
  if (context->cancelled) keep(context, [&] { answer = context->cancelled(); });
  return answer ? 1 : 0;
}

const pl_run_info* run_info(const pl_context* context) noexcept { return &context->run_info(); }

std::uint64_t seed(const pl_context* context, pl_str name, std::uint64_t a, std::uint64_t b,
                   std::uint64_t c) noexcept {
  return derive_seed(context->run_info().seed, view(name), a, b, c);
}

std::string_view bytes_of(const void* bytes, std::uint64_t size) {
  return {static_cast<const char*>(bytes), static_cast<std::size_t>(size)};
}

template <class Callback>
const Callback& given(const Callback& callback, const char* slot) {
  if (callback) return callback;
  fail(PL_ERROR_UNSUPPORTED, "pl_host.{} is for strategies and backends in training", slot);
}

pl_error* exchange(const pl_context* context, pl_str name, const void* mine, std::uint64_t size,
                   pl_bytes_visitor visit, void* user) noexcept {
  return guard([&] {
    const auto all = given(context->exchange, "exchange")(view(name), bytes_of(mine, size));
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      check(visit(user, static_cast<std::int32_t>(rank), all[rank].data(), all[rank].size()));
  });
}

pl_error* store_set(const pl_context* context, pl_str key, const void* bytes, std::uint64_t size) noexcept {
  return guard([&] { given(context->store_set, "store_set")(view(key), bytes_of(bytes, size)); });
}

pl_error* store_get(const pl_context* context, pl_str key, double timeout_seconds, pl_bytes_visitor visit,
                    void* user) noexcept {
  return guard([&] {
    const std::chrono::duration<double> timeout(timeout_seconds);
    const auto value = given(context->store_get, "store_get")(view(key), timeout);
    if (!value) fail(PL_ERROR_TIMEOUT, "after {} seconds no rank has set '{}'", timeout_seconds, view(key));
    check(visit(user, 0, value->data(), value->size()));
  });
}

std::vector<std::int32_t> checked_members(const pl_run_info& run, const std::int32_t* members,
                                          std::uint64_t count) {
  const std::vector<std::int32_t> all(members, members + count);
  for (const std::int32_t rank : all)
    if (rank < 0 || rank >= run.world_size || std::ranges::count(all, rank) != 1)
      fail("pl_host.group_open: member {} of {} ranks, must be one of them and named once", rank,
           run.world_size);
  if (std::ranges::find(all, run.rank) == all.end())
    fail("pl_host.group_open: rank {} is not a member of its own group", run.rank);
  return all;
}

pl_error* group_open(const pl_context* context, pl_str name, const std::int32_t* members, std::uint64_t count,
                     pl_communicator* out) noexcept {
  return guard([&] {
    check_main_thread(context->main_thread(), context->plugin, "pl_host.group_open");
    const pl_communicator opened = given(context->open_group, "group_open")(
        view(name), checked_members(context->run_info(), members, count));
    const std::uint32_t room = out->struct_size;
    std::memcpy(out, &opened, std::min<std::size_t>(room, sizeof opened));
    out->struct_size = room;
  });
}

// `full`: the key under which the run's store has one of the context's.
using FullName = std::function<std::string(std::string_view name)>;

void give_store(pl_context& context, peers::Peers& peers, const FullName& full,
                const std::function<bool()>& cancelled) {
  context.store_set = [&peers, full](std::string_view key, std::string_view value) {
    peers.put(full(key), value);
  };
  context.store_get = [&peers, full, cancelled](std::string_view key, std::chrono::duration<double> timeout) {
    return peers.get(full(key), timeout, cancelled);
  };
}

}  // namespace

void give_exchange_among(pl_context& context, peers::Peers& peers, const std::string& group,
                         const std::vector<std::int32_t>& members, std::int32_t rank,
                         std::chrono::duration<double> timeout, const std::function<bool()>& cancelled) {
  const auto full = [plugin = context.plugin, group](std::string_view name) {
    return fmt::format("{}/{}/{}", plugin, group, name);
  };
  struct Rounds {
    std::mutex mutex;
    std::map<std::string, std::uint64_t, std::less<>> done;  // by name
  };
  const auto rounds = std::make_shared<Rounds>();
  context.exchange = [=, &peers](std::string_view name, std::string_view mine) {
    const auto round = [&] {
      const std::lock_guard lock(rounds->mutex);
      return ++rounds->done[std::string(name)];
    }();
    const std::string channel = fmt::format("{}#{}", full(name), round);
    peers.put(fmt::format("{}/{}", channel, rank), mine);
    std::vector<std::string> all;
    for (std::size_t other = 0; other < members.size(); ++other) {
      auto theirs = peers.get(fmt::format("{}/{}", channel, other), timeout, cancelled);
      if (!theirs)
        fail(PL_ERROR_TIMEOUT, "{}: after {:.0f} seconds rank {} has given nothing", full(name),
             timeout.count(), members[other]);
      all.push_back(std::move(*theirs));
    }
    return all;
  };
  give_store(context, peers, full, cancelled);
}

void give_exchange(pl_context& context, peers::Peers& peers, const std::function<bool()>& cancelled) {
  const auto full = [plugin = context.plugin](std::string_view name) {
    return fmt::format("{}/{}", plugin, name);
  };
  context.exchange = [&peers, full, cancelled](std::string_view name, std::string_view mine) {
    return peers.all_gather(full(name), mine, cancelled);
  };
  give_store(context, peers, full, cancelled);
}

const pl_host& host_table() {
  static const pl_host host = [] {
    pl_host made{};
    made.struct_size = sizeof(pl_host);
    made.abi_major = PL_ABI_MAJOR;
    made.abi_minor = PL_ABI_MINOR;
    fill_error_slots(made);
    made.log = log;
    made.metric = metric;
    made.metric_tensor = metric_tensor;
    made.progress = progress;
    made.cancelled = cancelled;
    made.run_info = run_info;
    made.seed = seed;
    made.exchange = exchange;
    made.store_set = store_set;
    made.store_get = store_get;
    config::fill_config_slots(made);
    made.group_open = group_open;
    return made;
  }();
  return host;
}

void say_exception(const pl_context* context) noexcept {
  pl_error* error = current_exception_as_error();
  bool logged = false;
  try {
    if (context && context->log) {
      context->log(PL_LOG_ERROR, error->message);
      logged = true;
    }
  } catch (...) {  // the log is what fails
  }
  if (!logged) std::fprintf(stderr, "error: %s\n", error->message.c_str());
  host_table().error_free(error);
}

}  // namespace pipeline::plugins
