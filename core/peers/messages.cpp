#include "core/peers/messages.hpp"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/keyed_hash.hpp"
#include "core/base/socket.hpp"
#include "core/json/strict_json.hpp"

namespace pipeline::peers {
namespace {

using nlohmann::json;

// Names of hosts and texts of errors need not be UTF-8.
std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

template <class Read>
auto read(std::string_view text, const char* what, Read&& fields) {
  try {
    return fields(strict_json::parse(text, what));
  } catch (const std::exception& e) {
    throw Error(PL_ERROR_CORRUPT, std::string(what) + " cannot be read: " + e.what());
  }
}

}  // namespace

Hello hello_of(const World& world) {
  return {PIPELINE_VERSION, world.run_id, host_name(), world.rank, world.size, ::getpid(), random_secret()};
}

std::string to_json(const Hello& hello) {
  return dump({{"version", hello.version},
               {"run_id", hello.run_id},
               {"host", hello.host},
               {"rank", hello.rank},
               {"size", hello.size},
               {"process", hello.process},
               {"nonce", hello.nonce}});
}

Hello hello_from(std::string_view text) {
  return read(text, "a greeting", [](const json& j) {
    return Hello{j.at("version"), j.at("run_id"),  j.at("host"), j.at("rank"),
                 j.at("size"),    j.at("process"), j.at("nonce")};
  });
}

std::string to_json(const Challenge& challenge) {
  return dump({{"nonce", challenge.nonce}, {"proof", challenge.proof}});
}

Challenge challenge_from(std::string_view text) {
  return read(text, "a challenge", [](const json& j) { return Challenge{j.at("nonce"), j.at("proof")}; });
}

std::string proof_by(Prover who, std::string_view secret, std::string_view nonce, std::string_view greeting) {
  std::string text(1, static_cast<char>(who));
  text += to_hex(sha256(nonce));  // of one length, whatever a stranger sends
  text += greeting;
  return to_hex(hmac_sha256(secret, text));
}

std::string to_json(const Refusal& refusal) {
  return dump({{"why", refusal.why}, {"code", refusal.code}, {"passing", refusal.passing}});
}

Refusal refusal_from(std::string_view text) {
  return read(text, "a refusal", [](const json& j) {
    return Refusal{j.at("why"), j.at("code"), j.at("passing")};
  });
}

std::string to_json(const Verdict& verdict) {
  return dump({{"rank", verdict.failure.rank},
               {"host", verdict.failure.host},
               {"what", verdict.failure.what},
               {"by_peer_loss", verdict.failure.by_peer_loss},
               {"code", verdict.code}});
}

Verdict verdict_from(std::string_view text) {
  return read(text, "a failure", [](const json& j) {
    return Verdict{{j.at("rank"), j.at("host"), j.at("what"), j.at("by_peer_loss")}, j.at("code")};
  });
}

std::string to_json(const State& state) {
  return dump({{"phase", state.phase},
               {"step", state.step},
               {"seconds", state.seconds},
               {"moves", state.moves},
               {"collective", state.collective}});
}

State state_from(std::string_view text) {
  return read(text, "a rank's state", [](const json& j) {
    return State{j.at("phase"), j.at("step"), j.at("seconds"), j.at("moves"), j.at("collective")};
  });
}

}  // namespace pipeline::peers
