// What the frames carry, as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/world.hpp"
#include "core/peers/peers.hpp"

namespace pipeline::peers {

// Who wants to join. This struct and its JSON must stay readable for all versions of the program, or they
// could not say that they differ.
struct Hello {
  static constexpr const char* kName = "a greeting";
  std::string version;  // of the program
  std::string run_id;
  std::string host;
  int32_t rank = 0, size = 1;
  int64_t process = 0;
  std::string nonce;  // another one each time
};
Hello hello_of(const World& world);

// How either end shows that it knows the run's secret: an HMAC over what both have chosen at random. The
// rank's nonce is in its greeting, which so is proven with it.
struct Challenge {
  static constexpr const char* kName = "a challenge";
  std::string nonce;
  std::string proof;  // rank 0's
};

enum class Prover : char { rank_0 = '0', other = 'r' };  // or one's proof could be sent back to it
std::string proof_by(Prover who, std::string_view secret, std::string_view nonce, std::string_view greeting);

// Why somebody is turned away.
struct Refusal {
  static constexpr const char* kName = "a refusal";
  std::string why;
  uint32_t code = 0;
  bool passing =
      false;  // trying again may help: somebody else's run, or the end of an earlier attempt, is at that port
};

struct Verdict {
  static constexpr const char* kName = "a failure";
  Failure failure;
  uint32_t code = 0;
};

// What a rank does.
struct State {
  static constexpr const char* kName = "a rank's state";
  std::string phase = "start";
  uint64_t step = 0;
  double seconds = 0;      // since when
  uint64_t moves = 0;      // how often it said that something had moved
  std::string collective;  // that it waits in; empty: none
};

// Of the five above. Reading throws Error (PL_ERROR_CORRUPT) for a text that is none.
template <class Message>
std::string json_text(const Message& message);
template <class Message>
Message parse(std::string_view text);

}  // namespace pipeline::peers
