// The manual page: what --help says of the program and of each verb, as roff (man(7)).
#include <sstream>

#include <fmt/format.h>

#include "core/cli/completion.hpp"

namespace pipeline::cli {
namespace {

// Text that roff takes as it is: no escapes, hyphens that can be searched for and copied, no line that is a
// request.
std::string escaped(std::string_view text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    line_begins = c == '\n';
  }
  return out;
}

// A footer: its indented lines are shown as they are, the others are paragraphs.
std::string footer(const std::string& text) {
  std::string out;
  bool example = false, paragraph = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool indented = line.starts_with("  ");
    if (example && !indented) out += ".EE\n.RE\n";
    if (indented && !example) out += ".RS 4\n.EX\n";
    if (!indented && !line.empty() && (!paragraph || example)) out += ".PP\n";
    paragraph = !indented && !line.empty();
    example = indented;
    if (!line.empty()) out += escaped(indented ? line.substr(2) : line) + "\n";
  }
  return example ? out + ".EE\n.RE\n" : out;
}

// "FILE", or "-v, --verbose", or "--set KEY=VALUE".
std::string usage(const CLI::Option& option) {
  if (option.get_positional()) return fmt::format("\\fI{}\\fR", escaped(option.get_name(true)));
  std::string names;
  for (const std::string& name : option.get_snames())
    names += (names.empty() ? "" : ", ") + fmt::format("\\fB\\-{}\\fR", escaped(name));
  for (const std::string& name : option.get_lnames())
    names += (names.empty() ? "" : ", ") + fmt::format("\\fB\\-\\-{}\\fR", escaped(name));
  if (option.get_items_expected_max() > 0) names += fmt::format(" \\fI{}\\fR", escaped(placeholder(option)));
  return names;
}

// Every verb has --help, which is said once, of the program.
std::string options(const CLI::App& app) {
  std::string out;
  for (const CLI::Option* option : app.get_options())
    if ((option->get_positional() || !option->get_group().empty()) &&
        (option != app.get_help_ptr() || !app.get_parent()))
      out += ".TP\n" + usage(*option) + "\n" + escaped(option->get_description()) + ".\n";
  return out;
}

std::string synopsis(const CLI::App& verb) {
  std::string out = fmt::format(".SS pipeline {}", escaped(verb.get_name()));
  for (const CLI::Option* option : positionals_of(verb))
    out += option->get_required() ? " " + option->get_name(true) : " [" + option->get_name(true) + "]";
  return out + " [OPTION...]\n";
}

}  // namespace

std::string manual(const CLI::App& app) {
  std::string out = fmt::format(".TH PIPELINE 1 \"\" \"pipeline {}\"\n", app.version());
  out +=
      fmt::format(".SH NAME\npipeline \\- {}\n", escaped("trains models from plugins named in a TOML file"));
  out += ".SH SYNOPSIS\n\\fBpipeline\\fR \\fIVERB\\fR [\\fIARGUMENT\\fR...]\n";
  out += fmt::format(".SH DESCRIPTION\n{}\n", escaped(app.get_description())) + footer(app.get_footer());
  out += ".SH OPTIONS\n" + options(app);
  out += ".SH VERBS\n";
  for (const CLI::App* verb : app.get_subcommands({}))
    out += synopsis(*verb) + escaped(verb->get_description()) + ".\n" + options(*verb) +
           footer(verb->get_footer());
  return out;
}

}  // namespace pipeline::cli
