// JPEG by libjpeg-turbo. The library leaves a failed call by longjmp: each step that calls it keeps only what
// has no destructor between setjmp and the library.
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <jpeglib.h>  // after <cstdio>, which it needs

#include <jerror.h>

#include <algorithm>
#include <string>

#include "plugins/data/images/formats.hpp"

namespace pipeline::images {
namespace {

// Scans of a progressive file: each costs a pass over all pixels, even if it is empty. Encoders make up to
// 18; a picture may have more as long as all passes together are over so many pixels, which takes a second.
constexpr uint64_t kScans = 20, kMaxScans = 500, kMaxScannedPixels = uint64_t{1} << 29;
constexpr int kExifMarker = JPEG_APP0 + 1;  // XMP data have it, too

class JpegReader {
 public:
  explicit JpegReader(Bytes bytes) : bytes_(bytes) {
    info_.err = jpeg_std_error(&errors_);
    info_.client_data = this;
    errors_.error_exit = [](j_common_ptr info) { self(info).fail(); };
    errors_.emit_message = [](j_common_ptr info, int level) {
      if (level < 0 && loses_pixels(info->err->msg_code)) self(info).fail();
    };
    errors_.output_message = [](j_common_ptr) {};
    monitor_.progress_monitor = [](j_common_ptr info) { self(info).check_scans(); };
    source_.init_source = source_.term_source = [](j_decompress_ptr) {};
    // At the end of the data the library returns to us, instead of making up the rest.
    source_.fill_input_buffer = [](j_decompress_ptr) -> boolean { return FALSE; };
    source_.skip_input_data = [](j_decompress_ptr info, long count) {
      jpeg_source_mgr& source = *info->src;
      const size_t skipped = count <= 0 ? 0 : std::min(static_cast<size_t>(count), source.bytes_in_buffer);
      source.next_input_byte += skipped;
      source.bytes_in_buffer -= skipped;
    };
    source_.resync_to_restart = jpeg_resync_to_restart;
    source_.next_input_byte = bytes.data();
    source_.bytes_in_buffer = bytes.size();
    step([this] {
      jpeg_create_decompress(&info_);
      info_.src = &source_;
      info_.progress = &monitor_;
      jpeg_save_markers(&info_, kExifMarker, 0xffff);
      return true;
    });
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  Decoded read(const DecodeOptions& options) {
    step([this] { return jpeg_read_header(&info_, TRUE) == JPEG_HEADER_OK; });
    check_size("JPEG", info_.image_width, info_.image_height, options);
    const uint64_t pixels = uint64_t{info_.image_width} * info_.image_height;
    max_scans_ = static_cast<int>(std::clamp(kMaxScannedPixels / pixels, kScans, kMaxScans));
    const bool four_inks = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = four_inks ? JCS_CMYK : JCS_RGB;

    Decoded decoded;
    decoded.orientation = orientation();
    decoded.allocate(info_.image_width, info_.image_height, 3);
    std::vector<uint8_t> inks(four_inks ? size_t{4} * info_.image_width : 0);
    step([this] { return jpeg_start_decompress(&info_) == TRUE; });
    step([this, &decoded, &inks] {
      for (uint8_t* row = decoded.pixels.data(); info_.output_scanline < info_.output_height;
           row += 3 * decoded.width) {
        JSAMPROW line = inks.empty() ? row : inks.data();
        if (jpeg_read_scanlines(&info_, &line, 1) != 1) return false;
        if (!inks.empty()) to_rgb(line, decoded.width, row);
      }
      return jpeg_finish_decompress(&info_) == TRUE;
    });
    return decoded;
  }

 private:
  static JpegReader& self(j_common_ptr info) { return *static_cast<JpegReader*>(info->client_data); }

  // Whether this is one of the library's warnings after which it makes up pixels.
  static bool loses_pixels(int code) {
    return code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_ARITH_BAD_CODE ||
           code == JWRN_MUST_RESYNC || code == JWRN_JPEG_EOF;
  }

  [[noreturn]] void fail() {
    errors_.format_message(reinterpret_cast<j_common_ptr>(&info_), message_);
    std::longjmp(failed_, 1);
  }

  void check_scans() {
    if (info_.input_scan_number <= max_scans_) return;
    std::snprintf(message_, sizeof(message_), "more than %d scans, which is for its size too much work",
                  max_scans_);
    std::longjmp(failed_, 1);
  }

  // Runs a step of calls to the library; one that returns false needs more data than there are.
  template <typename Step>
  void step(Step calls) {
    const Outcome outcome = guarded(calls);
    if (outcome == kDone) return;
    const std::string problem = outcome == kFailed
                                    ? std::string("broken: ") + message_
                                    : "truncated: it ends after " + std::to_string(bytes_.size()) + " bytes";
    throw broken("JPEG", info_.image_width, info_.image_height, problem);
  }

  enum Outcome { kDone, kFailed, kTruncated };
  template <typename Step>
  Outcome guarded(Step& calls) {
    if (setjmp(failed_) != 0) return kFailed;  // NOLINT(cert-err52-cpp): the library's way to fail
    return calls() ? kDone : kTruncated;
  }

  Orientation orientation() const {
    constexpr std::string_view kExif("Exif\0\0", 6), kXmp("http://ns.adobe.com/xap/1.0/\0", 29);
    Bytes exif, xmp;
    for (const auto* marker = info_.marker_list; marker != nullptr; marker = marker->next) {
      if (marker->marker != kExifMarker) continue;
      const Bytes data(marker->data, marker->data_length);
      const std::string_view text(reinterpret_cast<const char*>(data.data()), data.size());
      if (exif.empty() && text.starts_with(kExif)) exif = data;
      if (text.starts_with(kXmp)) xmp = data.subspan(kXmp.size());
    }
    return stated_orientation(exif, xmp);
  }

  // CMYK to RGB as in Pillow: inks are taken for inverted, as Adobe's programs write them; no profiles.
  static void to_rgb(const uint8_t* inks, int64_t width, uint8_t* out) {
    for (int64_t x = 0; x < width; ++x, inks += 4, out += 3) {
      for (int c = 0; c < 3; ++c) {
        const int ink = 255 - inks[c], white = inks[3];
        const int sum = ink * white + 128;
        out[c] = static_cast<uint8_t>(white - ((sum + (sum >> 8)) >> 8));
      }
    }
  }

  Bytes bytes_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr monitor_{};
  std::jmp_buf failed_{};
  char message_[JMSG_LENGTH_MAX] = "";
  int max_scans_ = kMaxScans;
};

}  // namespace

Decoded decode_jpeg(Bytes bytes, const DecodeOptions& options) { return JpegReader(bytes).read(options); }

}  // namespace pipeline::images
