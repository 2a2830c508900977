// c10d's Store on top of the host's store: how Gloo and NCCL find their ranks.
#pragma once

#include <pipeline/context.hpp>

#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace pipeline::backends {

// [any-thread]
class HostStore : public c10d::Store {
 public:
  // Different groups have separate keys.
  HostStore(const Context& context, std::string group, double timeout_seconds);

  c10::intrusive_ptr<Store> clone() override;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  // Waits for the key. Throws c10::DistStoreError if the time is up.
  std::vector<uint8_t> get(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;

  // Not implemented: nothing here needs them.
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  int64_t getNumKeys() override;

 private:
  std::string find(const std::string& key, std::chrono::milliseconds timeout) const;
  std::string in_group(const std::string& key) const { return concat(group_, '/', key); }

  const Context context_;
  const std::string group_;
};

// Keeps c10d from printing a stack trace with each failure, unless TORCH_CPP_LOG_LEVEL asks for it.
void silence_c10d();

// The first line of an exception from LibTorch, without the location in its sources.
std::string words_of(const std::exception& error);

}  // namespace pipeline::backends
