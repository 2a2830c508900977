#pragma once

#include <thread>

#include "core/peers/background.hpp"
#include "core/peers/member.hpp"

namespace pipeline::peers {

// A run of one process: exchanges return at once.
class Alone final : public Peers::Member {
 public:
  explicit Alone(Options options);
  ~Alone() override;

  std::string exchange(Exchange kind, std::string_view channel, std::string_view mine) override;
  void fail(std::string_view what) override;
  void leave() override;

 private:
  void watch();

  std::thread thread_;
};

}  // namespace pipeline::peers
