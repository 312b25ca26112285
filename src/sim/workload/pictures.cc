#include "sim/workload/pictures.h"

#include <unordered_map>

#include "sim/random/random_stream.h"

namespace quire::sim {

void add_pictures(const PictureChoice& choice, Workload& workload) {
  constexpr uint64_t kPurpose = 0x70696374u;
  if (choice.per_request <= 0) return;
  workload.picture_items = choice.items;
  const int32_t tokens = choice.per_request * workload.picture_tokens();
  RandomStream random(choice.seed, kPurpose);
  std::unordered_map<uint64_t, bool> of_content;
  for (SimRequest& request : workload.requests) {
    const bool drawn = random.uniform() < choice.share;
    const bool has_some =
        request.previous >= 0
            ? workload.requests[static_cast<size_t>(request.previous)].num_pictures > 0
            : of_content.try_emplace(request.content, drawn).first->second;
    if (!has_some) continue;
    request.num_pictures = choice.per_request;
    request.input_tokens += tokens;
  }
}

}  // namespace quire::sim
