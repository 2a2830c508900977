#include "core/base/foreign.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <regex>
#include <system_error>
#include <vector>

namespace pipeline::foreign {
namespace {

namespace fs = std::filesystem;

bool has(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    found.push_back(at->path());
  std::sort(found.begin(), found.end());
  return found;
}

std::string start_of(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return "";  // a pipe would hold us up
  std::string start(kStart, '\0');
  std::ifstream stream(path, std::ios::binary);
  stream.read(start.data(), kStart);
  start.resize(static_cast<size_t>(stream.gcount()));
  return start;
}

// The value of "KEY VALUE" on a line of its own.
std::string line_after(std::string_view text, std::string_view key) {
  const size_t at = text.find("\n" + std::string(key) + " ");
  if (at == text.npos) return "";
  const std::string_view rest = text.substr(at + key.size() + 2);
  return std::string(rest.substr(0, rest.find_first_of("\r\n")));
}

bool is_page(std::string_view start) {
  const size_t at = start.find_first_not_of(" \t\r\n");
  std::string head(start.substr(std::min(at, start.size()), 14));
  for (char& c : head)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return head.starts_with("<!doctype html") || head.starts_with("<html");
}

// "openai-community/gpt2", or "gpt2"; also within the page's address. Empty: the text is no id.
std::string hub_id(std::string text) {
  for (const std::string_view site : {"https://huggingface.co/", "https://hf.co/", "hf://"})
    if (text.starts_with(site)) text.erase(0, site.size());
  static const std::regex kId(R"(\w[\w.-]{0,95}(/\w[\w.-]{0,95})?)");
  return std::regex_match(text, kId) ? text : "";
}

// A model's folder in the hub's cache, models--OWNER--NAME, has the model in snapshots/COMMIT.
std::optional<fs::path> snapshot_in(const fs::path& folder) {
  if (!is_folder(folder / "snapshots")) return std::nullopt;
  std::string commit = start_of(folder / "refs" / "main");
  commit.erase(std::find_if(commit.begin(), commit.end(), [](char c) { return c == '\n' || c == '\r'; }),
               commit.end());
  if (!commit.empty() && is_folder(folder / "snapshots" / commit)) return folder / "snapshots" / commit;
  const std::vector<fs::path> all = entries(folder / "snapshots");
  return all.empty() ? std::nullopt : std::optional(all.front());
}

std::string quoted(const fs::path& path) { return "\"" + path.string() + "\""; }

// Names a folder in this one that has a config.json: of several the last checkpoint.
std::string too_high(const fs::path& folder) {
  std::vector<fs::path> models;
  for (const fs::path& entry : entries(folder))
    if (has(entry / "config.json")) models.push_back(entry);
  if (models.empty()) return "";
  const auto number = [](const fs::path& path) {
    const std::string name = path.filename().string();
    const size_t digits = name.find_last_not_of("0123456789") + 1;
    return std::pair(name.size() - digits, name.substr(digits));  // as numbers order without leading zeros
  };
  const auto last = std::max_element(models.begin(), models.end(), [&](const fs::path& a, const fs::path& b) {
    return number(a) < number(b);
  });
  std::string text =
      "has no config.json, so it is not a model's folder; " + last->filename().string() + " in it is one";
  if (models.size() > 1) text += ", of " + std::to_string(models.size());
  return text + ": name " + quoted(*last);
}

// Names weights that are there in a format that is not read.
std::string other_weights(const fs::path& folder) {
  const auto convert = [&](const std::string& read) {
    return "has its weights in PyTorch's format alone, which can run code and is not read; convert them to "
           "safetensors: python3 -c 'import glob, torch; from safetensors.torch import save_file; w = {}; "
           "[w.update(torch.load(f, \"cpu\", weights_only=True)) for f in glob.glob(\"" +
           (folder / read).string() +
           "\")]; save_file({k: v.clone().contiguous() for k, v in w.items()}, \"" +
           (folder / "model.safetensors").string() + "\", {\"format\": \"pt\"})'";
  };
  if (has(folder / "pytorch_model.bin")) return convert("pytorch_model.bin");
  if (has(folder / "pytorch_model.bin.index.json")) return convert("pytorch_model-*.bin");
  for (const fs::path& entry : entries(folder)) {
    const std::string name = entry.filename().string(), extension = entry.extension().string();
    const char* const kind = extension == ".gguf"      ? "GGUF, of llama.cpp"
                             : extension == ".h5"      ? "HDF5, of Keras and TensorFlow"
                             : extension == ".msgpack" ? "msgpack, of Flax"
                             : extension == ".onnx"    ? "ONNX"
                             : extension == ".pth"     ? "PyTorch's own format"
                             : extension == ".ckpt"    ? "a checkpoint of TensorFlow or Lightning"
                                                       : nullptr;
    if (kind != nullptr)
      return "has its weights in " + name + " (" + kind +
             "), which is not read: take the model's folder with config.json and model.safetensors";
  }
  return "";
}

}  // namespace

std::string content(std::string_view start) {
  if (start.starts_with("version https://git-lfs.github.com/spec/") ||
      start.starts_with("version https://hawser.github.com/spec/")) {
    const std::string size = line_after(start, "size");
    return "is a Git LFS pointer, a few lines in place of the file" +
           (size.empty() ? "" : " of " + size + " bytes") +
           ": run `git lfs install` and `git lfs pull` in its repository, or download the file itself";
  }
  if (is_page(start))
    return "is a web page, not the file: download the file itself (on the hub, from /resolve/ in place of "
           "/blob/)";
  const std::string_view format = start.starts_with("GGUF")                ? "a GGUF file of llama.cpp"
                                  : start.starts_with("\x89HDF\r\n\x1a\n") ? "an HDF5 file of Keras"
                                  : start.substr(0, 64).find("/data.pkl") != start.npos
                                      ? "a file of PyTorch's (torch.save)"
                                      : "";
  if (format.empty()) return "";
  return "is " + std::string(format) +
         ", which is not read: take the model's folder with config.json and model.safetensors";
}

std::string file(const fs::path& path) { return content(start_of(path)); }

std::string hub_remedy(const fs::path& path) {
  // An option's path was made absolute, from the folder in which the program was started.
  std::error_code ignored;
  const std::string id =
      hub_id((path.is_absolute() ? path.lexically_relative(fs::current_path(ignored)) : path).string());
  if (id.empty()) return "";
  const std::string name = id.substr(id.find('/') + 1);
  return "if it is a model's id on the Hugging Face hub, run `hf download " + id + " --local-dir " + name +
         "` and name the folder \"" + name + "\"";
}

std::string folder(const fs::path& path) {
  if (!has(path)) {
    const std::string remedy = hub_remedy(path);
    return "there is no such folder" + (remedy.empty() ? "" : "; " + remedy);
  }
  if (!is_folder(path)) {
    if (std::string found = file(path); !found.empty()) return found;
    return "is a file, must be a folder: name the one that it is in, " +
           quoted(path.has_parent_path() ? path.parent_path() : fs::path("."));
  }
  if (const auto snapshot = snapshot_in(path))
    return "is the hub's cache of a model, which is in snapshots: name " + quoted(*snapshot);
  const bool has_weights = has(path / "model.safetensors") || has(path / "model.safetensors.index.json");
  if (has(path / "adapter_config.json") && !has_weights)
    return "is a LoRA adapter, without the model that it is for: name the model's folder here, and this one "
           "as task.language.lora.init_from (of an ESM-2 task.esm2.lora.init_from, of an ESM C "
           "task.esmc.lora.init_from)";
  if (entries(path).empty())
    return "is an empty folder: name the model's, with config.json, model.safetensors and tokenizer.json";
  // A model of sentence-transformers may have all of it in folders within.
  if (has(path / "modules.json")) return "";
  if (!has(path / "config.json"))
    if (std::string found = too_high(path); !found.empty()) return found;
  if (!has_weights)
    if (std::string found = other_weights(path); !found.empty()) return found;
  const fs::path parent = (path / "..").lexically_normal();
  if (!has(path / "config.json") && has(parent / "config.json"))
    return "has no config.json, and the folder that it is in has one: name " + quoted(parent);
  return "";
}

}  // namespace pipeline::foreign
