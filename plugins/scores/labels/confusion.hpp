// Right classes beside predicted ones: sent with a batch, read back by a report, and shown.
#pragma once

#include <pipeline/task_types.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "plugins/scores/figures/svg.hpp"
#include "plugins/scores/labels/labels.hpp"

namespace pipeline::labels {

// Sends the confusion of a batch's classes: what validations and evaluations that are added up have, whose
// memory does not grow with labels.
void send_confusion(const EvaluationSink& sink, const Confusion& confusion);

// What was sent, of all batches together: of Confusion::counts those that are not 0.
std::map<size_t, double> sent_confusion(const Report& report);

// "confusion.csv", right classes by predicted ones, and "confusion.svg", its shares of the right ones: `map`
// with these, for some 40 classes at most.
void show_confusion(const Confusion& confusion, const std::vector<std::string>& classes, figures::HeatMap map,
                    const ReportSink& sink);

}  // namespace pipeline::labels
