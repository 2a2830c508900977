#include "core/plugins/plugin.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <list>
#include <map>
#include <memory>
#include <utility>

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>
#include <boost/dll/shared_library.hpp>

#include "core/base/abi_values.hpp"
#include "core/base/fail.hpp"
#include "core/plugins/call.hpp"
#include "core/plugins/host.hpp"

namespace fs = std::filesystem;

namespace pipeline::plugins {
namespace {

template <class Struct>
std::optional<Struct> read(std::istream& in, uint64_t offset) {
  Struct value;
  in.clear();
  in.seekg(static_cast<std::streamoff>(offset));
  in.read(reinterpret_cast<char*>(&value), sizeof value);
  return in ? std::optional(value) : std::nullopt;
}

std::string machine_name(Elf64_Half machine) {
  static constexpr std::pair<Elf64_Half, const char*> kNames[] = {
      {EM_386, "x86 (32 bits)"}, {EM_X86_64, "x86-64"}, {EM_ARM, "ARM (32 bits)"}, {EM_AARCH64, "ARM64"},
      {EM_PPC64, "POWER"},       {EM_S390, "s390x"},    {EM_RISCV, "RISC-V"}};
  for (const auto& [code, name] : kNames)
    if (code == machine) return name;
  return fmt::format("machine {} of ELF", machine);
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

// All plugins of this process. Never destroyed: plugins stay loaded, and may still be called while statics
// are taken down.
struct Loaded {
  using File = std::pair<dev_t, ino_t>;
  std::map<File, std::unique_ptr<const Plugin>> plugins;
  std::map<File, Error> failures;  // pl_plugin_entry is called once, so its failure is remembered
  std::vector<std::unique_ptr<const Plugin>> of_process;  // the newest last
  std::vector<const Plugin*> order;
  std::list<boost::dll::shared_library> libraries;  // never closed
};

Loaded& loaded() {
  static Loaded& instance = *new Loaded;
  return instance;
}

struct stat stat_file(const fs::path& file) {
  struct stat info {};
  std::error_code failure;
  if (const fs::path target = fs::read_symlink(file, failure); !failure && !fs::exists(file, failure))
    fail(PL_ERROR_CONFIG, "is a link to {}, which is not there", target.string());
  if (::stat(file.c_str(), &info) != 0) throw Error(PL_ERROR_CONFIG, "there is no such file");
  if (!S_ISREG(info.st_mode)) throw Error(PL_ERROR_CONFIG, "is not a file, must be a plugin (NAME.so)");
  return info;
}

void check_trust(const struct stat& info) {
  const std::string problem = trust_problem(info, ::geteuid());
  if (!problem.empty()) throw Error(PL_ERROR_CONFIG, problem);
}

// What the linker says, without the file's name; of a library that the file needs, with what to do.
std::string linker_problem(const fs::path& file, std::string text) {
  const std::string prefix = file.string() + ": ";
  if (text.starts_with(prefix)) text.erase(0, prefix.size());
  constexpr std::string_view kMissing = ": cannot open shared object file: ";
  const size_t at = text.find(kMissing);
  if (at == std::string::npos) return "cannot be loaded: " + text;
  return fmt::format(
      "needs the library {}, which cannot be opened: {}: `ldd {}` lists what is missing; LD_LIBRARY_PATH "
      "names "
      "further folders to look in",
      text.substr(0, at), text.substr(at + kMissing.size()), file.string());
}

pl_plugin_entry_fn open_library(const fs::path& file) {
  if (const std::string problem = elf_problem(file); !problem.empty()) throw Error(PL_ERROR_CONFIG, problem);
  const auto mode = static_cast<boost::dll::load_mode::type>(RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  std::error_code failure;
  boost::dll::shared_library& library = loaded().libraries.emplace_back();
  library.load(file, failure, mode);
  if (failure) {
    const char* reason = dlerror();
    const std::string problem = linker_problem(file, reason ? reason : failure.message());
    loaded().libraries.pop_back();
    throw Error(problem);
  }
  if (!library.has("pl_plugin_entry"))
    throw Error(
        "exports no pl_plugin_entry, so it is not a pipeline plugin (build it with the SDK's macro, or as "
        "pipeline.h says)");
  return reinterpret_cast<pl_plugin_entry_fn>(
      &library.get<const pl_plugin*(const pl_host*, pl_error**)>("pl_plugin_entry"));
}

// `refusal`: what comes before the reason of an entry that returns an error.
const pl_plugin* call_entry(pl_plugin_entry_fn entry, std::string_view refusal) {
  pl_error* error = nullptr;
  const pl_plugin* table = nullptr;
  try {
    table = entry(&host_table(), &error);
  } catch (const std::exception& e) {
    fail("a C++ exception left its pl_plugin_entry, which the ABI forbids: {}", e.what());
  } catch (...) {
    throw Error("a C++ exception left its pl_plugin_entry, which the ABI forbids: not a std::exception");
  }
  if (error) {
    try {
      check(error);
    } catch (const Error& e) {
      if (table) fail("its pl_plugin_entry returned a table and also an error: {}", e.what());
      fail(e.code(), "{}{}", refusal, e.what());
    }
  }
  if (!table) throw Error("its pl_plugin_entry returned NULL and no error");
  return table;
}

// [a-z0-9_-]+
bool is_name(std::string_view name) {
  for (char c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-')) return false;
  return !name.empty();
}

pl_plugin receive_table(const pl_plugin* raw) {
  pl_plugin table = copy_and_extend<pl_plugin>(raw);
  if (!PL_HAS(pl_plugin, &table, abi_minor))
    fail("its pl_plugin has struct_size {}, too short to say which ABI it was built for", table.struct_size);
  if (table.abi_major != PL_ABI_MAJOR)
    fail(
        "was built for plugin ABI {}.{}, this program has {}.{}, and the first number must be the same: "
        "rebuild it with this program's pipeline.h",
        table.abi_major, table.abi_minor, PL_ABI_MAJOR, PL_ABI_MINOR);
  if (!PL_HAS(pl_plugin, &table, api))
    fail("its pl_plugin has {} bytes, must have at least {}", table.struct_size,
         offsetof(pl_plugin, api) + sizeof(table.api));
  table.kind = PL_CODE(table.kind);
  if (table.kind < PL_PLUGIN_TASK || table.kind > PL_PLUGIN_OPTIMIZER)
    fail("kind is {}, must be {} (task), {} (strategy), {} (backend) or {} (optimizer)", table.kind,
         PL_PLUGIN_TASK, PL_PLUGIN_STRATEGY, PL_PLUGIN_BACKEND, PL_PLUGIN_OPTIMIZER);
  if (!is_name(view(table.name)))
    fail("its name is '{}', must be made of a-z, 0-9, _ and -", view(table.name));
  return table;
}

void check_file_name(const fs::path& file, std::string_view name) {
  if (file.stem() == name) return;
  fail("calls itself '{}', so its file must be called {}.so: plugins are found by their file's name", name,
       name);
}

// The linker would mix two builds of one library without a word.
void check_runtime(std::string_view runtime) {
  if (runtime.empty()) return;
  for (const Plugin* other : loaded().order) {
    if (other->runtime().empty() || other->runtime() == runtime) continue;
    fail(
        "was built for '{}', but {} ({}), which is already loaded, for '{}': both cannot be in one process; "
        "rebuild one of them",
        runtime, other->label(), other->path().string(), other->runtime());
  }
}

template <class Is>
const Plugin* newest_of_process(const Is& is) {
  const auto& plugins = loaded().of_process;
  const auto found = std::find_if(plugins.rbegin(), plugins.rend(), [&](const auto& p) { return is(*p); });
  return found == plugins.rend() ? nullptr : found->get();
}

// Shuts one plugin down. The others follow, whatever it does.
void shut_down(const Plugin& plugin, const pl_plugin& table) noexcept {
  if (!table.shutdown) return;
  try {
    contain(plugin, "shutdown", [&] { table.shutdown(); });
  } catch (...) {
    say_exception(nullptr);
  }
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

std::string trust_problem(const struct stat& file, uid_t user) {
  if (user != 0) return {};
  if (file.st_uid != 0)
    return fmt::format(
        "belongs to user {}, who could change what runs as root here: run as that user, or make it root's "
        "(chown root)",
        file.st_uid);
  if ((file.st_mode & S_IWOTH) || ((file.st_mode & S_IWGRP) && file.st_gid != 0))
    return fmt::format(
        "can be written to by {} (mode {:03o}), who could change what runs as root here: chmod go-w",
        file.st_mode & S_IWOTH ? "everybody" : fmt::format("group {}", file.st_gid), file.st_mode & 0777u);
  return {};
}

const Plugin& Plugin::load(const fs::path& file) {
  if (const Plugin* own = in_process(file)) return *own;
  try {
    const Plugin& plugin = load_once(file);
    check_file_name(file, plugin.name());
    return plugin;
  } catch (const Error& e) {
    throw Error(e.code(), file.string() + ": " + e.what());
  }
}

// Two names of one file are one plugin.
const Plugin& Plugin::load_once(const fs::path& file) {
  const struct stat info = stat_file(file);
  check_trust(info);
  const Loaded::File key{info.st_dev, info.st_ino};
  if (auto found = loaded().plugins.find(key); found != loaded().plugins.end()) return *found->second;
  if (auto failed = loaded().failures.find(key); failed != loaded().failures.end()) throw failed->second;
  const fs::path path = fs::canonical(file);
  bool opened = false;
  try {
    const pl_plugin_entry_fn entry = open_library(path);
    opened = true;
    std::unique_ptr<const Plugin> plugin(
        new Plugin(path, *call_entry(entry, "does not work with this program: ")));
    loaded().order.push_back(plugin.get());
    return *loaded().plugins.emplace(key, std::move(plugin)).first->second;
  } catch (const Error& e) {
    if (opened) loaded().failures.emplace(key, e);
    throw;
  }
}

const Plugin& Plugin::add(pl_plugin_entry_fn entry, const fs::path& file) {
  std::unique_ptr<const Plugin> plugin(new Plugin(file, *call_entry(entry, "")));
  loaded().order.push_back(plugin.get());
  return *loaded().of_process.emplace_back(std::move(plugin));
}

const Plugin* Plugin::in_process(Kind kind, std::string_view name) {
  return newest_of_process([&](const Plugin& p) { return p.kind() == kind && p.name() == name; });
}

const Plugin* Plugin::in_process(const fs::path& file) {
  std::error_code failure;
  return newest_of_process([&](const Plugin& p) { return fs::equivalent(p.path(), file, failure); });
}

Plugin::Plugin(fs::path path, const pl_plugin& raw)
    : path_(std::move(path)),
      table_(receive_table(&raw)),
      kind_(static_cast<Kind>(table_.kind)),
      name_(view(table_.name)),
      version_(view(table_.version)),
      summary_(view(table_.summary)),
      runtime_(view(table_.runtime)),
      label_(fmt::format("{} {}", kind_name(kind_), name_)) {
  check_runtime(runtime_);
  negotiate_api(table_.api);
  options_ = copy_options(table_);
}

void Plugin::negotiate_api(const void* api) {
  if (!api) throw Error("its api table is NULL");
  if (kind_ == Kind::kTask) task_ = copy_and_extend<pl_task_api>(api);
  if (kind_ == Kind::kStrategy) strategy_ = copy_and_extend<pl_strategy_api>(api);
  if (kind_ == Kind::kBackend) backend_ = copy_and_extend<pl_backend_api>(api);
  if (kind_ == Kind::kOptimizer) optimizer_ = copy_and_extend<pl_optimizer_api>(api);
  const void* copy = kind_ == Kind::kTask       ? static_cast<const void*>(&task_)
                     : kind_ == Kind::kStrategy ? static_cast<const void*>(&strategy_)
                     : kind_ == Kind::kBackend  ? static_cast<const void*>(&backend_)
                                                : static_cast<const void*>(&optimizer_);
  const std::string problem = slot_problem(kind_, copy, struct_size_of(api));
  if (!problem.empty()) throw Error(problem);
}

const void* Plugin::query(std::string_view extension) const {
  if (!table_.query) return nullptr;
  return contain(*this, "query", [&] { return table_.query(to_pl(extension)); });
}

pl_runtime Plugin::runtime_extension() const {
  const void* table = query(PL_EXTENSION_RUNTIME);
  return table ? copy_and_extend<pl_runtime>(table) : pl_runtime{};
}

void shutdown_plugins() {
  std::vector<const Plugin*> order = std::exchange(loaded().order, {});
  for (auto plugin = order.rbegin(); plugin != order.rend(); ++plugin) shut_down(**plugin, (*plugin)->table_);
}

}  // namespace pipeline::plugins
