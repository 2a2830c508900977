// The pictures that conversations name, ready for the vision encoder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/data/files/hash128.hpp"
#include "plugins/data/images/image.hpp"
#include "plugins/data/images/tiles.hpp"
#include "plugins/data/messages/conversation.hpp"
#include "plugins/data/picture_texts/tar_archive.hpp"

namespace pipeline::picture_texts {

// The name relative to the folder, which an absolute one may have at its start. Empty for a name that leads
// out of the folder, which one from a data file must not.
std::filesystem::path name_within(const std::filesystem::path& folder, const std::filesystem::path& name);

// Reads, decodes and resizes. A picture that cannot be used is named once and counted; more of them than
// allowed are an error. What else pictures lose is said of the first. Safe for concurrent use.
class Pictures {
 public:
  struct Options {
    std::filesystem::path folder;
    std::vector<std::filesystem::path> archives;  // in which pictures are looked for first
    images::DecodeOptions decode;
    images::TileOptions tiles;
    uint64_t most_broken = 0;                           // pictures
    bool is_asked = false;                              // there is one alone, which somebody has named
    std::function<void(const std::string& line)> warn;  // [any-thread]
  };
  // Throws DataError for an archive that cannot be read, or Cancelled.
  explicit Pictures(Options options, const files::Hooks& hooks = {});

  struct Loaded {
    int64_t width = 0, height = 0;  // of the picture, upright
    std::vector<float> pixels;      // (squares, 3, S, S)
  };
  // Nothing for a picture that cannot be used. Throws DataError for one such picture too many. `is_known`
  // (optional) is asked with the hash of the file's content: true, and the picture is not decoded.
  std::optional<Loaded> load(
      const messages::Picture& picture,
      const std::function<bool(const files::Hash128& content)>& is_known = nullptr) const;

  // What the model sees of a picture, as a PNG file; empty for one that cannot be used.
  std::string png(const messages::Picture& picture) const;

 private:
  struct Said;

  std::vector<std::byte> bytes(const messages::Picture& picture) const;
  std::string shown(const std::string& name) const;
  void note(const std::string& name, const std::string& text) const;

  Options options_;
  TarIndex archives_;
  std::shared_ptr<Said> said_;
};

}  // namespace pipeline::picture_texts
