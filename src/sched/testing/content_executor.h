// For tests: carries out plans on a memory that holds real content, and checks every read and write
// (S-1, S-2, KV-6 and that a request only ever sees its own context). The next token is a hash of
// the context.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/step.h"
#include "kv/testing/kv_content_model.h"

namespace quire::test {

class ContentExecutor {
 public:
  ContentExecutor(const KvSpec& spec, int32_t num_blocks, int32_t vocab_size,
                  int32_t num_state_blocks = 0)
      : spec_(spec), vocab_size_(vocab_size), memory_(spec, num_blocks, num_state_blocks) {}

  // Executes a plan; errors() then says what was wrong with it.
  StepResult execute(const StepPlan& plan);
  const std::vector<std::string>& errors() const { return errors_; }
  size_t num_known() const { return known_.size(); }
  // From now on a step must compute all or none of an item's tokens.
  void keep_media_whole() { keeps_media_whole_ = true; }
  // Makes the request with this id fail in the next step.
  void fail_next(RequestId id) { failing_ = id; }

 private:
  struct Known {
    std::vector<TokenId> tokens;
    std::vector<std::vector<BlockId>> tables;
    uint64_t keys = 1;
    RequestKind kind = RequestKind::kGenerate;
    std::vector<MediaSpan> media;
    bool failed = false;
  };
  void apply_diff(const StepPlan& plan);
  void check_media(const ScheduledRequest& scheduled, const Known& known);
  RequestStepResult run(const ScheduledRequest& scheduled, const StepPlan& plan);
  template <typename... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) {
    errors_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  KvSpec spec_;
  int32_t vocab_size_;
  KvContentModel memory_;
  std::map<RequestId, Known> known_;
  std::set<std::string> encoded_;  // keys of encoded items
  bool keeps_media_whole_ = false;
  std::vector<std::string> errors_;
  RequestId failing_;
};

// Returns the tokens with those of media items replaced by the items' content.
std::vector<TokenId> with_media(std::vector<TokenId> tokens, const std::vector<MediaSpan>& media);

// Returns what a request generates when no other request runs.
std::vector<TokenId> generate_alone(std::vector<TokenId> prompt, const SamplingParams& params,
                                    int32_t max_model_len, int32_t vocab_size);

}  // namespace quire::test
