#include "core/plugins/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/child.hpp"
#include "core/base/fail.hpp"
#include "core/base/program.hpp"
#include "core/config/error.hpp"
#include "core/config/explain.hpp"
#include "core/config/option.hpp"
#include "core/config/suggest.hpp"

namespace fs = std::filesystem;

namespace pipeline::plugins {
namespace {

// Loading LibTorch from a cold disk takes seconds.
constexpr std::chrono::seconds kLoadLimit{60};

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder, failure))
    if (entry.path().extension() == ".so" && !entry.is_directory(failure)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// Where the files of a kind lie in a folder.
std::vector<fs::path> places(const fs::path& folder, Kind kind) {
  return {folder / kind_folder(kind), folder};
}

struct Candidate {
  fs::path file;
  std::string origin;  // of its folder
};

// Files of this name and kind; each file once.
std::vector<Candidate> candidates(const std::vector<SearchFolder>& folders, Kind kind,
                                  std::string_view name) {
  std::vector<Candidate> found;
  std::error_code failure;
  for (const SearchFolder& folder : folders) {
    for (const fs::path& place : places(folder.path, kind)) {
      const fs::path file = place / fmt::format("{}.so", name);
      const bool again = std::any_of(found.begin(), found.end(), [&](const Candidate& other) {
        return fs::equivalent(file, other.file, failure);
      });
      if (fs::exists(fs::symlink_status(file, failure)) && !again) found.push_back({file, folder.origin});
    }
  }
  return found;
}

// The plugins of a kind that the build tree of a checkout can make, built or not.
std::vector<std::string> can_be_built(const fs::path& folder, Kind kind) {
  std::vector<std::string> names;
  const std::string prefix = fmt::format("{}/", kind_folder(kind));
  std::ifstream list(folder / "plugins.txt");
  for (std::string line; std::getline(list, line);)
    if (line.starts_with(prefix)) names.push_back(line.substr(prefix.size()));
  return names;
}

Listing describe(const fs::path& file, std::string_view kind_of_folder) {
  Listing listing;
  listing.kind = kind_of_folder;
  listing.name = file.stem().string();
  listing.path = file;
  const ChildResult child = run_in_child(kLoadLimit, [&] {
    const Plugin& plugin = Plugin::load(file);
    const std::string table = std::string(kind_name(plugin.kind())) + ".";
    return nlohmann::json{
        {"kind", kind_name(plugin.kind())},
        {"version", plugin.version()},
        {"summary", plugin.summary()},
        {"abi", fmt::format("{}.{}", PL_ABI_MAJOR, plugin.abi_minor())},
        {"runtime", plugin.runtime()},
        {"options", plugin.options().empty() ? "" : config::explain(plugin.options(), table)}}
        .dump();
  });
  if (!child.ok) {
    listing.problem = child.problem;
    if (const std::string prefix = file.string() + ": "; listing.problem.starts_with(prefix))
      listing.problem.erase(0, prefix.size());
    return listing;
  }
  const auto facts = nlohmann::json::parse(child.value);
  listing.kind = facts["kind"];
  listing.version = facts["version"];
  listing.summary = facts["summary"];
  listing.abi = facts["abi"];
  listing.runtime = facts["runtime"];
  listing.options = facts["options"];
  if (!kind_of_folder.empty() && listing.kind != kind_of_folder)
    listing.problem =
        fmt::format("is a {}, but lies in a folder for the kind {}", listing.kind, kind_of_folder);
  return listing;
}

constexpr const char* kVariable = "PIPELINE_PLUGIN_PATH";

void add_named(std::vector<SearchFolder>& folders, const fs::path& path, const std::string& origin) {
  std::error_code failure;
  if (!fs::exists(from_start(path), failure))
    fail(PL_ERROR_CONFIG, "{} = {}: there is no such folder", origin, path.string());
  if (!fs::is_directory(from_start(path), failure))
    fail(PL_ERROR_CONFIG, "{} = {}: must be a folder that holds plugins (NAME.so)", origin, path.string());
  folders.push_back({from_start(path), origin});
}

}  // namespace

const Plugin& Registry::find(Kind kind, std::string_view name) {
  if (const Plugin* own = Plugin::in_process(kind, name)) return *own;
  const auto key = std::make_pair(kind, std::string(name));
  if (auto found = found_.find(key); found != found_.end()) return *found->second;
  const std::vector<Candidate> files = candidates(folders_, kind, name);
  if (files.empty()) not_found(kind, name);
  if (files.size() > 1) {
    std::string listed;
    for (const Candidate& each : files) listed += fmt::format("\n  {} ({})", each.file.string(), each.origin);
    fail(PL_ERROR_CONFIG,
         "{}.plugin = \"{}\": {} files have this name, must be one; remove or rename the others, or leave "
         "out their folders:{}",
         kind_name(kind), name, files.size(), listed);
  }
  const fs::path& file = files.front().file;
  const Plugin& plugin = Plugin::load(file);
  if (plugin.kind() != kind)
    fail(PL_ERROR_CONFIG, "{}.plugin = \"{}\": {} is a {}, must be a {}", kind_name(kind), name,
         file.string(), kind_name(plugin.kind()), kind_name(kind));
  found_.emplace(key, &plugin);
  return plugin;
}

std::vector<fs::path> Registry::files(std::string_view name) const {
  std::vector<fs::path> files;
  for (const Kind kind : kKinds)
    for (const Candidate& each : candidates(folders_, kind, name))
      if (std::ranges::find(files, each.file) == files.end()) files.push_back(each.file);
  return files;
}

void Registry::not_found(Kind kind, std::string_view name) const {
  std::string searched;
  std::error_code failure;
  for (const SearchFolder& folder : folders_)
    searched += fmt::format("\n  {} ({}{})", folder.path.string(), folder.origin,
                            fs::is_directory(folder.path, failure) ? "" : ", not there");
  std::set<std::string> built_or_not;
  for (std::string& built : names(kind)) built_or_not.insert(std::move(built));
  for (const SearchFolder& folder : folders_)
    for (std::string& other : can_be_built(folder.path, kind)) built_or_not.insert(std::move(other));
  if (kind == Kind::kTask && !built_or_not.empty()) built_or_not.insert(kPythonTask);
  const std::vector<std::string> known(built_or_not.begin(), built_or_not.end());
  std::string meant = config::closest(name, known);
  std::string hint = meant == name
                         ? "; it is not built: run the command with scripts/pipeline, which builds it"
                     : !meant.empty() ? fmt::format("; did you mean \"{}\"?", meant)
                     : known.empty()  ? fmt::format("; there is no {} at all", kind_name(kind))
                                      : fmt::format("; there are: {}", fmt::join(known, ", "));
  fail(PL_ERROR_CONFIG,
       "{0}.plugin = \"{1}\": no {0} of this name{2}\nSearched for {3}/{1}.so and {1}.so in:{4}",
       kind_name(kind), name, hint, kind_folder(kind), searched);
}

std::vector<std::string> Registry::names(Kind kind) const {
  std::set<std::string> names;
  for (const SearchFolder& folder : folders_)
    for (const fs::path& place : places(folder.path, kind))
      for (const fs::path& file : files_in(place)) names.insert(file.stem().string());
  return {names.begin(), names.end()};
}

std::vector<const Plugin*> Registry::all(Kind kind) {
  std::vector<const Plugin*> found;
  for (const std::string& name : names(kind)) {
    try {
      found.push_back(&find(kind, name));
    } catch (const Error&) {  // `pipeline plugins` says why
    }
  }
  return found;
}

std::map<std::string, std::vector<std::string>> Registry::options_of_all(std::string_view kind) {
  std::map<std::string, std::vector<std::string>> options;
  if (const auto wanted = kind_called(kind))
    for (const Plugin* plugin : all(*wanted))
      for (const pl_option& option : plugin->options())
        options[std::string(view(option.key))].push_back(plugin->name());
  return options;
}

std::vector<Listing> Registry::list() const {
  std::vector<Listing> listings;
  const auto add = [&](const fs::path& file, std::string_view kind) {
    std::error_code failure;
    const bool again = std::ranges::any_of(listings, [&](const Listing& other) {
      return file.filename() == other.path.filename() && fs::equivalent(file, other.path, failure);
    });
    if (!again) listings.push_back(describe(file, kind));
  };
  for (const SearchFolder& folder : folders_) {
    for (Kind kind : kKinds)
      for (const fs::path& file : files_in(folder.path / kind_folder(kind))) add(file, kind_name(kind));
    for (const fs::path& file : files_in(folder.path)) add(file, {});
  }
  for (Listing& listing : listings) {
    if (!listing.problem.empty()) continue;
    for (const Candidate& other : candidates(folders_, *kind_called(listing.kind), listing.name))
      if (other.file != listing.path)
        listing.problem = fmt::format("cannot be used: {} has the same name", other.file.string());
  }
  return listings;
}

std::vector<SearchFolder> search_folders(const std::vector<SearchFolder>& given) {
  std::vector<SearchFolder> folders;
  for (const SearchFolder& folder : given) add_named(folders, folder.path, folder.origin);

  const char* variable = std::getenv(kVariable);
  std::string_view rest = variable ? variable : "";
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    if (const std::string_view entry = rest.substr(0, colon); !entry.empty())
      add_named(folders, entry, kVariable);
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
  }

  // The build tree and an installed prefix have the same layout.
  folders.push_back({program().prefix / "lib" / "pipeline" / "plugins", "beside the program"});
  return folders;
}

}  // namespace pipeline::plugins
