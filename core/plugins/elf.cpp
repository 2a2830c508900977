#include "core/plugins/elf.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>

namespace pipeline::plugins {
namespace {

namespace fs = std::filesystem;

template <class Struct>
std::optional<Struct> read(std::istream& in, uint64_t offset) {
  Struct value;
  in.clear();
  in.seekg(static_cast<std::streamoff>(offset));
  in.read(reinterpret_cast<char*>(&value), sizeof value);
  return in ? std::optional(value) : std::nullopt;
}

std::string machine_name(Elf64_Half machine) {
  switch (machine) {
    case EM_386:
      return "x86 (32 bits)";
    case EM_X86_64:
      return "x86-64";
    case EM_ARM:
      return "ARM (32 bits)";
    case EM_AARCH64:
      return "ARM64";
    case EM_PPC64:
      return "POWER";
    case EM_S390:
      return "s390x";
    case EM_RISCV:
      return "RISC-V";
    default:
      return fmt::format("machine {} of ELF", machine);
  }
}

// "4d 5a 90 00 ('MZ..')"
std::string first_bytes(std::istream& in) {
  std::string hex, text;
  in.clear();
  in.seekg(0);
  for (char c; text.size() < 8 && in.get(c);) {
    hex += fmt::format("{:02x} ", static_cast<unsigned char>(c));
    text += c >= ' ' && c <= '~' ? c : '.';
  }
  return fmt::format("{}('{}')", hex, text);
}

struct Parts {
  uint64_t end;             // the file's size as the headers have it
  bool is_program = false;  // and names who is to load it
};
Parts parts_of(std::istream& in, const Elf64_Ehdr& header) {
  Parts parts{header.e_phoff + uint64_t{header.e_phnum} * header.e_phentsize};
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto part = read<Elf64_Phdr>(in, header.e_phoff + i * header.e_phentsize);
    if (part && part->p_type == PT_LOAD) parts.end = std::max(parts.end, part->p_offset + part->p_filesz);
    if (part && part->p_type == PT_INTERP) parts.is_program = true;
  }
  return parts;
}

}  // namespace

std::string elf_problem(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return fmt::format("cannot be read: {}", std::strerror(errno));
  const uint64_t size = fs::file_size(file);
  if (size == 0) return "is empty: build or copy it again";
  std::string start(std::min<uint64_t>(size, SELFMAG * 2), '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  if (start == "!<arch>\n")
    return "is a static library, must be a shared one: make it with pipeline_plugin(), or link it with "
           "-shared";
  if (!start.starts_with(std::string_view(ELFMAG, SELFMAG)))
    return fmt::format("is no shared library of Linux (ELF): it begins with {}", first_bytes(in));
  const auto header = read<Elf64_Ehdr>(in, 0);
  std::ifstream program("/proc/self/exe", std::ios::binary);
  const auto own = read<Elf64_Ehdr>(program, 0);
  if (!own) return {};
  if (!header) return fmt::format("is cut off: it has {} bytes; build or copy it again", size);
  if (header->e_machine != own->e_machine || header->e_ident[EI_CLASS] != own->e_ident[EI_CLASS] ||
      header->e_ident[EI_DATA] != own->e_ident[EI_DATA])
    return fmt::format("was built for {}{}, this program for {}: build it on a machine of this kind",
                       machine_name(header->e_machine),
                       header->e_machine == own->e_machine ? " with another word size or byte order" : "",
                       machine_name(own->e_machine));
  const Parts parts = parts_of(in, *header);
  if (header->e_type != ET_DYN || parts.is_program)
    return fmt::format(
        "is {}, must be a shared library: make it with pipeline_plugin(), or link it with -shared",
        header->e_type == ET_REL ? "an object file" : "a program");
  if (parts.end > size)
    return fmt::format("is cut off: it has {} bytes of {} or more; build or copy it again", size, parts.end);
  return {};
}

}  // namespace pipeline::plugins
