// The reader of structures over any bytes, plain or packed: each ends in chains that keep what structure.hpp
// promises and survive the cache's record, or in a DataError of one line.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/structures/file_content.hpp"
#include "plugins/data/structures/structure.hpp"
#include "plugins/data/structures/structure_record.hpp"
#include "tests/support/fuzz.hpp"

namespace {

using namespace pipeline::structures;
using namespace pipeline::residues;
using pipeline::tests::require;
namespace files = pipeline::files;

bool is_one_line(std::string_view text) { return text.find('\n') == std::string_view::npos; }

void check(const Structure& structure) {
  require(!structure.chains.empty(), "there is a chain");
  require(is_one_line(structure.remark), "remarks are of one line");
  for (const Chain& chain : structure.chains) {
    require(!chain.residues.empty(), "chains have residues");
    int64_t before = -1;
    for (const Residue& residue : chain.residues) {
      require(residue.amino_acid <= kUnknown, "amino acids are known or unknown");
      require(residue.position >= before,
              "positions do not go back");  // they stay where they would pass the largest number
      before = residue.position;
      require(residue.has_ca() || !residue.has_frame(), "a frame has a CA");
      for (const Vec3& atom : {residue.n, residue.ca, residue.c}) {
        for (const float x : {atom.x, atom.y, atom.z})
          require(std::abs(x) <= 1e5f, "coordinates are finite and near");
      }
    }
  }
}

void check_record(const Structure& structure) {
  const std::string payload = structure_payload(structure);
  std::vector<uint64_t> aligned(payload.size() / sizeof(uint64_t) + 1);
  std::memcpy(aligned.data(), payload.data(), payload.size());
  const auto file = StoredFile::of({reinterpret_cast<const char*>(aligned.data()), payload.size()});
  require(file && file->is_structure(), "a record is read as it was written");
  require(file->text() == structure.remark, "a record has the remark");
  std::vector<ChainView> chains;
  file->append_chains(chains);
  require(chains.size() == structure.chains.size(), "a record has every chain");
  for (size_t i = 0; i < chains.size(); ++i) {
    const auto& residues = structure.chains[i].residues;
    require(chains[i].name == structure.chains[i].name && chains[i].residues.size() == residues.size(),
            "a record has the chain's name and size");
    require(std::memcmp(chains[i].residues.data(), residues.data(), residues.size() * sizeof(Residue)) == 0,
            "a record has the residues");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const Structure structure =
        parse_structure({reinterpret_cast<const char*>(data), size}, {.max_file_bytes = uint64_t{1} << 22});
    check(structure);
    check_record(structure);
  } catch (const files::DataError& error) {
    require(error.what()[0] != '\0' && is_one_line(error.what()), "errors say something in one line");
  }
  return 0;
}
