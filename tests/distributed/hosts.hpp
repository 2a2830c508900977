// Hosts with names and addresses of their own, made of network namespaces that a bridge joins. Needs root.
#pragma once

#include <string>
#include <vector>

#include "tests/support/temporary_folder.hpp"

namespace pipeline::tests {

class Hosts {
 public:
  // Empty if hosts can be made here; otherwise what is missing.
  static std::string missing();

  // n1, n2, ..., which know each other's names.
  explicit Hosts(int count);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  // `command` as it is started on host i, from 1.
  std::vector<std::string> on(int host, const std::vector<std::string>& command) const;
  std::string name(int host) const { return "n" + std::to_string(host); }
  std::string address(int host) const;
  void unplug(int host) const;                // pulls its cable
  void block_port(int host, int port) const;  // a firewall that answers nothing

 private:
  std::string space(int host) const;  // the namespace's name; 0: the switch between them

  TemporaryFolder names_;  // with /etc/hosts
  std::string prefix_;
  int count_;
};

}  // namespace pipeline::tests
