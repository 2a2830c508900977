// Reads pipeline.h and writes a C program that prints where everything in it lies: each constant with its
// value, each struct with its size, each field with offset and size. A field that is new in the header cannot
// be forgotten, because nobody lists them.
#include <algorithm>
#include <cctype>
#include <fstream>
#include <iostream>
#include <iterator>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

std::string without_comments(const std::string& text) {
  return std::regex_replace(text, std::regex(R"(/\*(?:[^*]|\*+[^*/])*\*+/)"), " ");
}

// Splits at a character outside of parentheses and brackets.
std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (char c : text) {
    depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
    if (c == at && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

bool is_blank(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c); });
}

// `double beta1, beta2` -> beta1, beta2;  `pl_error *(*open)(pl_task *self)` -> open;  `int64_t *shape` ->
// shape.
std::vector<std::string> field_names(const std::string& declaration) {
  std::smatch match;
  if (std::regex_search(declaration, match, std::regex(R"(\(\s*\*\s*(\w+)\s*\))"))) return {match[1]};
  std::vector<std::string> names;
  for (const std::string& declarator : split(declaration, ',')) {
    if (!std::regex_search(declarator, match, std::regex(R"((\w+)\s*(?:\[[^\]]*\]\s*)?$)")))
      throw std::runtime_error("cannot read the field: " + declaration);
    names.push_back(match[1]);
  }
  return names;
}

void write_constants(const std::string& text, std::ostream& out) {
  const std::regex define(R"(#define (PL_\w+) (?:\d+u?|0x[0-9a-f]+u?)\s)");
  for (std::sregex_iterator it(text.begin(), text.end(), define), end; it != end; ++it)
    out << "  printf(\"const " << (*it)[1] << " %u\\n\", (unsigned)" << (*it)[1] << ");\n";
}

void write_structs(const std::string& text, std::ostream& out) {
  const std::regex definition(R"(struct (\w+) \{([^{}]*)\}[ \w]*;)");
  for (std::sregex_iterator it(text.begin(), text.end(), definition), end; it != end; ++it) {
    const std::string name = (*it)[1];
    out << "  printf(\"struct " << name << " size %zu\\n\", sizeof(" << name << "));\n";
    for (const std::string& declaration : split((*it)[2], ';')) {
      if (is_blank(declaration)) continue;
      for (const std::string& field : field_names(declaration))
        out << "  printf(\"field " << name << "." << field << " offset %zu size %zu\\n\", offsetof(" << name
            << ", " << field << "), sizeof(((" << name << "*)0)->" << field << "));\n";
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: layout_generator pipeline.h layout_dump.c\n";
    return 2;
  }
  std::ifstream in(argv[1]);
  const std::string text = without_comments({std::istreambuf_iterator<char>(in), {}});
  std::ofstream out(argv[2]);
  out << "#include <stdio.h>\n\n#include \"pipeline.h\"\n\nint main(void) {\n";
  write_constants(text, out);
  write_structs(text, out);
  out << "  return 0;\n}\n";
  return out && in ? 0 : 1;
}
