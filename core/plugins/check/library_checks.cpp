#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/dll/shared_library.hpp>
#include <set>

#include "core/base/error.hpp"
#include "core/base/str.hpp"
#include "core/plugins/check/subject.hpp"

namespace pipeline::plugins {
namespace {

void exports_one_symbol(const CheckArgs& args) {
  const std::vector<std::string> names = exported_symbols(args.plugin);
  if (names != std::vector<std::string>{"pl_plugin_entry"})
    throw Error(fmt::format(
        "exports {} symbols ({}...), must export pl_plugin_entry alone: link with a version script",
        names.size(),
        fmt::join(names.begin(), names.begin() + std::min<std::ptrdiff_t>(3, std::ssize(names)), ", ")));
}

void loads(const CheckArgs& args) { Plugin::load(args.plugin); }

void entry_is_repeatable(const CheckArgs& args) {
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
    if (help.empty()) throw Error(fmt::format("option '{}' has no help", view(option.key)));
    if (help.find('\n') != std::string_view::npos)
      throw Error(fmt::format("the help of option '{}' is more than one line", view(option.key)));
  }
  const Plugin& plugin = Plugin::load(args.plugin);
  if (plugin.summary().empty()) throw Error("it has no summary");
  if (plugin.version().empty()) throw Error("it has no version");
}

void unknown_extensions_are_null(const CheckArgs& args) {
  const Plugin& plugin = Plugin::load(args.plugin);
  for (const char* id : {"", "pl.no-such-extension/1", "pl.peak-flops/1garbage"})
    if (plugin.query(id)) throw Error(fmt::format("query(\"{}\") is not NULL", id));
}

void shuts_down(const CheckArgs& args) {
  Plugin::load(args.plugin);
  shutdown_plugins();
}

}  // namespace

std::vector<Promise> library_promises() {
  return {{"loads, and its tables and options are in order", loads},
          {"exports one symbol", exports_one_symbol},
          {"its entry can be called again", entry_is_repeatable},
          {"every option has one line of help", options_are_explained},
          {"unknown extensions are answered with NULL", unknown_extensions_are_null},
          {"shuts down", shuts_down}};
}

}  // namespace pipeline::plugins
