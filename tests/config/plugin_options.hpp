#pragma once

#include <array>
#include <string_view>

#include "pipeline.h"

namespace pipeline::config {

constexpr pl_str str(std::string_view text) { return {text.data(), text.size()}; }

inline pl_option make_option(std::string_view key, uint32_t type, std::string_view default_value,
                             uint32_t flags = 0) {
  pl_option option{};
  option.struct_size = sizeof(option);
  option.type = type;
  option.flags = flags;
  option.key = str(key);
  option.default_value = str(default_value);
  option.help = str("help");
  return option;
}

// The options of a task that does not exist: one of each type.
inline std::array<pl_option, 11> task_options() {
  static constexpr pl_str kActivations[] = {{"gelu", 4}, {"relu", 4}};
  pl_option n_head = make_option("model.n_head", PL_OPTION_INT, "12", PL_OPTION_HAS_MINIMUM);
  n_head.minimum = 1;
  pl_option activation = make_option("model.activation", PL_OPTION_STRING, "\"gelu\"");
  activation.choices = kActivations;
  activation.choice_count = 2;
  return {n_head,
          activation,
          make_option("model.dropout", PL_OPTION_FLOAT, "0.1"),
          make_option("model.bias", PL_OPTION_BOOL, "true"),
          make_option("data.train", PL_OPTION_PATH, "", PL_OPTION_REQUIRED),
          make_option("data.extra", PL_OPTION_PATH_LIST, "[]"),
          make_option("data.columns", PL_OPTION_STRING_LIST, "[\"document\", \"summary\"]"),
          make_option("model.widths", PL_OPTION_INT_LIST, "[1, 2]"),
          make_option("model.rates", PL_OPTION_FLOAT_LIST, "[0.5, 1]"),
          make_option("show", PL_OPTION_INT, "3", PL_OPTION_MAY_CHANGE),
          make_option("model.window", PL_OPTION_INT, "")};
}

}  // namespace pipeline::config
