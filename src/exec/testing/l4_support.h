// Requests for tests of law L4, and a check that two outputs have the same bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/testing/test_driver.h"

namespace quire::test {

inline constexpr int32_t kPromptTokens = 70;
inline constexpr int32_t kOutputTokens = 20;

// Makes a request that samples with logprobs, and whose token ids are below 160.
DriverRequest make_request(uint64_t id, uint32_t seed, int32_t num_prompt_tokens);

// Makes the request that is tested, at index `place`, and 32 others of all lengths.
std::vector<DriverRequest> make_crowd(uint64_t first_id, size_t place);

// Expects the same token ids and logprobs; `what` names the case in failures.
void expect_same_bits(const DriverOutput& got, const DriverOutput& want, const std::string& what);

}  // namespace quire::test
