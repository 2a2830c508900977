#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/base/world.hpp"
#include "core/peers/background.hpp"
#include "core/peers/connection.hpp"
#include "core/peers/frame.hpp"
#include "core/peers/join.hpp"
#include "core/peers/round.hpp"
#include "core/peers/stall_watch.hpp"

namespace pipeline::peers {

// The server to which all ranks connect: admits them, carries their exchanges, and decides what the failure
// of the run is. Runs one thread in rank 0's process, which never waits for a rank: a slow rank has a
// queue.
class Server {
 public:
  // Starts to listen if there are other ranks; throws Error if it cannot.
  Server(const World& world, Seconds timeout, Seconds stall);
  // Sends what is queued and says goodbye; takes seconds at most.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Returns rank 0's own connection, which needs no network. Call it once.
  Socket connect_here() { return std::move(inside_); }

 private:
  void run();
  void wait_and_handle(int milliseconds);
  void accept_all();
  void make_room();
  void add(Socket socket, std::string address);
  bool read(Connection& connection);
  void handle(Connection& connection, Frame frame);
  void on_hello(Connection& connection, const Frame& frame);
  void on_answer(Connection& connection, const Frame& frame);
  bool object(Connection& connection);
  void on_admitted(Connection& connection);
  void on_exchange(Connection& connection, Frame frame);
  void on_put(Frame frame);
  void on_get(Connection& connection, const Frame& frame);
  void send_value(Connection& connection, std::string_view key, const Bytes& value);
  void on_leave(Connection& connection);

  void turn_away(Connection& connection, const Refusal& refusal);
  void open_the_run();
  void tick();
  void check_rendezvous();
  void check_connections();
  void check_stall();
  void lose(Connection& connection, const std::string& how);
  void fail_run(Verdict verdict, const Connection* origin = nullptr);
  void answer_origin();

  void send(Connection& connection, std::string head, Bytes body = nullptr);
  void flush(Connection& connection);
  void drop(int fd);
  void say_goodbye();
  bool all_sent(const Connection* except) const;
  template <class Function>
  void for_each_member(Function&& function);

  const World world_;
  const Seconds timeout_;
  Socket listener_;
  Socket epoll_;
  WakeFd wake_;
  Socket inside_;
  int inside_fd_ = -1;  // the server's end of rank 0's own connection
  std::atomic<bool> stopping_ = false;

  // Used by the server's thread only.
  std::unordered_map<int, std::unique_ptr<Connection>> connections_;
  bool accepting_ = true;
  Rendezvous rendezvous_;
  Rounds rounds_;
  std::map<std::string, Bytes, std::less<>> store_;
  std::multimap<std::string, int, std::less<>> wanted_;  // missing keys, and the connections that want them
  std::vector<bool> left_;
  AwakeClock clock_;
  const Seconds stall_;
  const Clock::time_point opened_ = Clock::now();
  uint64_t sent_ = 0;                // bytes
  std::optional<StallWatch> watch_;  // from `ready` on
  std::optional<Verdict> verdict_;
  int origin_ = -1;  // connection of the rank that reported the failure, until it has its receipt
  Clock::time_point receipt_due_;

  std::thread thread_;
};

}  // namespace pipeline::peers
