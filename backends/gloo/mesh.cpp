#include "backends/gloo/mesh.hpp"

#include <pipeline/error.hpp>

#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "backends/common/host_store.hpp"

namespace pipeline::backends::gloo {
namespace {

using std::chrono::milliseconds;

// Timeouts are the Queue's; Gloo would end its own in the middle of a message.
constexpr milliseconds kForever = std::chrono::hours(24 * 365);

constexpr size_t kRetired = 32;

std::vector<at::Tensor> bytes_of(const Piece& piece) {
  return {at::from_blob(piece.data, {static_cast<int64_t>(piece.bytes)}, at::kByte)};
}

// Runs `call`; what Gloo throws there is about the connection to `peer`.
template <class Call>
void naming(int32_t peer, Call&& call) {
  try {
    call();
  } catch (const std::exception& error) {
    throw PeerError(peer, words_of(error));
  }
}

}  // namespace

Mesh::Mesh(const c10::intrusive_ptr<c10d::Store>& store, int32_t rank, int32_t world_size,
           const std::string& ip, double timeout_seconds) {
  auto options = c10d::ProcessGroupGloo::Options::create(
      std::chrono::ceil<milliseconds>(std::chrono::duration<double>(timeout_seconds)));
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(ip));
  options->threads = 1;  // more threads serve Gloo's collectives only
  group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, world_size, options);
}

Mesh::~Mesh() = default;

Mesh::Exchange Mesh::start(uint32_t number, std::span<const Piece> receives, std::span<const Piece> sends) {
  const int tag = static_cast<int>(number & 0x7fffffffu);
  while (retired_.size() > kRetired) retired_.pop_front();
  std::vector<Message> messages;
  const auto begin = [&](std::span<const Piece> pieces, auto&& call) {
    for (const Piece& piece : pieces) {
      if (piece.bytes == 0) continue;
      std::vector<at::Tensor> memory = bytes_of(piece);
      naming(piece.peer, [&] { messages.push_back({piece.peer, call(memory, piece.peer)}); });
    }
  };
  begin(receives, [&](auto& memory, int peer) { return group_->recv(memory, peer, tag); });
  begin(sends, [&](auto& memory, int peer) { return group_->send(memory, peer, tag); });
  return {*this, std::move(messages)};
}

void Mesh::interrupt() noexcept {
  const std::lock_guard lock(mutex_);
  interrupted_ = true;
  for (const auto& work : active_) work->abort();
}

void Mesh::disconnect() {
  retired_.clear();
  group_.reset();
}

Mesh::Exchange::Exchange(Mesh& mesh, std::vector<Message> messages)
    : mesh_(&mesh), messages_(std::move(messages)) {
  const std::lock_guard lock(mesh_->mutex_);
  for (const Message& message : messages_) {
    mesh_->active_.push_back(message.work);
    if (mesh_->interrupted_) message.work->abort();
  }
}

Mesh::Exchange::Exchange(Exchange&& other) noexcept
    : mesh_(std::exchange(other.mesh_, nullptr)), messages_(std::move(other.messages_)) {}

Mesh::Exchange& Mesh::Exchange::operator=(Exchange&& other) noexcept {
  forget();
  mesh_ = std::exchange(other.mesh_, nullptr);
  messages_ = std::move(other.messages_);
  return *this;
}

void Mesh::Exchange::wait() {
  for (const Message& message : messages_) {
    bool done = false;
    naming(message.peer, [&] { done = message.work->wait(kForever); });
    if (!done) fail("interrupted");
  }
  if (mesh_ != nullptr)
    for (const Message& message : messages_) mesh_->retired_.push_back(message.work);
  forget();
}

void Mesh::Exchange::forget() noexcept {
  if (mesh_ == nullptr) return;
  {
    const std::lock_guard lock(mesh_->mutex_);
    std::erase_if(mesh_->active_, [&](const auto& active) {
      return std::ranges::any_of(messages_, [&](const Message& message) { return message.work == active; });
    });
  }
  mesh_ = nullptr;
  messages_.clear();
}

}  // namespace pipeline::backends::gloo
