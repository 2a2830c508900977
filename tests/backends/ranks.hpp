// Runs the ranks of a group: as processes (this program, started again at the same test) or, for the fake
// backend, as threads.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "core/peers/peers.hpp"
#include "core/plugins/backend.hpp"

namespace pipeline::tests {

// What a group is opened with, and by what its ranks find each other.
struct OpenArgs : plugins::OpenArgs {
  peers::Peers* peers = nullptr;
};

// The backend under test.
struct BackendUnderTest {
  std::string name;    // "gloo"
  bool processes;      // ranks must be processes
  std::string plugin;  // its file
};

const BackendUnderTest& backend(const std::string& name);
bool was_built(const BackendUnderTest& backend);

// Memory that all ranks of one on_ranks() share, zero at first.
struct Scene {
  std::atomic<int> done;     // ranks whose body is over, one way or another
  std::atomic<int> flag[8];  // the body's own

  void wait_for(int index, int value = 1) const;  // until flag[index] >= value
};

struct Rank {
  plugins::Communicator& group;
  Scene& scene;
  const BackendUnderTest& backend;

  int rank() const { return group.rank(); }
  int size() const { return group.world_size(); }
};

struct RankOptions {
  double timeout = 20;  // of the group, seconds
  std::string group = "group";
  std::string interface;  // gloo's option
};

// What each rank's body, or the opening of its group, threw (the other ranks hear of it), or "killed by
// signal 9" or "stopped"; empty: nothing. A rank leaves the group when all of them are done. In a rank's own
// process the call does not return.
std::vector<std::string> on_ranks(const BackendUnderTest& backend, int ranks,
                                  const std::function<void(Rank&)>& body, const RankOptions& options = {});
// A rank's part without an opened group: `args` are ready to be opened with open_group().
using RawBody = std::function<void(const OpenArgs& args, Scene& scene)>;
std::vector<std::string> on_raw_ranks(const BackendUnderTest& backend, int ranks, const RawBody& body,
                                      const RankOptions& options = {});

// Opens a group on the backend; what it needs lives as long as the process. A group that on_ranks() opened is
// aborted when another rank has failed or is gone, as by the core.
std::unique_ptr<plugins::Communicator> open_group(const BackendUnderTest& backend, const OpenArgs& args,
                                                  const std::string& interface = "");

void expect_fine(const std::vector<std::string>& problems);
// What `call` throws, as text; "none" when it does not.
std::string problem_of(const std::function<void()>& call);

}  // namespace pipeline::tests
