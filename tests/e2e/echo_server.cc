// This server without a model is for tests of clients: each chat answer is the text of the last
// user message, one token per byte.
//
//   quire_echo_server --tool-call-parser hermes --reasoning-parser qwen3
//
// It prints its address and serves until SIGTERM.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "chat/reply_format.h"
#include "server/http_server.h"
#include "server/testing/scripted_engine.h"

namespace quire::server {
namespace {

// Returns the text behind the last "user: " of scripted_model's prompt.
std::string last_user_message(const GenerationRequest& request) {
  std::string prompt;
  for (const TokenId id : request.prompt_token_ids) prompt += static_cast<char>(id);
  constexpr std::string_view kUser = "user: ";
  const size_t begin = prompt.rfind(kUser) + kUser.size();
  size_t end = prompt.rfind("\nassistant:");
  const size_t tools = prompt.rfind("\ntools: ");
  if (tools != prompt.npos && tools >= begin) end = tools;
  return prompt.substr(begin, end - begin);
}

int run(int argc, char** argv) {
  ServerOptions options;
  options.port = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i], name = argv[i + 1];
    if (flag == "--tool-call-parser") options.reply_format.dialect = find_dialect(name);
    if (flag == "--reasoning-parser") options.reply_format.reasoning = find_reasoning_style(name);
  }
  const auto script = [](const GenerationRequest& request) {
    return say(last_user_message(request))(request);
  };
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  auto engine = std::make_shared<ScriptedEngine>(
      ScriptedEngine::Options{.script = script, .max_model_len = 1 << 20});
  auto server = HttpServer::create(std::move(options), scripted_model(engine));
  if (!server.ok() || !(*server)->start().ok()) return 1;
  fmt::print("serving on http://127.0.0.1:{}\n", (*server)->port());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  (*server)->stop();
  return 0;
}

}  // namespace
}  // namespace quire::server

int main(int argc, char** argv) { return quire::server::run(argc, argv); }
