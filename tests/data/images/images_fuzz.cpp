// Pictures of any bytes: each ends in pixels within the limits, or in an ImageError with a message.
#include <span>

#include "plugins/data/images/image.hpp"
#include "tests/support/fuzz.hpp"

namespace {

using namespace pipeline::images;
using pipeline::tests::require;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const DecodeOptions options{.max_pixels = 100'000};  // larger ones take long, and are no different
  try {
    const Image image = decode_image(std::as_bytes(std::span(data, size)), options);
    require(image.width > 0 && image.height > 0, "a picture has pixels");
    require(static_cast<uint64_t>(image.width * image.height) <= options.max_pixels,
            "no more than are allowed");
    require(image.pixels.size() == static_cast<size_t>(image.width * image.height * 3),
            "three bytes a pixel");
  } catch (const ImageError& error) {
    require(error.what()[0] != '\0', "errors say something");
  }
  return 0;
}
