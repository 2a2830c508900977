#include "plugins/data/files/text_file.hpp"

#include <algorithm>

#include "core/base/foreign.hpp"

namespace pipeline::files {
namespace {

struct Signature {
  std::string_view start;
  const char* problem;
};

using namespace std::string_view_literals;  // some have NUL in them

constexpr Signature kSignatures[] = {
    {"\x1f\x8b", "compressed with gzip: unpack it first (gunzip)"},
    {"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first (unzstd)"},
    {"\xfd\x37zXZ", "compressed with xz: unpack it first (unxz)"},
    {"BZh", "compressed with bzip2: unpack it first (bunzip2)"},
    {"\x04\x22\x4d\x18", "compressed with lz4: unpack it first (unlz4)"},
    {"\x1f\x9d", "compressed with compress: unpack it first (uncompress)"},
    {"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it first (7z x)"},
    {"PK\x03\x04", "a zip archive: unpack it first (unzip)"},
    {"PAR1", "a Parquet file: its name must end in .parquet"},
    {"ARROW1", "an Arrow file: write it as Parquet first (pandas: read_feather, and to_parquet)"},
    {"\xff\xff\xff\xff",
     "an Arrow stream, as Hugging Face's datasets keep them: write it as Parquet first (datasets: "
     "to_parquet)"},
    {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Office document (Excel, Word): save it as CSV UTF-8 first"},
    {"SQLite format 3", "an SQLite database: export the table as CSV first"},
    {"%PDF-", "a PDF document: write its text into a file of records first"},
    {"\xff\xfe\0\0"sv, "UTF-32 text: convert it first (iconv -f UTF-32 -t UTF-8)"},
    {"\xff\xfe", "UTF-16 text: convert it first (iconv -f UTF-16 -t UTF-8)"},
    {"\xfe\xff", "UTF-16 text: convert it first (iconv -f UTF-16 -t UTF-8)"},
};

// UTF-16 without a byte-order mark: one byte of most characters is zero, always the same of the two.
const char* utf_16(std::string_view start) {
  constexpr size_t kCharacters = 8;
  if (start.size() < 2 * kCharacters) return nullptr;
  bool little = true, big = true;
  for (size_t i = 0; i < 2 * kCharacters; i += 2) {
    little = little && start[i] != '\0' && start[i + 1] == '\0';
    big = big && start[i] == '\0' && start[i + 1] != '\0';
  }
  return little ? "UTF-16 text: convert it first (iconv -f UTF-16LE -t UTF-8)"
         : big  ? "UTF-16 text: convert it first (iconv -f UTF-16BE -t UTF-8)"
                : nullptr;
}

}  // namespace

std::string why_no_text(std::string_view start) {
  if (std::string known = foreign::content(start); !known.empty()) return known;
  if (start.starts_with("PK\x03\x04") && start.find("[Content_Types].xml") != start.npos)
    return "an Office document (Excel, Word): save it as CSV UTF-8 first";
  for (const auto& [signature, problem] : kSignatures)
    if (start.starts_with(signature)) return problem;
  const char* const wide = utf_16(start);
  return wide == nullptr ? "" : wide;
}

}  // namespace pipeline::files
