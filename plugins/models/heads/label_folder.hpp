// Heads for labels in folders of transformers: "LlamaForSequenceClassification" of samples,
// "EsmForTokenClassification" of parts. It has none for pairs, and loads what we write as the plain model.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>
#include <pipeline/torch/parameter_registry.hpp>

#include "heads/label_form.hpp"
#include "hugging_face/config_file.hpp"
#include "hugging_face/weights.hpp"

namespace pipeline::heads {

// Whether a parameter is the head's, by name.
bool is_of_label_head(const std::string& parameter);

// The label head in config.json; nothing where there is none. Throws an Error (PL_ERROR_CONFIG) for one that
// we do not compute. `name`: of its classes, "Esm" of EsmForSequenceClassification.
std::optional<LabelForm> read_label(const hugging_face::ConfigFile& file, const std::string& name);
// Whether its classes are called LABEL_0 and so on, as transformers does where nobody names them.
bool has_default_names(const LabelForm& form);
// What a config.json says of it.
nlohmann::json label_values(const LabelForm& form, const std::string& name);

// An adapter's folder has the label head beside it, in a file of ours: PEFT's says nothing of labels.
void write_adapter_label(const std::string& adapter, const LabelForm& form, const std::string& name);
std::optional<LabelForm> read_adapter_label(const std::string& adapter, const std::string& name);
// Whether the weights of PEFT's adapter have such a head.
bool adapter_predicts_labels(const std::string& adapter);

// A folder's head of numbers gives them as they are, and ours as they are learnt: what is written of a
// parameter, whose value is `value`, or its own; and what becomes of one that is read.
std::function<at::Tensor(const ParameterRegistry::Declared&)> as_in_folder(
    const std::optional<LabelForm>& form,
    std::function<at::Tensor(const ParameterRegistry::Declared&)> value = nullptr);
std::function<void(const Parameter&, at::Tensor&)> as_learnt(const std::optional<LabelForm>& form);

// The map of a model with an output head, for one with a head for labels: the folder may have either.
// has_head: it has the latter.
hugging_face::NameMap with_label_head(hugging_face::NameMap map, const LabelForm& form, bool has_head);

}  // namespace pipeline::heads
