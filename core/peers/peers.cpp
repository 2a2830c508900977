#include "core/peers/peers.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/peers/client.hpp"

namespace pipeline::peers {

std::string describe(const Failure& failure) {
  if (failure.by_peer_loss) return failure.what;
  return fmt::format("rank {} (host {}): {}", failure.rank, failure.host, failure.what);
}

Peers::Peers(const World& world, PeersOptions options)
    : rank_(world.rank),
      size_(static_cast<std::size_t>(world.size)),
      client_(std::make_unique<Client>(world, std::move(options))) {}

Peers::~Peers() = default;

std::vector<std::string> Peers::all_gather(std::string_view channel, std::string_view mine,
                                           const std::function<bool()>& cancelled) {
  return unpack(client_->exchange(Collective::all_gather, channel, mine, cancelled), size_);
}

std::vector<std::string> Peers::gather(std::string_view channel, std::string_view mine) {
  const std::string packed = client_->exchange(Collective::gather, channel, mine);
  return rank_ == 0 ? unpack(packed, size_) : std::vector<std::string>();
}

std::string Peers::broadcast(std::string_view channel, std::string_view from_rank_0) {
  std::string given =
      client_->exchange(Collective::broadcast, channel, rank_ == 0 ? from_rank_0 : std::string_view());
  return rank_ == 0 ? std::string(from_rank_0) : std::move(given);
}

void Peers::barrier(std::string_view channel) { client_->exchange(Collective::barrier, channel, {}); }

void Peers::put(std::string_view key, std::string_view value) { client_->put(key, value); }

std::optional<std::string> Peers::get(std::string_view key, std::chrono::duration<double> timeout,
                                      const std::function<bool()>& cancelled) {
  return client_->get(key, timeout, cancelled);
}

void Peers::at(std::string_view phase, uint64_t step) { client_->activity.at(phase, step); }

void Peers::progress() { client_->activity.moved(); }

void Peers::fail(std::string_view what, uint32_t code) noexcept {
  try {
    client_->fail(what, code);
  } catch (...) {  // no memory for a text: the others will see the connection break
  }
}

void Peers::leave() noexcept {
  try {
    client_->leave();
  } catch (...) {  // no memory: the others will see the connection break
  }
}

std::optional<Failure> Peers::failure(std::chrono::duration<double> wait) const {
  return client_->failure(wait);
}

}  // namespace pipeline::peers
