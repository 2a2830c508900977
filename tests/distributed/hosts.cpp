#include "tests/distributed/hosts.hpp"

#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "tests/distributed/runs.hpp"

namespace pipeline::tests {
namespace {

void shell(const std::string& command) {
  if (std::system(("PATH=$PATH:/usr/sbin:/sbin; " + command).c_str()) != 0)
    throw std::runtime_error("failed: " + command);
}

}  // namespace

std::string Hosts::missing() {
  if (::geteuid() != 0) return "network namespaces need root";
  if (!has_program("ip")) return "the package iproute2 is not installed";
  const std::string name = "pl-try-" + std::to_string(::getpid());
  const std::string attempt = "ip netns add " + name + " && ip -n " + name + " link add name br0 type bridge";
  const bool works = std::system(("(" + attempt + ") 2>/dev/null").c_str()) == 0;
  [[maybe_unused]] const int ignored = std::system(("ip netns del " + name + " 2>/dev/null").c_str());
  return works ? "" : "this kernel or container allows no network namespaces with bridges";
}

Hosts::Hosts(int count) : prefix_("pl" + std::to_string(::getpid()) + "-"), count_(count) {
  shell("ip netns add " + space(0));
  shell("ip -n " + space(0) + " link add name br0 type bridge && ip -n " + space(0) + " link set br0 up");
  std::string names = "127.0.0.1 localhost\n";
  for (int i = 1; i <= count; ++i) names += address(i) + " " + name(i) + "\n";
  for (int i = 1; i <= count; ++i) {
    const std::string port = "p" + std::to_string(i);
    shell("ip netns add " + space(i));
    shell("ip -n " + space(0) + " link add " + port + " type veth peer name eth0 netns " + space(i));
    shell("ip -n " + space(0) + " link set " + port + " master br0 up");
    shell("ip -n " + space(i) + " addr add " + address(i) + "/24 dev eth0");
    shell("ip -n " + space(i) + " link set eth0 up && ip -n " + space(i) + " link set lo up");
  }
  write_text(names_.path() / "hosts", names);
}

Hosts::~Hosts() {
  for (int i = 0; i <= count_; ++i)
    [[maybe_unused]] const int ignored = std::system(("ip netns del " + space(i) + " 2>/dev/null").c_str());
}

// Not `ip netns exec`: that takes away /sys/fs/cgroup, which slurmd needs.
std::vector<std::string> Hosts::on(int host, const std::vector<std::string>& command) const {
  return Words{"/usr/bin/env",
               "nsenter",
               "--net=/run/netns/" + space(host),
               "unshare",
               "--uts",
               "--mount",
               "sh",
               "-c",
               "mount --bind " + (names_.path() / "hosts").string() + " /etc/hosts && hostname " +
                   name(host) + " && exec \"$@\"",
               "sh"} +
         command;
}

std::string Hosts::address(int host) const { return "10.87.0." + std::to_string(host); }

std::string Hosts::space(int host) const { return prefix_ + (host == 0 ? "switch" : name(host)); }

void Hosts::unplug(int host) const {
  shell("ip -n " + space(0) + " link set p" + std::to_string(host) + " down");
}

void Hosts::block_port(int host, int port) const {
  shell("ip netns exec " + space(host) + " iptables -A INPUT -i eth0 -p tcp --dport " + std::to_string(port) +
        " -j DROP");
}

}  // namespace pipeline::tests
