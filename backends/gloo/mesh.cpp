#include "backends/gloo/mesh.hpp"

#include <pipeline/error.hpp>

#include <ATen/ops/from_blob.h>

#include <algorithm>

namespace pipeline::backends::gloo {
namespace {

using std::chrono::milliseconds;

// Timeouts are the Queue's; Gloo would end its own in the middle of a message.
constexpr milliseconds kForever = std::chrono::hours(24 * 365);

constexpr size_t kRetired = 32;

std::vector<at::Tensor> bytes_of(const Piece& piece) {
  return {at::from_blob(piece.data, {static_cast<int64_t>(piece.bytes)}, at::kByte)};
}

}  // namespace

Mesh::Mesh(const c10::intrusive_ptr<c10d::Store>& store, int32_t rank, int32_t world_size,
           const std::string& ip, double timeout_seconds) {
  auto options = c10d::ProcessGroupGloo::Options::create(
      std::chrono::ceil<milliseconds>(std::chrono::duration<double>(timeout_seconds)));
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(ip));
  options->threads = 1;  // those are for its collectives
  group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, world_size, options);
}

Mesh::~Mesh() = default;

Mesh::Exchange Mesh::start(uint32_t number, std::span<const Piece> receives, std::span<const Piece> sends) {
  const int tag = static_cast<int>(number & 0x7fffffffu);
  while (retired_.size() > kRetired) retired_.pop_front();
  Works works;
  for (const Piece& piece : receives) {
    if (piece.bytes == 0) continue;
    std::vector<at::Tensor> memory = bytes_of(piece);
    works.push_back(group_->recv(memory, piece.peer, tag));
  }
  for (const Piece& piece : sends) {
    if (piece.bytes == 0) continue;
    std::vector<at::Tensor> memory = bytes_of(piece);
    works.push_back(group_->send(memory, piece.peer, tag));
  }
  return {*this, std::move(works)};
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

Mesh::Exchange::Exchange(Mesh& mesh, Works works) : mesh_(&mesh), works_(std::move(works)) {
  const std::lock_guard lock(mesh_->mutex_);
  mesh_->active_.insert(mesh_->active_.end(), works_.begin(), works_.end());
  if (!mesh_->interrupted_) return;
  for (const auto& work : works_) work->abort();
}

Mesh::Exchange::Exchange(Exchange&& other) noexcept
    : mesh_(std::exchange(other.mesh_, nullptr)), works_(std::move(other.works_)) {}

Mesh::Exchange& Mesh::Exchange::operator=(Exchange&& other) noexcept {
  forget();
  mesh_ = std::exchange(other.mesh_, nullptr);
  works_ = std::move(other.works_);
  return *this;
}

void Mesh::Exchange::wait() {
  for (const auto& work : works_) {
    if (!work->wait(kForever)) fail("interrupted");
  }
  if (mesh_ != nullptr) mesh_->retired_.insert(mesh_->retired_.end(), works_.begin(), works_.end());
  forget();
}

void Mesh::Exchange::forget() noexcept {
  if (mesh_ == nullptr) return;
  {
    const std::lock_guard lock(mesh_->mutex_);
    std::erase_if(mesh_->active_, [&](const auto& active) {
      return std::find(works_.begin(), works_.end(), active) != works_.end();
    });
  }
  mesh_ = nullptr;
  works_.clear();
}

}  // namespace pipeline::backends::gloo
