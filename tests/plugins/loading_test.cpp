#include <dlfcn.h>

#include <cstdlib>
#include <fstream>

#include <elf.h>
#include <gmock/gmock.h>
#include <test_paths.hpp>

#include "core/base/abi_values.hpp"
#include "core/base/child.hpp"
#include "core/plugins/plugin.hpp"
#include "tests/plugins/zoo.hpp"

namespace pipeline::plugins {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Loading, AGoodPluginTellsItsFacts) {
  const Plugin& plugin = Plugin::load(zoo("good"));
  EXPECT_EQ(plugin.kind(), Kind::kTask);
  EXPECT_EQ(plugin.name(), "good");
  EXPECT_EQ(plugin.label(), "task good");
  EXPECT_EQ(plugin.version(), "1.2");
  EXPECT_EQ(plugin.summary(), "a plugin of the zoo");
  EXPECT_EQ(plugin.runtime(), "");
  EXPECT_TRUE(plugin.options().empty());
  EXPECT_NE(plugin.task().train, nullptr);
  EXPECT_EQ(plugin.task().prepare, nullptr);
  EXPECT_EQ(*static_cast<const int*>(plugin.query("zoo.test/1")), 42);
  EXPECT_EQ(plugin.query("zoo.test/2"), nullptr);
}

TEST(Loading, TheSameFileIsLoadedOnce) {
  const fs::path link = fs::path(PIPELINE_BUILD_DIR "/tests/zoo") / ".." / "zoo" / "good.so";
  EXPECT_EQ(&Plugin::load(zoo("good")), &Plugin::load(link));
}

TEST(Loading, ALinkCountsUnderItsOwnName) {
  const fs::path folder = fs::path(::testing::TempDir()) / ("links-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const fs::path library = folder / "librows_right.so", link = folder / "rows_right.so",
                 other = folder / "other.so";
  fs::copy_file(zoo("rows_right"), library);
  fs::create_symlink(library, link);
  fs::create_symlink(library, other);
  EXPECT_EQ(Plugin::load(link).name(), "rows_right");
  EXPECT_EQ(Plugin::load(link).path(), fs::canonical(library));
  for (const fs::path& file : {other, library})
    EXPECT_EQ(problem_of(file),
              "calls itself 'rows_right', so its file must be called rows_right.so: plugins are found by "
              "their file's name");
  fs::remove_all(folder);
}

TEST(Loading, LibrariesStayLocalAndLoaded) {
  Plugin::load(zoo("good"));
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "pl_plugin_entry"), nullptr);
  void* handle = dlopen(zoo("good").c_str(), RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(handle, nullptr);
  dlclose(handle);
}

TEST(Loading, ANewerMinorWithLargerTablesIsAccepted) {
  const Plugin& plugin = Plugin::load(zoo("newer_minor"));
  EXPECT_EQ(plugin.abi_minor(), 7u);
  EXPECT_EQ(plugin.task().struct_size, sizeof(pl_task_api));
  EXPECT_NE(plugin.task().evaluate, nullptr);
}

struct Case {
  const char* name;
  std::string message;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class BadPlugin : public ::testing::TestWithParam<Case> {};

TEST_P(BadPlugin, IsAnsweredByOneMessage) {
  const ChildResult child =
      run_in_child(std::chrono::seconds(60), [] { return problem_of(zoo(GetParam().name)); });
  EXPECT_EQ(child.problem, "");
  EXPECT_EQ(child.value, GetParam().message);
  EXPECT_EQ(child.output, "");
}

std::string slot_offset(std::size_t offset) { return std::to_string(offset); }

INSTANTIATE_TEST_SUITE_P(
    Zoo, BadPlugin,
    ::testing::Values(
        Case{"no_symbol",
             "exports no pl_plugin_entry, so it is not a pipeline plugin (build it with the SDK's macro, or "
             "as pipeline.h says)"},
        Case{"wrong_major",
             "was built for plugin ABI 2." + std::to_string(PL_ABI_MINOR) + ", this program has 1." +
                 std::to_string(PL_ABI_MINOR) +
                 ", and the first number must be the same: rebuild it with this program's pipeline.h"},
        Case{"no_version", "its pl_plugin has struct_size 8, too short to say which ABI it was built for"},
        Case{"short_plugin", "its pl_plugin has 40 bytes, must have at least " +
                                 slot_offset(offsetof(pl_plugin, api) + sizeof(void*))},
        Case{"short_table", "its pl_task_api has 24 bytes, too short for the required slot 'open' (at byte " +
                                slot_offset(offsetof(pl_task_api, open)) + ")"},
        Case{"missing_slot", "the required slot 'train' of its pl_task_api is NULL"},
        Case{"half_group",
             "has slot 'predict' but not 'sample_name': of prediction_columns, sample_name, predict a task "
             "has all or none"},
        Case{"half_state",
             "has slot 'extra_state' but not 'set_extra_state': of extra_state, set_extra_state a task has "
             "all or none"},
        Case{"half_gather",
             "has slot 'gather' but not 'release': of gather, release a strategy has all or none"},
        Case{"null_return", "its pl_plugin_entry returned NULL and no error"},
        Case{"null_with_error", "does not work with this program: needs a unicorn, and there is none"},
        Case{"table_and_error",
             "its pl_plugin_entry returned a table and also an error: cannot make up its mind"},
        Case{"null_api", "its api table is NULL"},
        Case{"throws", "a C++ exception left its pl_plugin_entry, which the ABI forbids: out of patience"},
        Case{"wrong_kind", "kind is 9, must be 1 (task), 2 (strategy), 3 (backend) or 4 (optimizer)"},
        Case{"bad_name", "its name is 'Bad Name', must be made of a-z, 0-9, _ and -"},
        Case{"other_name",
             "calls itself 'something_else', so its file must be called something_else.so: plugins are found "
             "by their file's name"},
        Case{"unresolved", "cannot be loaded: undefined symbol: zoo_function_that_nobody_has"},
        Case{"not_elf",
             "is no shared library of Linux (ELF): it begins with 54 68 69 73 20 69 73 20 ('This is ')"},
        Case{"empty", "is empty: build or copy it again"}, Case{"does_not_exist", "there is no such file"}),
    [](const ::testing::TestParamInfo<Case>& tested) { return std::string(tested.param.name); });

// What loading ends in when the file is `bytes`.
std::string problem_of_bytes(const std::string& name, const std::string& bytes) {
  const fs::path file = fs::path(::testing::TempDir()) / (name + "-" + std::to_string(::getpid()) + ".so");
  std::ofstream(file, std::ios::binary) << bytes;
  const std::string problem = problem_of(file);
  fs::remove(file);
  return problem;
}

std::string read_bytes(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Loading, ALibraryForAnotherMachineIsNamedAsOne) {
  std::string bytes = read_bytes(zoo("good"));
  bytes[offsetof(Elf64_Ehdr, e_machine)] = static_cast<char>(EM_AARCH64);
  EXPECT_EQ(problem_of_bytes("arm", bytes),
            "was built for ARM64, this program for x86-64: build it on a machine of this kind");
  bytes = read_bytes(zoo("good"));
  bytes[EI_CLASS] = ELFCLASS32;
  EXPECT_THAT(problem_of_bytes("class32", bytes), HasSubstr("x86-64 with another word size or byte order"));
}

TEST(Loading, WhatIsNoSharedLibraryIsNamedAsWhatItIs) {
  EXPECT_THAT(problem_of_bytes("archive", "!<arch>\nfoo.o/"), StartsWith("is a static library"));
  std::string bytes = read_bytes(zoo("good"));
  bytes[offsetof(Elf64_Ehdr, e_type)] = ET_REL;
  EXPECT_THAT(problem_of_bytes("object", bytes), StartsWith("is an object file"));
  EXPECT_THAT(problem_of("/proc/self/exe"), StartsWith("is a program"));
}

TEST(Loading, ALibraryThatItNeedsIsNamed) {
  std::string bytes = read_bytes(zoo("good"));
  const std::string needed = "libc.so.6";
  bytes.replace(bytes.find(needed), needed.size(), "libq.so.6");
  EXPECT_THAT(
      problem_of_bytes("needs", bytes),
      StartsWith("needs the library libq.so.6, which cannot be opened: No such file or directory: `ldd "));
}

// The linker would be killed by what is not there.
TEST(Loading, ATruncatedLibraryIsRefused) {
  const std::string bytes = read_bytes(zoo("good"));
  EXPECT_EQ(problem_of_bytes("header", bytes.substr(0, 60)),
            "is cut off: it has 60 bytes; build or copy it again");
  EXPECT_THAT(problem_of_bytes("half", bytes.substr(0, 5000)),
              StartsWith("is cut off: it has 5000 bytes of "));
}

TEST(Loading, AFailureIsRememberedAndTheEntryNotCalledAgain) {
  for (int time = 0; time < 2; ++time)
    EXPECT_THAT(problem_of(zoo("null_with_error")), testing::HasSubstr("needs a unicorn")) << time;
}

TEST(Loading, EqualRuntimeTagsAgree) {
  Plugin::load(zoo("tag_one"));
  EXPECT_EQ(problem_of(zoo("tag_one_too")), "");
}

TEST(Loading, TwoRuntimeTagsInOneProcessAreRefusedWithBothInTheMessage) {
  const ChildResult child = run_in_child(std::chrono::seconds(60), [] {
    Plugin::load(zoo("tag_one"));
    return problem_of(zoo("tag_two"));
  });
  EXPECT_EQ(child.value, "was built for 'torch 2.10.0+cu126 cxx11-abi', but task tag_one (" +
                             fs::canonical(zoo("tag_one")).string() +
                             "), which is already loaded, for 'torch 2.11.0+cpu cxx11-abi': both cannot be "
                             "in one process; rebuild one of them")
      << child.problem;
}

TEST(Loading, ShutdownComesOnceInReverseOrder) {
  const fs::path file = fs::path(::testing::TempDir()) / ("shutdown-" + std::to_string(::getpid()));
  const ChildResult child = run_in_child(std::chrono::seconds(60), [&] {
    ::setenv("ZOO_SHUTDOWN_FILE", file.c_str(), 1);
    Plugin::load(zoo("good"));
    Plugin::load(zoo("newer_minor"));
    shutdown_plugins();
    shutdown_plugins();
    return std::string("done");
  });
  EXPECT_EQ(child.value, "done") << child.problem;
  EXPECT_THAT(read_bytes(file),
              EndsWith("newer_minor\ngood\n"));  // others that this process has loaded come before
  EXPECT_EQ(read_bytes(file).find("good"), read_bytes(file).rfind("good"));
  fs::remove(file);
}

TEST(Schema, ContradictionsAreRefusedAtLoad) {
  EXPECT_EQ(problem_of(zoo("option_key")),
            "option 'Model': the key must be lower-case words separated by dots, like \"model.n_head\"");
  EXPECT_EQ(problem_of(zoo("option_type")), "option 'size': type 77 is unknown");
  EXPECT_EQ(problem_of(zoo("option_flags")), "option 'size': flags 0x1000 has bits that are unknown");
  EXPECT_EQ(problem_of(zoo("option_no_default")),
            "option 'size': has no default and is not marked PL_OPTION_REQUIRED");
  EXPECT_EQ(problem_of(zoo("option_two_minds")), "option 'size': is required and has a default, 1");
  EXPECT_EQ(problem_of(zoo("option_not_toml")), "option 'act': default `gelu` is not one TOML value");
  EXPECT_EQ(problem_of(zoo("option_wrong_type")),
            "option 'size': default `1.5` must be an integer, is a number with a decimal point");
  EXPECT_EQ(problem_of(zoo("option_range")), "option 'size': default `1` out of range: must be at least 2");
  EXPECT_EQ(problem_of(zoo("option_choice")), "option 'act': default `\"tanh\"` is not one of relu or gelu");
  EXPECT_EQ(problem_of(zoo("option_twice")), "option 'a': occurs twice");
  EXPECT_EQ(problem_of(zoo("option_and_table")), "option 'a': is a value and, because of 'a.b', a table");
}

// Options of a later header are longer; the stride is theirs.
TEST(Schema, LongerOptionsAreReadWithTheirOwnStride) {
  struct Longer {
    pl_option known;
    double later;
  };
  const auto make = [](const char* key, const char* value) {
    Longer option{};
    option.known.struct_size = sizeof(Longer);
    option.known.type = PL_OPTION_INT;
    option.known.key = to_pl(key);
    option.known.default_value = to_pl(value);
    option.later = 1;
    return option;
  };
  const Longer options[] = {make("a", "1"), make("b", "2"), make("c.d", "3")};
  pl_plugin table{};
  table.options = &options[0].known;
  table.option_count = 3;
  const std::vector<pl_option> copies = copy_options(table);
  ASSERT_EQ(copies.size(), 3u);
  EXPECT_EQ(view(copies[1].key), "b");
  EXPECT_EQ(view(copies[2].key), "c.d");
  EXPECT_EQ(view(copies[2].default_value), "3");
}

TEST(Schema, StrangeSizesAreRefused) {
  pl_option option{};
  option.struct_size = 8;
  pl_plugin table{};
  table.options = &option;
  table.option_count = 1;
  EXPECT_THROW(copy_options(table), Error);
  table.options = nullptr;
  EXPECT_THROW(copy_options(table), Error);
}

}  // namespace
}  // namespace pipeline::plugins
