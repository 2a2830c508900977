#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/dll/shared_library.hpp>
#include <cstring>
#include <fstream>
#include <string_view>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/base/files.hpp"
#include "core/plugins/check/subject.hpp"

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

void require_library(const CheckArgs& args) {
  if (Plugin::in_process(args.plugin)) throw Skip{"it is a class in Python"};
}

void exports_one_symbol(const CheckArgs& args) {
  require_library(args);
  const std::vector<std::string> names = exported_symbols(args.plugin);
  if (names != std::vector<std::string>{"pl_plugin_entry"})
    fail("exports {} symbols ({}...), must export pl_plugin_entry alone: link with a version script",
         names.size(),
         fmt::join(names.begin(), names.begin() + std::min<std::ptrdiff_t>(3, std::ssize(names)), ", "));
}

void loads(const CheckArgs& args) { Plugin::load(args.plugin); }

void entry_is_repeatable(const CheckArgs& args) {
  require_library(args);
  boost::dll::shared_library library(args.plugin, boost::dll::load_mode::rtld_now);
  auto* entry = &library.get<const pl_plugin*(const pl_host*, pl_error**)>("pl_plugin_entry");
  pl_error* error = nullptr;
  const pl_plugin* first = entry(&host_table(), &error);
  check(error);
  const pl_plugin* second = entry(&host_table(), &error);
  check(error);
  if (first != second) throw Error("its entry returned two different tables: the table must be static");
}

void options_are_explained(const CheckArgs& args) {
  for (const pl_option& option : Plugin::load(args.plugin).options()) {
    const std::string_view help = view(option.help);
    if (help.empty()) fail("option '{}' has no help", view(option.key));
    if (help.find('\n') != std::string_view::npos)
      fail("the help of option '{}' is more than one line", view(option.key));
  }
  const Plugin& plugin = Plugin::load(args.plugin);
  if (plugin.summary().empty()) throw Error("it has no summary");
  if (plugin.version().empty()) throw Error("it has no version");
}

void unknown_extensions_are_null(const CheckArgs& args) {
  const Plugin& plugin = Plugin::load(args.plugin);
  for (const char* id : {"", "pl.no-such-extension/1", "pl.runtime/1garbage"})
    if (plugin.query(id)) fail("query(\"{}\") is not NULL", id);
}

void shuts_down(const CheckArgs& args) {
  Plugin::load(args.plugin);
  shutdown_plugins();
}

}  // namespace

std::vector<std::string> exported_symbols(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes = rest_of(in);
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

std::vector<Promise> library_promises() {
  return {{"loads, and its tables and options are in order", loads},
          {"exports one symbol", exports_one_symbol},
          {"its entry can be called again", entry_is_repeatable},
          {"every option has one line of help", options_are_explained},
          {"unknown extensions are answered with NULL", unknown_extensions_are_null},
          {"shuts down", shuts_down}};
}

}  // namespace pipeline::plugins
