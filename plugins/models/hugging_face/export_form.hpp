// What an exported folder has of the one that the model came from: how its weights are called and typed, its
// tensors that are no parameters, and the fields of its config.json.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "hugging_face/token_ids.hpp"
#include "hugging_face/weights.hpp"

namespace pipeline::hugging_face {

// The names and types of the folder's tensors, and those that are no parameters as they are, up to 256 MiB of
// them. `own_name`: what a tensor is called where a part of the model has a folder of its own; empty: it is
// another part's.
using OwnName = std::function<std::string(const std::string& name)>;
std::string kept_weights(const std::string& folder, const ParameterRegistry& parameters, const NameMap& map,
                         const OwnName& own_name = nullptr);
// What the whole model's kept_weights() have of such a part.
std::string kept_of_part(const std::string& kept, const OwnName& own_name);

// How an export's weights are written.
struct ExportForm {
  // A tensor that is no parameter; without data where it is left out.
  struct Unused {
    std::string dtype;  // as a file's header has it: "BF16"
    std::vector<int64_t> shape;
    std::optional<std::string> data;
  };

  at::ScalarType type = at::kFloat;                  // of parameters that the folder does not have
  std::map<std::string, at::ScalarType> types = {};  // of those that it has, by its names
  std::map<std::string, Unused> unused = {};         // tensors that are no parameters, by their names there
  const char* frozen =
      nullptr;              // what matrices were kept in: "nf4"; null: as many bits as they are written in
  bool is_widened = false;  // float16 becomes float32: training has led a value beyond its range

  // Whether it has all tensors of the folder, also those that the model does not use.
  bool is_complete() const;
};

// `came`: the texts of the folder that this very model came from; without config.json it came from none.
// Throws an Error where they are damaged.
ExportForm export_form(const FolderTexts& came, const ParameterRegistry& parameters, const NameMap& map);

// Lines for the log: in which types weights are written, where not in float32 alone, and what is left out.
std::vector<std::string> notes_of(const ExportForm& form);

// Writes model.safetensors in this form, rounding once; then `others`, which are no parameters, unless the
// folder that the model came from says which there are. The folder must exist; the memory needed does not
// grow with the model.
void export_weights(const std::string& folder, const ParameterRegistry& parameters, const NameMap& map,
                    const std::vector<std::pair<std::string, at::Tensor>>& others, const ExportForm& form);

// The texts, where their config.json is of one of these models; else none, and that file as an object or
// null.
struct Came {
  FolderTexts texts = {};
  nlohmann::ordered_json config = {};
};
Came came_from(const FolderTexts& texts, std::initializer_list<const char*> model_types);

// `values`, a folder's, get what `ours` says otherwise than `theirs`, which is what we would write for that
// folder's model: what neither says stays, and so does what both say alike. Within objects, too.
void take_changes(nlohmann::ordered_json& values, const nlohmann::json& theirs, const nlohmann::json& ours);

// Writes config.json; where float16 has become float32, it says so.
void write_config(const std::string& folder, nlohmann::ordered_json values, const ExportForm& form);

}  // namespace pipeline::hugging_face
