#include "core/peers/messages.hpp"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/base/socket.hpp"
#include "core/json/strict_json.hpp"

namespace pipeline::peers {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Hello, version, run_id, host, rank, size, process, nonce)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Challenge, nonce, proof)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Refusal, why, code, passing)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Failure, rank, host, what, by_peer_loss)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Verdict, failure, code)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(State, phase, step, seconds, moves, collective)

// Names of hosts and texts of errors need not be UTF-8.
template <class Message>
std::string json_text(const Message& message) {
  using nlohmann::json;
  return json(message).dump(-1, ' ', false, json::error_handler_t::replace);
}

template <class Message>
Message parse(std::string_view text) {
  try {
    const nlohmann::json json = strict_json::parse(text, Message::kName);
    return json.get<Message>();
  } catch (const std::exception& e) {
    throw Error(PL_ERROR_CORRUPT, std::string(Message::kName) + " cannot be read: " + e.what());
  }
}

template std::string json_text(const Hello&);
template std::string json_text(const Challenge&);
template std::string json_text(const Refusal&);
template std::string json_text(const Verdict&);
template std::string json_text(const State&);
template Hello parse(std::string_view);
template Challenge parse(std::string_view);
template Refusal parse(std::string_view);
template Verdict parse(std::string_view);
template State parse(std::string_view);

Hello hello_of(const World& world) {
  return {PIPELINE_VERSION, world.run_id, host_name(), world.rank, world.size, ::getpid(), random_secret()};
}

std::string proof_by(Prover who, std::string_view secret, std::string_view nonce, std::string_view greeting) {
  std::string text(1, static_cast<char>(who));
  text += to_hex(sha256(nonce));  // of one length, whatever a stranger sends
  text += greeting;
  return to_hex(hmac_sha256(secret, text));
}

}  // namespace pipeline::peers
