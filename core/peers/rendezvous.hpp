// Which ranks have joined a run and which are missing, on the server.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/peers/background.hpp"
#include "core/peers/frame.hpp"

namespace pipeline::peers {

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

}  // namespace pipeline::peers
