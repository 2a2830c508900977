// What benchmarks between processes of this host share.
#pragma once

#include <arpa/inet.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "core/peers/peers.hpp"
#include "core/plugins/backend.hpp"

namespace bench {

// A process that was started by the first one; rank -1 is that one.
struct Place {
  int rank = -1, ranks = 2;
  int port = 0, their_port = 0;  // of the rendezvous of ours, and of c10d's
};

// "--NAME VALUE" each: a place's numbers, and what else the program takes.
inline void parse(int argc, char** argv, Place& place, std::map<std::string, int*> numbers,
                  const std::map<std::string, std::string*>& texts = {}) {
  numbers.insert({{"--processes", &place.ranks},
                  {"--rank", &place.rank},
                  {"--port", &place.port},
                  {"--their-port", &place.their_port}});
  for (int i = 1; i + 1 < argc; i += 2) {
    if (const auto number = numbers.find(argv[i]); number != numbers.end())
      *number->second = std::atoi(argv[i + 1]);
    else if (const auto text = texts.find(argv[i]); text != texts.end())
      *text->second = argv[i + 1];
    else
      throw std::invalid_argument(std::string("unknown option ") + argv[i]);
  }
}

// A TCP port of this host that nobody listens on at the moment.
inline std::string free_port() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ::bind(listener, reinterpret_cast<sockaddr*>(&address), length);
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  ::close(listener);
  return std::to_string(ntohs(address.sin_port));
}

// Starts this program again as each of the ranks, with the same arguments: LibTorch's threads do not survive
// a fork. Returns 0 if all have ended well.
inline int start_ranks(int argc, char** argv, int ranks) {
  const std::string port = free_port(), their_port = free_port();
  for (int rank = 0; rank < ranks; ++rank) {
    if (::fork() != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::vector<std::string> words(argv, argv + argc);
    words.insert(words.end(), {"--rank", std::to_string(rank), "--port", port, "--their-port", their_port});
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv("/proc/self/exe", arguments.data());
    ::_exit(127);
  }
  int worst = 0, status = 0;
  while (::wait(&status) > 0) worst = std::max(worst, status);
  return worst == 0 ? 0 : 1;
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

inline pipeline::World world_of(const Place& place) {
  pipeline::World world;
  world.rank = world.local_rank = place.rank;
  world.size = world.local_size = place.ranks;
  world.address = "127.0.0.1";
  world.port = static_cast<std::uint16_t>(place.port);
  return world;
}

inline pipeline::plugins::OpenArgs open_args(const Place& place, const std::string& group) {
  pipeline::plugins::OpenArgs args;
  args.address = "127.0.0.1";
  args.group = group;
  args.rank = args.local_rank = place.rank;
  args.world_size = args.local_world_size = place.ranks;
  return args;
}

// c10d's own collectives over Gloo, and the store by which the ranks have met.
inline std::pair<c10::intrusive_ptr<c10d::ProcessGroupGloo>, c10::intrusive_ptr<c10d::TCPStore>> c10d_gloo(
    const Place& place) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(place.their_port);
  options.isServer = place.rank == 0;
  options.waitWorkers = false;
  auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  auto gloo_options = c10d::ProcessGroupGloo::Options::create();
  gloo_options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return {c10::make_intrusive<c10d::ProcessGroupGloo>(store, place.rank, place.ranks, gloo_options), store};
}

}  // namespace bench
