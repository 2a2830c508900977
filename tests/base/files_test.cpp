#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "core/base/error.hpp"
#include "core/base/file_lock.hpp"
#include "core/base/files.hpp"
#include "core/base/foreign.hpp"
#include "core/base/socket.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline {
namespace {

namespace fs = std::filesystem;

TEST(ReadFile, ReadsFilesAlone) {
  const tests::FilesFolder folder;
  EXPECT_EQ(read_file(folder.write("file", "a\nb")), "a\nb");
  const auto problem = [](const std::string& path) {
    return tests::message_of<Error>([&] { read_file(path); }).substr(path.size());
  };
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  fs::create_symlink("loop", folder / "loop");
  EXPECT_TRUE(is_there(folder / "fifo"));
  EXPECT_FALSE(is_there(folder / "loop"));
  EXPECT_EQ(problem(folder / "fifo"), ": is a FIFO, must be a file");
  EXPECT_EQ(problem(folder.path()), ": is a folder, must be a file");
  EXPECT_EQ(problem("/dev/zero"), ": is a device, must be a file");
  EXPECT_EQ(problem(folder / "none"), ": cannot be read: No such file or directory");
  EXPECT_EQ(problem(folder / "loop"), ": cannot be read: Too many levels of symbolic links");
}

TEST(WriteAtomically, PutsTheNewContentInPlaceOfTheOld) {
  const tests::FilesFolder folder;
  for (const std::string text : {"longer than the next", "", "abc"}) {
    write_atomically(folder / "file", text);
    EXPECT_EQ(tests::read_all(folder / "file"), text);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "nothing is left beside it";
}

TEST(WriteAtomically, KeepsWhatIsThereWhereItFails) {
  const tests::FilesFolder folder;
  const std::string file = folder.write("file", "old");
  fs::create_directory(file + ".tmp");
  EXPECT_EQ(tests::message_of<Error>([&] { write_atomically(file, "new"); }),
            file + ": cannot be written: Is a directory");
  EXPECT_EQ(tests::read_all(file), "old");
}

TEST(WriteAtomically, SaysWhatCanBeDone) {
  const auto problem = [] { write_atomically("/proc/x", "text", "choose another --output"); };
  EXPECT_EQ(tests::message_of<Error>(problem),
            "/proc/x: cannot be written: No such file or directory: choose another --output");
}

// Who writes the same result at the same time: refused, or one after the other.

class OutputLocks : public testing::Test {
 protected:
  fs::path path(const std::string& name) const { return temporary_.path() / name; }
  std::string problem_of(const fs::path& place) const {
    return tests::message_of<Error>([&] { const OutputLock lock(place, place, "choose another --output"); },
                                    "none");
  }
  std::string refusal_of(const fs::path& place) const {
    return place.string() + ": process " + std::to_string(::getpid()) + " on " + host_name() +
           " writes there: wait for it, stop it, or choose another --output";
  }

 private:
  const tests::TemporaryFolder temporary_;
};

TEST_F(OutputLocks, NameTheOtherProcessAndLeaveNothing) {
  {
    const OutputLock lock(path("new/x.csv"), path("new/x-files"), "");
    EXPECT_EQ(problem_of(path("new/x-files")), refusal_of(path("new/x-files")));
    EXPECT_EQ(problem_of(path("new/y-files")), "none");
  }
  EXPECT_EQ(problem_of(path("new/x-files")), "none");
  EXPECT_TRUE(fs::is_empty(path("new")));
}

TEST_F(OutputLocks, HoldForOtherNamesOfTheSameFolder) {
  fs::create_directories(path("a/x-files"));
  fs::create_directory_symlink(path("a"), path("b"));
  fs::create_directory_symlink(path("a/x-files"), path("y-files"));
  const OutputLock lock(path("a/x.csv"), path("a/x-files"), "");
  for (const char* other : {"b/x-files", "a/../b/./x-files", "y-files"})
    EXPECT_EQ(problem_of(path(other)), refusal_of(path(other)));
}

TEST_F(OutputLocks, HoldForWhatIsInsideAndAround) {
  const OutputLock lock(path("a/b/x.csv"), path("a/b/x-files"), "");
  EXPECT_EQ(problem_of(path("a/b/x-files/c/d-files")), refusal_of(path("a/b/x-files/c/d-files")));
  EXPECT_EQ(problem_of(path("a")), refusal_of(path("a")));
  EXPECT_EQ(problem_of(path("a/b/other")), "none");
}

TEST_F(OutputLocks, ThatAKilledProcessHasLeftStopNobody) {
  std::ofstream(path(".x-files.lock")) << "1 on nowhere";
  EXPECT_EQ(problem_of(path("x-files")), "none");
  EXPECT_TRUE(fs::is_empty(path("")));
}

TEST_F(OutputLocks, FilesThatTwoWriteAtOnceAreOneOfThem) {
  const std::string texts[] = {std::string(300'000, 'a'), std::string(200'000, 'b')};
  const fs::path file = path("page.html");
  write_atomically(file, texts[0]);
  std::vector<std::jthread> writers;
  for (const std::string& text : texts)
    writers.emplace_back([&] {
      for (int i = 0; i < 20; ++i) write_atomically(file, text);
    });
  for (int i = 0; i < 200; ++i) {
    const std::string seen = read_file(file);
    ASSERT_TRUE(seen == texts[0] || seen == texts[1]) << seen.size();
  }
  writers.clear();
  EXPECT_FALSE(fs::exists(path("page.html.tmp")));
}

const std::string kPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:77\nsize 548105171\n";

TEST(Foreign, NamesWhatAFileIsInsteadByHowItBegins) {
  EXPECT_EQ(foreign::content(kPointer),
            "is a Git LFS pointer, a few lines in place of the file of 548105171 bytes: run `git lfs "
            "install` and `git lfs pull` in its repository, or download the file itself");
  EXPECT_TRUE(foreign::content("\n<!DOCTYPE html>\n<html>").starts_with("is a web page, not the file: "));
  EXPECT_TRUE(foreign::content("<html lang=\"en\">").starts_with("is a web page"));
  EXPECT_TRUE(foreign::content("GGUF\3").starts_with("is a GGUF file of llama.cpp, which is not read: "));
  EXPECT_TRUE(foreign::content("\x89HDF\r\n\x1a\n").starts_with("is an HDF5 file of Keras, "));
  EXPECT_TRUE(foreign::content("PK\3\4 pytorch_model/data.pkl").starts_with("is a file of PyTorch's "));
  for (const char* known : {"", "{\"a\": 1}", "version https://example.org", "PK\3\4", "text", "\n \n"})
    EXPECT_EQ(foreign::content(known), "") << known;
}

TEST(Foreign, TakesANameForAHubsIdWhereItCanBeOne) {
  EXPECT_EQ(foreign::folder("openai-community/no-such-gpt2"),
            "there is no such folder; if it is a model's id on the Hugging Face hub, run `hf download "
            "openai-community/no-such-gpt2 --local-dir no-such-gpt2` and name the folder \"no-such-gpt2\"");
  EXPECT_TRUE(foreign::hub_remedy("https://huggingface.co/a/b").find("`hf download a/b ") !=
              std::string::npos);
  EXPECT_EQ(foreign::hub_remedy(fs::current_path() / "a" / "b"), foreign::hub_remedy("a/b"));
  for (const char* path : {"/models/gpt2", "a/b/c", "../no-such-gpt2", "a b"}) {
    EXPECT_EQ(foreign::hub_remedy(path), "") << path;
    EXPECT_EQ(foreign::folder(path), "there is no such folder") << path;
  }
}

TEST(Foreign, NamesTheFolderThatIsMeant) {
  const tests::FilesFolder files;
  const auto folder = [&](const std::string& name) {
    fs::create_directories(files / name);
    return files / name;
  };
  // The hub's cache: the snapshot that refs/main names, else the one that is there.
  const std::string hub = folder("models--gpt2");
  folder("models--gpt2/snapshots/aaa"), folder("models--gpt2/snapshots/bbb"), folder("models--gpt2/refs");
  EXPECT_EQ(foreign::folder(hub),
            "is the hub's cache of a model, which is in snapshots: name \"" + hub + "/snapshots/aaa\"");
  files.write("models--gpt2/refs/main", "bbb\n");
  EXPECT_TRUE(foreign::folder(hub).ends_with(": name \"" + hub + "/snapshots/bbb\""));
  // A folder above the model's, and one below it.
  const std::string run = folder("run");
  for (const char* name : {"run/checkpoint-500", "run/checkpoint-1500", "run/logs"}) folder(name);
  files.write("run/checkpoint-500/config.json", "{}");
  files.write("run/checkpoint-1500/config.json", "{}");
  EXPECT_EQ(foreign::folder(run),
            "has no config.json, so it is not a model's folder; checkpoint-1500 in it is one, of 2: name \"" +
                run + "/checkpoint-1500\"");
  const std::string low = folder("run/checkpoint-500/onnx");
  files.write("run/checkpoint-500/onnx/notes", "");
  EXPECT_EQ(foreign::folder(low),
            "has no config.json, and the folder that it is in has one: name \"" + run + "/checkpoint-500/\"");
  // A file.
  EXPECT_EQ(foreign::folder(files.write("weights", "text")),
            "is a file, must be a folder: name the one that it is in, \"" + files.path() + "\"");
  EXPECT_TRUE(foreign::folder(files.write("m.gguf", "GGUF")).starts_with("is a GGUF file"));
  EXPECT_EQ(foreign::folder(folder("empty")),
            "is an empty folder: name the model's, with config.json, model.safetensors and tokenizer.json");
}

TEST(Foreign, NamesWeightsThatAreNotRead) {
  const tests::FilesFolder files;
  EXPECT_EQ(foreign::folder(files.path()).find("empty"), strlen("is an "));
  files.write("config.json", "{}");
  EXPECT_EQ(foreign::folder(files.path()), "") << "what is missing is for the caller to say";
  files.write("tf_model.h5", "");
  EXPECT_TRUE(foreign::folder(files.path()).starts_with("has its weights in tf_model.h5 (HDF5, "));
  files.write("pytorch_model.bin.index.json", "");
  EXPECT_NE(foreign::folder(files.path()).find("pytorch_model-*.bin"), std::string::npos);
  files.write("pytorch_model.bin", "");
  EXPECT_TRUE(foreign::folder(files.path()).starts_with("has its weights in PyTorch's format alone, "));
  files.write("adapter_config.json", "{}");
  EXPECT_TRUE(foreign::folder(files.path()).starts_with("is a LoRA adapter, without the model "));
  files.write("model.safetensors", "");
  EXPECT_EQ(foreign::folder(files.path()), "") << "its weights are there";
}

}  // namespace
}  // namespace pipeline
