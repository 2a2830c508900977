// c10d's Store over the host's: what Gloo and NCCL find their ranks by.
#pragma once

#include <pipeline/context.hpp>

#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace pipeline::backends {

// [any-thread]
class HostStore : public c10d::Store {
 public:
  // Keys of different groups are apart.
  HostStore(const Context& context, std::string group, double timeout_seconds);

  c10::intrusive_ptr<Store> clone() override;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  // Waits for the key. Throws c10::DistStoreError when the time is up.
  std::vector<uint8_t> get(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;

  // Not there, since nothing here needs them.
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  int64_t getNumKeys() override;

 private:
  std::string find(const std::string& key, std::chrono::milliseconds timeout) const;
  std::string in_group(const std::string& key) const { return concat(group_, '/', key); }

  const Context context_;
  const std::string group_;
};

// c10d prints a stack trace with each failure that it throws, unless told otherwise by TORCH_CPP_LOG_LEVEL.
void silence_c10d();

// The first line of what LibTorch has thrown, without the place in its sources.
std::string words_of(const std::exception& error);

}  // namespace pipeline::backends
