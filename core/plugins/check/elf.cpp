#include "core/plugins/check/subject.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

#include "core/base/error.hpp"

namespace pipeline::plugins {
namespace {

template <class T>
T read_at(std::string_view bytes, size_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) throw Error("is a damaged ELF file");
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string name_at(std::string_view bytes, const Elf64_Shdr& strings, size_t index) {
  if (index >= strings.sh_size || strings.sh_offset > bytes.size() ||
      strings.sh_size > bytes.size() - strings.sh_offset)
    throw Error("is a damaged ELF file");
  const std::string_view table = bytes.substr(strings.sh_offset, strings.sh_size);
  return std::string(table.substr(index, table.find('\0', index) - index));
}

}  // namespace

std::vector<std::string> exported_symbols(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const auto header = read_at<Elf64_Ehdr>(bytes, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
    throw Error("is not a 64-bit ELF file");
  const auto section = [&](size_t i) {
    return read_at<Elf64_Shdr>(bytes, header.e_shoff + i * sizeof(Elf64_Shdr));
  };

  std::vector<std::string> names;
  for (size_t s = 0; s < header.e_shnum; ++s) {
    const Elf64_Shdr symbols = section(s);
    if (symbols.sh_type != SHT_DYNSYM) continue;
    const Elf64_Shdr strings = section(symbols.sh_link);
    for (size_t at = 0; at + sizeof(Elf64_Sym) <= symbols.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = read_at<Elf64_Sym>(bytes, symbols.sh_offset + at);
      const unsigned char visibility = ELF64_ST_VISIBILITY(symbol.st_other);
      if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL ||
          visibility == STV_HIDDEN)
        continue;
      names.push_back(name_at(bytes, strings, symbol.st_name));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace pipeline::plugins
