// report() prints the roofline of a model on a device, as tables for a terminal.
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
  // `image_size` is the size of one image in pixels, as the user wrote it, and empty when there is
  // none; `image_items` is the number of embeddings of each of the image's items.
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

// Returns a decode step of `batch` requests that attend to `context` keys each. prompt_step()
// returns a step that computes a single prompt.
StepShape decode_step(const CostModel& model, int32_t batch, int32_t context);
StepShape prompt_step(const CostModel& model, int32_t tokens);

// Returns the cost of encoding the image of `options`.
KernelCost image_cost(const CostModel& model, const ReportOptions& options);

// Returns model, device and memory, the tables of decode steps and prompts, the kernels of one
// decode and one prompt step, and what other formats, more devices and speculation would gain. The
// text has several lines, and each ends with a line break.
std::string report(const CostModel& model, const ReportOptions& options);

}  // namespace quire::roofline
