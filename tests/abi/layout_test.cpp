// The binary layout of pipeline.h against the golden dumps in core/abi/layout, one for each released version.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <test_paths.hpp>

#include "pipeline.h"

namespace {

namespace fs = std::filesystem;

const fs::path kGolden = fs::path(PIPELINE_SOURCE_DIR) / "core/abi/layout";

std::string version() { return std::to_string(PL_ABI_MAJOR) + "." + std::to_string(PL_ABI_MINOR); }

std::string current_dump() {
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(LAYOUT_DUMP, "r"), ::pclose);
  std::string text;
  std::array<char, 4096> buffer{};
  while (std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe.get()))
    text.append(buffer.data(), n);
  return text;
}

std::string read(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// "const NAME value", "struct NAME size N", "field NAME offset N size N": the first two words, then the rest.
std::map<std::string, std::string> entries(const std::string& dump) {
  std::map<std::string, std::string> result;
  std::istringstream lines(dump);
  std::string kind, name, rest;
  while (lines >> kind >> name && std::getline(lines, rest)) result[kind + " " + name] = rest;
  return result;
}

// Structs without struct_size can never grow.
bool is_frozen(const std::string& name) {
  return std::set<std::string>{"struct pl_str",    "struct pl_device", "struct pl_dtype",
                               "struct pl_stream", "struct pl_tensor", "struct pl_number"}
      .contains(name);
}

int size_in(const std::string& rest) { return std::stoi(rest.substr(rest.find("size ") + 5)); }

TEST(Layout, TheCurrentVersionIsAsRecorded) {
  const fs::path golden = kGolden / (version() + ".txt");
  ASSERT_TRUE(fs::exists(golden)) << "a new ABI version needs its dump: layout_dump > " << golden;
  EXPECT_EQ(current_dump(), read(golden)) << "the layout of pipeline.h differs from core/abi/layout/"
                                          << version() << ".txt: read the checklist in core/abi/README.md";
}

// What any released version had is still there, at the same place; only structs that carry their size may
// have grown.
TEST(Layout, NothingReleasedHasMoved) {
  const auto now = entries(current_dump());
  int versions = 0;
  for (const auto& file : fs::directory_iterator(kGolden)) {
    if (!file.path().filename().string().starts_with(std::to_string(PL_ABI_MAJOR) + ".")) continue;
    ++versions;
    for (const auto& [name, rest] : entries(read(file.path()))) {
      if (name == "const PL_ABI_MINOR") continue;
      ASSERT_TRUE(now.contains(name)) << name << " of version " << file.path().stem() << " is gone";
      if (name.starts_with("struct ") && !is_frozen(name))
        EXPECT_GE(size_in(now.at(name)), size_in(rest)) << name;
      else
        EXPECT_EQ(now.at(name), rest) << name;
    }
  }
  EXPECT_GE(versions, 1);
}

// Every struct but the frozen ones begins with struct_size, and every field is naturally aligned.
TEST(Layout, StructsBeginWithTheirSize) {
  const auto now = entries(current_dump());
  EXPECT_GT(now.size(), 300u);
  for (const auto& [name, rest] : now) {
    if (!name.starts_with("struct ") || is_frozen(name)) continue;
    const std::string first = "field " + name.substr(7) + ".struct_size";
    ASSERT_TRUE(now.contains(first)) << name;
    EXPECT_EQ(now.at(first), " offset 0 size 4") << name;
    EXPECT_EQ(size_in(rest) % 8, 0) << name << ": padding at the end would be read as an unknown option";
  }
}

// Bytes between fields would have no defined value, and a later field could not use them.
TEST(Layout, NoHoles) {
  std::map<std::string, std::map<int, int>> fields;  // struct -> offset -> size
  std::map<std::string, int> sizes;
  for (const auto& [name, rest] : entries(current_dump())) {
    if (name.starts_with("struct ")) sizes[name.substr(7)] = size_in(rest);
    if (!name.starts_with("field ")) continue;
    int offset = 0, size = 0;
    ASSERT_EQ(std::sscanf(rest.c_str(), " offset %d size %d", &offset, &size), 2);
    fields[name.substr(6, name.find('.') - 6)][offset] = size;
  }
  ASSERT_GT(fields.size(), 30u);
  for (const auto& [name, members] : fields) {
    int end = 0;
    for (const auto& [offset, size] : members) {
      EXPECT_EQ(offset, end) << name << " has a hole before the field at " << offset;
      end = offset + size;
    }
    EXPECT_EQ(end, sizes[name]) << name << " has padding at its end";
  }
}

}  // namespace
