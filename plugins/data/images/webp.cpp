// WebP by libwebp: the first frame on its canvas.
#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>

#include "plugins/data/images/formats.hpp"

namespace pipeline::images {
namespace {

struct DeleteDemuxer {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};
using Demuxer = std::unique_ptr<WebPDemuxer, DeleteDemuxer>;

struct Frame {
  WebPIterator frame{};
  bool found;
  explicit Frame(const WebPDemuxer* demuxer) : found(WebPDemuxGetFrame(demuxer, 1, &frame) != 0) {}
  ~Frame() { WebPDemuxReleaseIterator(&frame); }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
};

struct Chunk {
  WebPChunkIterator chunk{};
  Chunk(const WebPDemuxer* demuxer, const char* name) { WebPDemuxGetChunk(demuxer, name, 1, &chunk); }
  ~Chunk() { WebPDemuxReleaseChunkIterator(&chunk); }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;
  Bytes bytes() const { return {chunk.chunk.bytes, chunk.chunk.size}; }  // none: empty
};

}  // namespace

Decoded decode_webp(Bytes bytes, const DecodeOptions& options) {
  const WebPData data{bytes.data(), bytes.size()};
  WebPDemuxState state{};
  const Demuxer demuxer(WebPDemuxPartial(&data, &state));
  if (state == WEBP_DEMUX_PARSE_ERROR || !demuxer)
    throw broken("WebP", 0, 0, "broken: its parts do not fit together");
  const int64_t width = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH);
  const int64_t height = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT);
  if (state != WEBP_DEMUX_DONE) {
    throw broken("WebP", width, height,
                 "truncated: it ends after " + std::to_string(bytes.size()) + " bytes");
  }
  check_size("WebP", width, height, options);
  const Frame first(demuxer.get());
  if (!first.found) throw broken("WebP", width, height, "broken: no frame");
  const WebPIterator& frame = first.frame;

  const bool alpha = (WebPDemuxGetI(demuxer.get(), WEBP_FF_FORMAT_FLAGS) & ALPHA_FLAG) != 0;
  Decoded decoded;
  decoded.orientation =
      stated_orientation(Chunk(demuxer.get(), "EXIF").bytes(), Chunk(demuxer.get(), "XMP ").bytes());
  decoded.allocate(width, height, alpha ? 4 : 3);
  const int64_t offset = (frame.y_offset * width + frame.x_offset) * decoded.channels;
  uint8_t* const out = decoded.pixels.data() + offset;
  const size_t room = decoded.pixels.size() - static_cast<size_t>(offset);
  const int stride = static_cast<int>(width * decoded.channels);
  const auto into = alpha ? WebPDecodeRGBAInto : WebPDecodeRGBInto;
  if (into(frame.fragment.bytes, frame.fragment.size, out, room, stride) == nullptr) {
    throw broken("WebP", width, height, "broken: its first frame cannot be decoded");
  }
  return decoded;
}

}  // namespace pipeline::images
