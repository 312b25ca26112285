// This is the host of a server with one model.
#include <utility>

#include "engine/async_engine.h"
#include "engine/observe/engine_stats.h"
#include "server/models/model_host.h"

namespace quire::server {
namespace {

class OneModel final : public ModelHost {
 public:
  explicit OneModel(ModelUse hosted) : hosted_(std::move(hosted)) {}

  const Clock& clock() const override { return engine().clock(); }
  std::vector<ModelStatus> list() const override {
    const ServedModel& model = hosted_->model;
    ModelStatus status{.name = model.names.front(),
                       .path = model.root,
                       .state = ModelState::kLoaded,
                       .created_s = model.created_s,
                       .loaded = hosted_};
    status.aliases.assign(model.names.begin() + 1, model.names.end());
    return {std::move(status)};
  }
  ModelUse only() const override { return hosted_; }
  // Any name is accepted here. Adapters have names of their own, which are checked later.
  void acquire(std::string_view, OnModel on_model) override { on_model(hosted_); }
  ApiCheck unload(std::string_view) override {
    return api_error(400, "this server has one model, which stays (see --models-dir)");
  }
  void keep(std::string_view, std::optional<int64_t>) override {}
  Status reload() override { return {}; }

  bool healthy() const override { return engine().healthy(); }
  bool work_waits() const override { return engine().has_waiting(); }
  int64_t retry_after_s() const override { return engine().retry_after_s(); }
  int64_t num_running() const override { return engine().stats().num_requests_running; }
  void drain(int64_t timeout_us) override { engine().drain(timeout_us); }

 private:
  AsyncEngine& engine() const { return *hosted_->model.engine; }

  const ModelUse hosted_;
};

}  // namespace

std::string_view to_string(ModelState state) {
  switch (state) {
    case ModelState::kUnloaded:
      return "unloaded";
    case ModelState::kLoading:
      return "loading";
    case ModelState::kLoaded:
      return "loaded";
    case ModelState::kUnloading:
      return "unloading";
    case ModelState::kFailed:
      break;
  }
  return "failed";
}

std::shared_ptr<ModelHost> host_one_model(ServedModel model, ServerOptions options) {
  return std::make_shared<OneModel>(HostedModel::create(std::move(model), std::move(options)));
}

}  // namespace quire::server
