// Heads for labels in folders of transformers. `name`: of its classes, "Esm" of EsmForSequenceClassification
// and EsmForTokenClassification. It has none for pairs, and loads what we write as its EsmModel.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "hugging_face/config_file.hpp"
#include "hugging_face/weights.hpp"
#include "plugins/models/protein/label_head.hpp"

namespace pipeline::protein {

// The label head in config.json; nothing where there is none. Throws an Error (PL_ERROR_CONFIG) for one that
// we do not compute.
std::optional<LabelForm> read_label(const hugging_face::ConfigFile& file, const std::string& name);
void write_label(const LabelForm& form, const std::string& name, nlohmann::json& values);
// To be called where the folder has a head.
void compare_label(hugging_face::Differences& differences, const std::optional<LabelForm>& ours,
                   const std::optional<LabelForm>& theirs);

// An adapter's folder has the label head beside it, in a file of ours: PEFT's says nothing of labels.
void write_adapter_label(const std::string& adapter, const LabelForm& form, const std::string& name);
std::optional<LabelForm> read_adapter_label(const std::string& adapter, const std::string& name);

// Whether the folder of an ESM-2 or ESM C has a head for labels, or PEFT's of an adapter.
bool predicts_labels(const std::string& folder);
bool adapter_predicts_labels(const std::string& adapter);

// A folder's head of numbers gives them as they are, and ours as they are learnt: what is written of a
// parameter, whose value is `value`, or its own; and what becomes of one that is read.
std::function<at::Tensor(const ParameterRegistry::Declared&)> as_in_folder(
    const std::optional<LabelForm>& form,
    std::function<at::Tensor(const ParameterRegistry::Declared&)> value = nullptr);
std::function<void(const Parameter&, at::Tensor&)> as_learnt(const std::optional<LabelForm>& form);

// The map of a model with an output head, for one with a head for labels: the folder may have either.
hugging_face::NameMap with_label_head(hugging_face::NameMap map, const LabelForm& form,
                                      const std::string& folder);

}  // namespace pipeline::protein
