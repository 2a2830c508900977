// The short forms in which Slurm writes lists into the environment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pipeline::launch {

// "n[1-3,07],login" -> n1 n2 n3 n07 login. Throws Error (PL_ERROR_CONFIG) for anything that is no such list.
std::vector<std::string> expand_nodes(const std::string& list);

// "2(x3),1" -> 2 2 2 1: tasks for each node.
std::vector<int32_t> expand_tasks(const std::string& list);

}  // namespace pipeline::launch
