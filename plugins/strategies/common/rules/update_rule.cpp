#include "plugins/strategies/common/rules/update_rule.hpp"

#include <pipeline/error.hpp>

namespace pipeline::strategies {

std::unique_ptr<UpdateRule> make_rule(const OptimizerRule& options) {
  if (const uint32_t flags = options.flags & ~(PL_OPTIMIZER_WHOLE_TENSORS | PL_FLAGS_MAY_IGNORE))
    fail_with(PL_ERROR_UNSUPPORTED, "optimizer ", options.name, ": flags ", flags, " are not known");
  if (options.api != nullptr) return make_plugin_rule(options);
  if (options.name == "adamw") return make_adamw(options);
  if (options.name == "muon") return make_muon(options);
  if (options.name == "sgd") return make_sgd(options);
  fail_with(PL_ERROR_UNSUPPORTED, "optimizer ", options.name, " is not known: use adamw, muon or sgd");
}

void require_option(bool holds, const char* what, double value, const char* expected) {
  if (!holds) fail_with(PL_ERROR_CONFIG, "optimizer.", what, " = ", value, ": must be ", expected);
}

}  // namespace pipeline::strategies
