// One exchange: the parts of all ranks on a channel, and what each of them gets for it.
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

// Several strings as one, and back. Throws Error (PL_ERROR_CORRUPT) if it is not one of `count` strings.
std::string pack(const std::vector<std::string>& parts);
std::vector<std::string> unpack(std::string_view packed, std::size_t count);

// The exchanges under way, on the server.
class Rounds {
 public:
  explicit Rounds(int32_t ranks) : ranks_(ranks) {}

  // Takes a rank's part. The bytes for each rank once all parts are there, nothing before. Throws Error when
  // the rank is out of step with the others.
  std::optional<std::vector<Bytes>> add(int32_t rank, Exchange kind, const std::string& channel,
                                        std::string part);

  // Where a rank waits for the others: "barrier of 'evaluation'"; empty: nowhere.
  std::string waits_in(int32_t rank) const;
  // An exchange to which a rank has not come yet; empty: none.
  std::string waits_for(int32_t rank) const;

 private:
  struct Round {
    Exchange kind;
    int32_t first;  // the rank that came first
    std::vector<std::optional<std::string>> parts;
    int32_t count = 0;
  };
  std::vector<Bytes> replies(Round& round) const;

  const int32_t ranks_;
  std::map<std::string, Round, std::less<>> open_;
};

}  // namespace pipeline::peers
