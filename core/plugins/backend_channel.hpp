#pragma once

#include "core/plugins/backend.hpp"
#include "core/plugins/call.hpp"
#include "core/plugins/thread_check.hpp"

namespace pipeline::plugins {

// What `comm` of the forwarding table points to: the backend's own group and the record of its calls.
struct Communicator::Channel {
  Channel(const Plugin& plugin, const pl_context& context) : api(plugin.backend()), call(plugin, context) {}

  const pl_backend_api& api;
  Caller call;
  pl_comm* comm = nullptr;
  FlightRecord record;
  SerialCheck serial;
};

// The table that strategies and Communicator's methods call; `comm` is a Channel.
const pl_backend_api& forwarding_table();

}  // namespace pipeline::plugins
