#include "core/base/foreign.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/test_files.hpp"

namespace pipeline {
namespace {

namespace fs = std::filesystem;

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
