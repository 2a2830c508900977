#include "core/base/port_owner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace pipeline {
namespace {

namespace fs = std::filesystem;

// The inode of the socket that listens there, from a table of /proc/net; empty: none.
std::string listening_inode(const char* table, uint16_t port) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);  // the columns' names
  const std::string suffix = fmt::format(":{:04X}", port);
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >>
        inode;
    if (state == "0A" && local.ends_with(suffix)) return inode;
  }
  return {};
}

bool has_open(const fs::path& process, const std::string& socket) {
  std::error_code ignored;  // processes end while they are looked at, and others' are closed to us
  for (fs::directory_iterator entry(process / "fd", ignored), end; entry != end; entry.increment(ignored))
    if (fs::read_symlink(entry->path(), ignored) == socket) return true;
  return false;
}

std::string command_of(const fs::path& process) {
  std::ifstream file(process / "cmdline", std::ios::binary);
  std::string command((std::istreambuf_iterator<char>(file)), {});
  while (!command.empty() && command.back() == '\0') command.pop_back();
  std::replace(command.begin(), command.end(), '\0', ' ');
  constexpr size_t kEnough = 100;
  return command.size() <= kEnough ? command : command.substr(0, kEnough) + "...";
}

}  // namespace

std::string port_owner(uint16_t port) {
  std::string inode = listening_inode("/proc/net/tcp", port);
  if (inode.empty()) inode = listening_inode("/proc/net/tcp6", port);
  if (inode.empty()) return {};
  std::error_code ignored;
  for (fs::directory_iterator entry("/proc", ignored), end; entry != end; entry.increment(ignored)) {
    const std::string name = entry->path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos ||
        !has_open(entry->path(), "socket:[" + inode + "]"))
      continue;
    return fmt::format("process {} ({})", name, command_of(entry->path()));
  }
  return {};
}

}  // namespace pipeline
