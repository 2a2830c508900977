// One exchange: the parts of all ranks on a channel, and what each rank gets in return.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline::peers {

enum class Exchange : uint8_t { all_gather = 1, gather, broadcast, barrier };
const char* name_of(Exchange kind);

using Bytes = std::shared_ptr<const std::string>;

// Packs several strings into one, and unpacks them. unpack throws Error (PL_ERROR_CORRUPT) unless `packed`
// holds `count` strings.
std::string pack(const std::vector<std::string>& parts);
std::vector<std::string> unpack(std::string_view packed, std::size_t count);

// The exchanges in progress, on the server.
class Rounds {
 public:
  explicit Rounds(int32_t ranks) : ranks_(ranks) {}

  // Adds a rank's part. Returns the bytes for each rank once all parts have arrived, nothing before. Throws
  // Error if the rank is out of step with the others.
  std::optional<std::vector<Bytes>> add(int32_t rank, Exchange kind, const std::string& channel,
                                        std::string part);

  // The exchange in which a rank waits for the others: "barrier of 'evaluation'"; empty: none.
  std::string waits_in(int32_t rank) const;
  // An exchange that a rank has not joined yet; empty: none.
  std::string waits_for(int32_t rank) const;

 private:
  struct Round {
    Exchange kind;
    int32_t first;  // the rank that joined first
    std::vector<std::optional<std::string>> parts;
    int32_t count = 0;
  };
  std::vector<Bytes> replies(Round& round) const;

  const int32_t ranks_;
  std::map<std::string, Round, std::less<>> open_;
};

}  // namespace pipeline::peers
