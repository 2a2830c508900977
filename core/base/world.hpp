// This process's place among the processes of a run: what a launcher's environment, or our own supervisor,
// says it is.
#pragma once

#include <cstdint>
#include <string>

namespace pipeline {

struct World {
  int32_t rank = 0, size = 1;              // among all processes
  int32_t local_rank = 0, local_size = 1;  // among those of this host; the CUDA device is the local rank
  std::string launcher;  // "torchrun", "Slurm (srun)", "OpenMPI (mpirun)", "MPI (PMI)", "PyTorchJob",
                         // "pipeline"; empty: alone

  // Where rank 0 listens for the others. Ports first, first + 1, ... are tried in this order: rank 0 takes
  // the first one that is free, the others try one after the other until somebody answers with this
  // run's run_id. More than one only where no port was agreed on.
  std::string address;  // host name or IP of rank 0; empty where size is 1
  uint16_t port = 0;
  uint16_t port_tries = 1;
  // Rank 0 under our supervisor: a descriptor that is bound to `port` and listens already, to be taken over
  // (and closed) by whoever serves; so no other process can take the port in between. -1: none, bind it.
  int listen_socket = -1;

  std::string run_id;  // the same on all ranks; not another run's, where the launcher gives one
  // What only this run's ranks know, and prove to each other before they meet. Empty: they meet without.
  std::string secret;
  uint32_t attempt = 0;     // restarts so far; under torchrun hosts may count them differently
  bool supervised = false;  // by our own supervisor, which prints how processes end and what they wrote last
  std::string note;  // what the user should know about how this place was found, for the log; empty: nothing
  // What to do if this process is the only one that was started; empty: that would not be `launcher`'s way.
  std::string if_alone;
};

}  // namespace pipeline
