// ServerTest runs a server over a ScriptedEngine.
#pragma once

#include <gtest/gtest.h>

#include <boost/json/value.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "engine/adapters/adapter_registry.h"
#include "server/http_server.h"
#include "server/testing/scripted_engine.h"
#include "server/testing/test_client.h"

namespace quire::server {

// Waits up to 10 s for `condition`, and returns whether it came true.
inline bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

class ServerTest : public ::testing::Test {
 protected:
  void start(ScriptedEngine::Options engine_options, ServerOptions options = {}) {
    engine = std::make_shared<ScriptedEngine>(std::move(engine_options));
    options.port = 0;
    ServedModel model = scripted_model(engine);
    model.defaults = defaults;
    model.vocab_size = vocab_size;
    model.has_chat_template = has_chat_template;
    model.adapters = adapters;
    model.speech = speech;
    auto created = HttpServer::create(std::move(options), std::move(model), extras);
    ASSERT_TRUE(created.ok()) << created.status().message();
    server = std::move(created).value();
    const Status status = server->start();
    ASSERT_TRUE(status.ok()) << status.message();
  }
  void start_saying(std::string text, ServerOptions options = {}) {
    start({.script = say(std::move(text))}, std::move(options));
  }
  ClientResponse post(std::string_view path, std::string_view body,
                      const std::vector<std::string>& headers = {}) {
    return TestClient(server->port()).post(path, body, headers);
  }
  ClientResponse get(std::string_view path, const std::vector<std::string>& headers = {}) {
    return TestClient(server->port()).request("GET", path, "", headers);
  }

  ServerExtras extras;
  SamplingDefaults defaults;
  int32_t vocab_size = 0;  // 0: the engine's
  bool has_chat_template = true;
  std::shared_ptr<AdapterRegistry> adapters;  // null: none
  std::shared_ptr<const SpeechModel> speech;  // null: the model reads no speech
  std::shared_ptr<ScriptedEngine> engine;
  std::unique_ptr<HttpServer>
      server;  // destroyed first: its connections hold streams of the engine
};

// These functions return members of error bodies.
inline std::string error_type(const ClientResponse& r) {
  return std::string(parse(r.body).at("error").at("type").as_string());
}
inline std::string error_message(const ClientResponse& r) {
  return std::string(parse(r.body).at("error").at("message").as_string());
}
inline std::string error_param(const ClientResponse& r) {
  const boost::json::value body = parse(r.body);
  const boost::json::value& param = body.at("error").at("param");
  return param.is_null() ? "null" : std::string(param.as_string());
}

}  // namespace quire::server
