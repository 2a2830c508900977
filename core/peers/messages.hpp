// What the frames carry, as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/world.hpp"
#include "core/peers/peers.hpp"

namespace pipeline::peers {

// Who wants to join. This struct and its JSON must stay readable for all versions of the program: otherwise
// two versions could not report that they differ.
struct Hello {
  static constexpr const char* kName = "a greeting";
  std::string version;  // of the program
  std::string run_id;
  std::string host;
  int32_t rank = 0, size = 1;
  int64_t process = 0;
  std::string nonce;  // different each time
};
Hello hello_of(const World& world);

// How either end proves that it knows the run's secret: an HMAC over random values that both have chosen.
// The rank's nonce is in its greeting, so the proof covers the greeting, too.
struct Challenge {
  static constexpr const char* kName = "a challenge";
  std::string nonce;
  std::string proof;  // rank 0's
};

enum class Prover : char { rank_0 = '0', other = 'r' };  // else a proof could be sent back to its maker
std::string proof_by(Prover who, std::string_view secret, std::string_view nonce, std::string_view greeting);

// Why a process is turned away.
struct Refusal {
  static constexpr const char* kName = "a refusal";
  std::string why;
  uint32_t code = 0;
  bool passing =
      false;  // trying again may help: that port is held by another run or the end of an earlier attempt
};

struct Verdict {
  static constexpr const char* kName = "a failure";
  Failure failure;
  uint32_t code = 0;
};

// What a rank is doing.
struct State {
  static constexpr const char* kName = "a rank's state";
  std::string phase = "start";
  uint64_t step = 0;
  double seconds = 0;      // since when
  uint64_t moves = 0;      // how often it has reported progress
  std::string collective;  // that it waits in; empty: none
};

// For the five structs above. Reading throws Error (PL_ERROR_CORRUPT) for any other text.
template <class Message>
std::string json_text(const Message& message);
template <class Message>
Message parse(std::string_view text);

}  // namespace pipeline::peers
