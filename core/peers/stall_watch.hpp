// Decides whether a run hangs: no progress on any rank for a while. Times are those of an AwakeClock.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/peers/background.hpp"
#include "core/peers/frame.hpp"

namespace pipeline::peers {

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

}  // namespace pipeline::peers
