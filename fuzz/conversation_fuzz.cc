// The input is a file that /load of `quire chat` reads.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "facade/chat/conversation_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto messages = quire::parse_conversation({reinterpret_cast<const char*>(data), size});
  if (!messages.ok()) {
    if (messages.status().message().empty()) std::abort();
    return 0;
  }
  const auto again = quire::parse_conversation(quire::conversation_text(*messages));
  if (!again.ok() || again->size() != messages->size()) std::abort();
  return 0;
}
