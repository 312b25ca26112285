// The routes without a socket: requests of this process go through the same code as those of
// clients, and so do their answers.
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

  // Keys that `options` ask for are not asked here.
  LocalApi(ServerOptions options, std::shared_ptr<ModelHost> models);
  // Calls that are under way get no answer any more.
  ~LocalApi();
  LocalApi(const LocalApi&) = delete;
  LocalApi& operator=(const LocalApi&) = delete;

  // Any thread may call it. `on_answer` is called once, on a thread of this object; a streamed
  // answer is handed over whole.
  void call(HttpRequest request, OnAnswer on_answer);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::server
