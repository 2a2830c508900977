#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/base/socket.hpp"
#include "core/base/world.hpp"
#include "core/peers/background.hpp"
#include "core/peers/frame.hpp"
#include "core/peers/join.hpp"

namespace pipeline::peers {

// One exchange: the parts of all ranks on a channel, and what each rank gets in return.
enum class Collective : uint8_t { all_gather = 1, gather, broadcast, barrier };
const char* name_of(Collective kind);

using Bytes = std::shared_ptr<const std::string>;

// Packs several strings into one, and unpacks them. unpack throws Error (PL_ERROR_CORRUPT) unless `packed`
// holds `count` strings.
std::string pack(const std::vector<std::string>& parts);
std::vector<std::string> unpack(std::string_view packed, std::size_t count);

// The exchanges in progress, on the server.
class Rounds {
 public:
  explicit Rounds(int32_t ranks) : ranks_(ranks) {}

  // Adds a rank's part. Returns the bytes for each rank once all parts have arrived, nothing before. Throws
  // Error if the rank is out of step with the others.
  std::optional<std::vector<Bytes>> add(int32_t rank, Collective kind, const std::string& channel,
                                        std::string part);

  // The exchange in which a rank waits for the others: "barrier of 'evaluation'"; empty: none.
  std::string waits_in(int32_t rank) const;
  // An exchange that a rank has not joined yet; empty: none.
  std::string waits_for(int32_t rank) const;

 private:
  struct Round {
    Collective kind;
    int32_t first;  // the rank that joined first
    std::vector<std::optional<std::string>> parts;
    int32_t count = 0;
  };
  std::vector<Bytes> replies(Round& round) const;

  const int32_t ranks_;
  std::map<std::string, Round, std::less<>> open_;
};

// Decides whether a run hangs: no progress on any rank for a while. Times are those of an AwakeClock.
struct Stall {
  int32_t rank;      // the first rank that the others seem to wait for
  std::string what;  // "no progress for 42 s: rank 3 (host b) in data.load, step 118, for 42 s; ranks 0-2
                     // wait in ..."
};

class StallWatch {
 public:
  // `stall` 0: never.
  StallWatch(std::vector<std::string> hosts, Seconds stall);

  void heard(int32_t rank, State state, Seconds now);
  void moved(Seconds now) { moved_at_ = now; }  // progress other than what ranks report
  void left(int32_t rank);

  // `waits_in`: the exchange in which a rank waits, or empty.
  std::optional<Stall> check(Seconds now, const std::function<std::string(int32_t)>& waits_in) const;

  // "data.load, step 118": where a rank was when it was last heard from.
  std::string last_seen(int32_t rank) const;

 private:
  struct Member {
    State state;
    Seconds heard_at{0};
    bool left = false;
  };
  // A condition that several ranks may share.
  struct Condition {
    int suspicion;          // higher: more likely the cause
    std::string key;        // equal for ranks in the same condition
    std::string one, many;  // "waits in ...", "wait in ..."
  };
  Condition condition_of(const Member& member, Seconds now, const std::string& exchange) const;

  const std::vector<std::string> hosts_;
  const Seconds stall_;
  std::vector<Member> members_;
  Seconds moved_at_{0};
};

// The server's end of a connection. Never blocks.
class Connection {
 public:
  Connection(Socket socket, std::string address, Clock::time_point since);

  enum class Stage {
    stranger,    // has sent nothing yet
    challenged,  // has identified itself, and has yet to prove that it belongs to this run
    invited,     // may be admitted
    admitted,
    leaving,  // has left, or was turned away: closed once everything is sent
  };
  Stage stage = Stage::stranger;
  Hello hello;           // from `challenged` on; believed from `invited` on
  std::string expected;  // its proof
  FrameReader reader{kMaxStrangersBody};
  Reachability reachability;
  bool waits_for_room = false;  // wake the server when more can be sent

  int fd() const { return socket_.fd(); }
  int32_t rank() const { return hello.rank; }
  const std::string& address() const { return address_; }
  Clock::time_point since() const { return since_; }

  void queue(std::string head, Bytes body = nullptr);
  bool has_queue() const { return !queue_.empty(); }
  void forget_queue();  // except a frame that has been sent in part
  // Sends as much as the other end accepts; returns how much. If it is gone, reading will show it.
  std::size_t flush();
  void finish();  // the other end sees the end of the stream

 private:
  struct Outgoing {
    std::string head;
    Bytes body;  // may be null
  };

  Socket socket_;
  const std::string address_;
  const Clock::time_point since_;
  std::deque<Outgoing> queue_;
  std::size_t sent_ = 0;  // of the first in the queue
};

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
