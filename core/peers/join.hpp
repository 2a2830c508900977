#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/socket.hpp"
#include "core/base/world.hpp"
#include "core/peers/background.hpp"
#include "core/peers/frame.hpp"

namespace pipeline::peers {

// Which ranks have joined a run and which are missing, on the server.

// "rank 3", "ranks 0-2, 5". In ascending order, at least one. With `hosts` by rank, if all are on one:
// "rank 3 (host b)", "ranks 0-2 (host a)".
std::string list_of(const std::vector<int32_t>& ranks);
std::string list_of(const std::vector<int32_t>& ranks, const std::vector<std::string>& hosts);

// What to do if two ranks have different secrets.
std::string secret_remedy();

class Rendezvous {
 public:
  // `here`: where rank 0 listens. `if_alone`: see World.
  Rendezvous(Hello rank_0, std::string here, std::string if_alone);

  struct Objection {
    Refusal refusal;
    bool ends_run = false;  // the process belongs to this run, and the run cannot work as it was started
  };
  // Returns the objection to a process that wants to join; nullopt: it may.
  std::optional<Objection> object_to(const Hello& hello) const;

  void admit(const Hello& hello);
  void turned_away(const std::string& address, const std::string& why);  // remembered for missing_text()

  bool complete() const { return missing().empty(); }
  std::vector<int32_t> missing() const;
  std::vector<std::string> hosts() const;  // by rank; empty for those that are missing
  std::string host_of(int32_t rank) const;

  // "ranks 2-3 of 4 are missing (there: ranks 0-1 (host a))", what to do if nobody else was started, and who
  // was turned away.
  std::string missing_text() const { return text(""); }
  std::string waiting_text() const;  // and where rank 0 listens
  std::string timeout_text(Seconds waited) const;

 private:
  std::optional<Refusal> refuse(const Hello& hello) const;
  std::string text(const std::string& place) const;

  const Hello rank_0_;
  const std::string here_, if_alone_;
  std::vector<std::optional<Hello>> members_;
  std::string stranger_;  // the last one
  uint64_t strangers_ = 0;
};

// How a rank joins: finds rank 0, identifies itself and is admitted. Retries until the time is up, since
// rank 0 may start last.
class Join {
 public:
  // cancelled: see PeersOptions; may be empty. `waiting` hears what the tries come to, and must outlive it;
  // nullptr: nobody does.
  Join(const World& world, Seconds timeout, std::function<bool()> cancelled, Waiting* waiting);

  // Returns a connection on which this rank is admitted. Throws Error if turned away or cancelled, or
  // PL_ERROR_TIMEOUT with the last problem and remedies.
  Socket connect_and_join();
  // Is admitted on an existing connection.
  void join(const Socket& socket);

 private:
  std::optional<Socket> try_port(uint16_t port);
  bool try_to_join(const Socket& socket, Clock::time_point until);
  bool no_answer();
  void turned_away(const Refusal& refusal);
  [[noreturn]] void time_out() const;
  std::optional<Frame> next_frame(int fd, FrameReader& reader, Clock::time_point until) const;
  void check_cancelled() const;
  void tell(const std::string& problem) const;

  const World world_;
  const std::function<bool()> cancelled_;
  const Clock::time_point begun_ = Clock::now();
  const Clock::time_point deadline_;
  Waiting* const waiting_;
  bool tried_ = false;                                  // all there is to try
  std::string place_;                                   // that is tried
  std::string problem_ = "there was no time to try";    // of the last try
  std::optional<Clock::time_point> refused_, unknown_;  // since when
};

}  // namespace pipeline::peers
