// This program checks that a consumer can include only quire/ of Quire's headers, and that none of
// Quire's warnings are on for it.
#include "base/result.h"
#include "quire/llm.h"

#if __has_include("core/step.h") || __has_include("server/http_server.h") || \
                                                  __has_include("facade/engine_args.h")
#error "sources of Quire are on the include path of a program that links it"
#endif

int main(int argc, char** argv) {
  int unused = 0;                                 // -Wunused-variable
  const signed char narrow = consumer::result();  // -Wconversion, -Woverflow
  quire::LLMOptions options;
  options.model = argc > 1 ? argv[1] : "";
  options.device = "auto";
  options.cache_dir = "/tmp/packed";
  options.chat_template = "{{ messages[0].content }}";
  const auto llm = quire::LLM::load(options);
  return llm.ok() ? narrow : static_cast<int>(llm.status().code());
}
