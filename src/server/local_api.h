// LocalApi calls the server's routes without a socket: requests of this process take the same code
// as those of clients, and so do their answers.
//
//   LocalApi api(options, host_one_model(model, options));
//   api.call({.method = "POST", .path = "/v1/chat/completions", .body = body},
//            [](HttpResponse response) { … });
#pragma once

#include <functional>
#include <memory>

#include "server/http/http_types.h"
#include "server/http/server_options.h"
#include "server/models/model_host.h"

namespace quire::server {

class LocalApi {
 public:
  using OnAnswer = std::function<void(HttpResponse)>;

  // The API keys in `options` are not checked here.
  LocalApi(ServerOptions options, std::shared_ptr<ModelHost> models);
  // Running calls get no answer after this.
  ~LocalApi();
  LocalApi(const LocalApi&) = delete;
  LocalApi& operator=(const LocalApi&) = delete;

  // Any thread may call it. `on_answer` is called once, on a thread of this object, with the
  // complete answer, even when it is streamed.
  void call(HttpRequest request, OnAnswer on_answer);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::server
