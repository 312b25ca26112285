// report() prints what the roofline says about a model on a device, as tables for a terminal.
#pragma once

#include <string>
#include <vector>

#include "roofline/model/cost_model.h"
#include "roofline/model/memory_model.h"

namespace quire::roofline {

struct ReportOptions {
  std::vector<int32_t> batch_sizes = {1, 4, 16, 64, 256};
  std::vector<int32_t> contexts = {1024, 8192, 32768};
  std::vector<int32_t> prompts = {128, 512, 2048, 8192};
  // Says what one picture is: its pixels as the user wrote them, and how many embeddings each item
  // has. It is empty when there is none.
  std::string image_size;
  std::vector<int32_t> image_items;
  bool explain = false;  // show the arithmetic of the two steps whose kernels are listed
};

// The two steps whose kernels are listed.
struct ExplainedSteps {
  int32_t batch = 1, context = 1;  // decoding
  int32_t prompt = 1;              // tokens
};
ExplainedSteps explained_steps(const ReportOptions& options);

// Returns a decoding step of `batch` requests that see `context` keys each; the next one a single
// prompt.
StepShape decode_step(const CostModel& model, int32_t batch, int32_t context);
StepShape prompt_step(const CostModel& model, int32_t tokens);

// Returns what it takes to encode the picture of `options`.
KernelCost image_cost(const CostModel& model, const ReportOptions& options);

// Returns model, device and memory, decode and prompt tables, the kernels of one decode and one
// prompt step, and what other formats, more devices and speculation would buy. The text has several
// lines, each with its end.
std::string report(const CostModel& model, const ReportOptions& options);

}  // namespace quire::roofline
