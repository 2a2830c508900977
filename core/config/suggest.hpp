// What a misspelt name was meant to be, and what other tools' names are here.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace pipeline::config {

// Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, substitutions and swaps
// of neighbours. Ignores case and the difference between - and _.
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate of which `name` is most likely a misspelling; "" if none is near (at most a third of the
// characters wrong).
std::string closest(std::string_view name, std::span<const std::string> candidates);

// "a", "a or b", "a, b or c".
std::string alternatives(std::span<const std::string> names);

// "did you mean a?", or, where none is near, "there is a, b or c".
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

// Translates names used by other tools: Accelerate, DeepSpeed, Lightning, transformers, torchtitan,
// nanoGPT. Of a dotted key the longest known suffix counts, so that a name is found in any table. Returns
// what to write instead, beginning with our key ("train.max_epochs"), or "".
std::string_view our_name_for_key(std::string_view foreign_key);
// The name of another tool's key that `key` is most likely a misspelling of, for our_name_for_key; "" if none
// is near and closer than `limit`.
std::string_view closest_foreign_key(std::string_view key, size_t limit);
// Why there is no such option, and what to do instead: other tools make optional what is always so here, or
// have what is not here. Empty: nothing is known of it.
std::string_view why_needless(std::string_view foreign_key);
// What to write instead of another tool's value: "adamw_8bit" -> "write "adamw" with ..."; or empty.
std::string_view our_value_for(std::string_view foreign_value);

// Translates other tools' names of tables: "training" -> "[train]".
std::string_view our_name_for_table(std::string_view foreign_table);

// Translates words of a command line: "fit" -> "run"; "nproc_per_node", of --nproc_per_node, -> our key, or
// what to do instead.
std::string_view our_name_for_verb(std::string_view foreign_verb);
std::string_view our_name_for_option(std::string_view foreign_option);

}  // namespace pipeline::config
