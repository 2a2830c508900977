#include "backends/common/host_store.hpp"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

#include <utility>

C10_DECLARE_int(caffe2_log_level);

namespace pipeline::backends {
namespace {

using std::chrono::milliseconds;

constexpr int kFatal = 3;  // of c10's log levels

double to_seconds(milliseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

HostStore::HostStore(const Context& context, std::string group, double timeout_seconds)
    : Store(std::chrono::ceil<milliseconds>(std::chrono::duration<double>(timeout_seconds))),
      context_(context),
      group_(std::move(group)) {}

c10::intrusive_ptr<c10d::Store> HostStore::clone() {
  return c10::make_intrusive<HostStore>(context_, group_, to_seconds(timeout_));
}

void HostStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  context_.store_set(in_group(key), {reinterpret_cast<const char*>(value.data()), value.size()});
}

std::string HostStore::find(const std::string& key, milliseconds timeout) const {
  if (auto value = context_.store_get(in_group(key), to_seconds(timeout))) return std::move(*value);
  C10_THROW_ERROR(DistStoreError, concat("after ", to_seconds(timeout), " seconds no rank has set ", key));
}

std::vector<uint8_t> HostStore::get(const std::string& key) {
  const std::string value = find(key, timeout_);
  return {value.begin(), value.end()};
}

bool HostStore::check(const std::vector<std::string>& keys) {
  for (const std::string& key : keys)
    if (!context_.store_get(in_group(key), 0)) return false;
  return true;
}

void HostStore::wait(const std::vector<std::string>& keys, const milliseconds& timeout) {
  for (const std::string& key : keys) find(key, timeout);
}

int64_t HostStore::add(const std::string& /*key*/, int64_t /*value*/) {
  C10_THROW_ERROR(NotImplementedError, "the host's store cannot add");
}

bool HostStore::deleteKey(const std::string& /*key*/) {
  C10_THROW_ERROR(NotImplementedError, "the host's store cannot delete");
}

int64_t HostStore::getNumKeys() {
  C10_THROW_ERROR(NotImplementedError, "the host's store does not count its keys");
}

void silence_c10d() {
  c10::initLogging();  // reads TORCH_CPP_LOG_LEVEL
  static const int before = FLAGS_caffe2_log_level;
  if (before >= 1) FLAGS_caffe2_log_level = kFatal;
}

// Gloo's begin with the place: "[.../pair.cc:144] Connection closed by peer [10.0.0.2]:1234".
std::string words_of(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch == nullptr ? error.what() : torch->what_without_backtrace();
  text = text.substr(0, text.find('\n'));
  const size_t place = text.find("] ");
  return text.rfind('[', 0) == 0 && place != std::string::npos ? text.substr(place + 2) : text;
}

}  // namespace pipeline::backends
