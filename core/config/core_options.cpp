#include "core/config/core_options.hpp"

#include <deque>

#include "core/config/settings.hpp"

namespace pipeline::config {
namespace {

// What lives as long as the program, for the views in the table of options.
pl_str kept(std::string text) {
  static std::deque<std::string> texts;
  return to_pl(texts.emplace_back(std::move(text)));
}

const pl_str* kept(const std::vector<std::string_view>& choices) {
  static std::deque<std::vector<pl_str>> lists;
  std::vector<pl_str>& list = lists.emplace_back();
  for (const std::string_view choice : choices) list.push_back(to_pl(choice));
  return list.data();
}

}  // namespace

std::string Path::absolute() const { return absolute_path(text, base); }

std::vector<std::string> absolute(const std::vector<Path>& paths) {
  std::vector<std::string> all;
  for (const Path& path : paths) all.push_back(path.absolute());
  return all;
}

void OptionReader::declare(const DeclaredOption& option, uint32_t type) const {
  pl_option row{
      .struct_size = sizeof row, .type = type, .key = to_pl(option.key), .help = to_pl(option.help)};
  const bool is_text = type == PL_OPTION_STRING && !option.default_value.empty();
  row.default_value = is_text ? kept(to_toml(option.default_value)) : to_pl(option.default_value);
  for (const OptionFacet& facet : option.facets) {
    row.flags |= facet.flags;
    row.minimum = facet.minimum.value_or(row.minimum);
    row.maximum = facet.maximum.value_or(row.maximum);
    if (!facet.unit.empty()) row.unit = to_pl(facet.unit);
    if (facet.choices.empty()) continue;
    row.choice_count = static_cast<uint32_t>(facet.choices.size());
    row.choices = kept(facet.choices);
  }
  rows_->push_back(row);
}

bool OptionReader::has_value(std::string_view key) const { return settings_->has_value(key); }

void OptionReader::read(std::string_view key, bool& value) const { value = settings_->get_bool(key); }
void OptionReader::read(std::string_view key, int64_t& value) const { value = settings_->get_int(key); }
void OptionReader::read(std::string_view key, double& value) const { value = settings_->get_float(key); }
void OptionReader::read(std::string_view key, std::string& value) const {
  value = settings_->find_string(key).value_or("");
}

void OptionReader::read(std::string_view key, Path& value) const {
  value = {settings_->find_string(key).value_or(""), settings_->origin(key).base};
}

void OptionReader::read(std::string_view key, std::vector<Path>& value) const {
  for (const std::string& text : settings_->get_string_list(key))
    value.push_back({text, settings_->origin(key).base});
}

void OptionReader::read(std::string_view key, CountOrAuto& value) const {
  if (const auto count = settings_->find_int(key)) value.count = static_cast<uint64_t>(*count);
  value.is_auto = settings_->is_auto(key);
}

std::span<const pl_option> core_options() {
  static const std::vector<pl_option> options = [] {
    std::vector<pl_option> rows;
    [[maybe_unused]] const CoreOptions every_row{OptionReader(rows)};
    return rows;
  }();
  return options;
}

}  // namespace pipeline::config
