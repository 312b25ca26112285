// The input is a chat template, which is rendered over a small conversation. The result must be a
// text or an error, within the limits.
#include <boost/json/parse.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "chat/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const boost::json::object context =
      boost::json::parse(R"({"messages": [{"role": "system", "content": "Be brief."},
        {"role": "user", "content": "H\u00e9llo <b> 'q'"},
        {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5]}}}]}],
        "tools": null, "add_generation_prompt": true, "bos_token": "<s>", "n": 7, "s": "abc"})")
          .as_object();
  quire::ChatTemplateLimits limits;
  limits.max_steps = 100'000;
  limits.max_memory_bytes = 8 << 20;
  limits.max_output_bytes = 1 << 20;
  const auto parsed =
      quire::ChatTemplate::parse(std::string(reinterpret_cast<const char*>(data), size), limits);
  if (!parsed.ok()) return 0;
  const auto text = parsed->render(context, {.now = std::tm{}});
  if (text.ok() && text->size() > static_cast<size_t>(limits.max_output_bytes)) std::abort();
  return 0;
}
