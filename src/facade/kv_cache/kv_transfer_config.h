// --kv-transfer-config: whether an engine prefills for others or decodes what others have prefilled,
// in the keys of vLLM's flag of the same name.
#pragma once

#include <string_view>

#include "base/result.h"
#include "engine/handover/kv_handovers.h"

namespace quire {

// Reads `text`, a JSON object; an empty text asks for neither. kInvalidArgument names the key and
// what was expected.
Result<KvHandoverOptions> parse_kv_transfer_config(std::string_view text);

}  // namespace quire
