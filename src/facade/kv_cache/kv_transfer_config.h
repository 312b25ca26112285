// --kv-transfer-config: whether an engine prefills for others or decodes what others have
// prefilled. The keys are those of vLLM's flag of the same name.
#pragma once

#include <string_view>

#include "base/result.h"
#include "engine/handover/kv_handovers.h"

namespace quire {

// Parses `text`, a JSON object; an empty text means neither. kInvalidArgument names the key and
// says what was expected.
Result<KvHandoverOptions> parse_kv_transfer_config(std::string_view text);

}  // namespace quire
