#include "server/pages/model_pages.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "engine/adapters/adapter_registry.h"
#include "server/door/server_state.h"
#include "server/json/json_body.h"
#include "server/models/model_host.h"
#include "server/pages/page.h"

namespace quire::server {
namespace {

namespace json = boost::json;

struct Card {
  std::string name;
  std::string root;
  json::value parent;
  int64_t created_s = 0;
  json::value max_model_len;
};

json::object card_json(const Card& card) {
  json::object permission{{"id", fmt::format("modelperm-{}", card.name)},
                          {"object", "model_permission"},
                          {"created", card.created_s},
                          {"allow_create_engine", false},
                          {"allow_sampling", true},
                          {"allow_logprobs", true},
                          {"allow_search_indices", false},
                          {"allow_view", true},
                          {"allow_fine_tuning", false},
                          {"organization", "*"},
                          {"group", nullptr},
                          {"is_blocking", false}};
  return {{"id", card.name},
          {"object", "model"},
          {"created", card.created_s},
          {"owned_by", "quire"},
          {"root", card.root},
          {"parent", card.parent},
          {"max_model_len", card.max_model_len},
          {"permission", json::array{std::move(permission)}}};
}

// Returns the state of a model in the form of llama.cpp's server.
json::object status_json(const ModelStatus& status) {
  json::object out{{"value", to_string(status.state)}, {"requests", status.num_requests}};
  if (status.state == ModelState::kLoading) out["progress"] = status.progress;
  if (status.state == ModelState::kFailed) {
    out["failed"] = true;
    out["error"] = status.error;
  }
  if (status.bytes > 0) out["memory_bytes"] = status.bytes;
  return out;
}

// Adds a model under all of its names, then its adapters, also those of a model that is not loaded.
void add_cards(const ModelStatus& status, bool in_folder, json::array& cards) {
  const ServedModel* const model = status.loaded == nullptr ? nullptr : &status.loaded->model;
  json::value max_model_len;
  if (model != nullptr) max_model_len = model->max_model_len;
  const auto add = [&](const std::string& name, const std::string& root, json::value parent) {
    json::object card = card_json({name, root, std::move(parent), status.created_s, max_model_len});
    if (in_folder) card["status"] = status_json(status);
    cards.emplace_back(std::move(card));
  };
  add(status.name, status.path.empty() ? status.name : status.path, nullptr);
  for (const std::string& alias : status.aliases)
    add(alias, status.path.empty() ? alias : status.path, nullptr);
  if (model == nullptr) {
    for (const std::string& adapter : status.adapters)
      add(adapter, adapter, json::value(status.name));
  } else if (model->adapters != nullptr) {
    for (const LoadedAdapterInfo& loaded : model->adapters->list())
      add(loaded.source.name, loaded.source.path, json::value(status.name));
  }
}

json::array model_cards(const ModelHost& models) {
  json::array cards;
  const bool in_folder = models.only() == nullptr;
  for (const ModelStatus& status : models.list()) add_cards(status, in_folder, cards);
  return cards;
}

HttpResponse models(const HttpRequest&, const PrepareContext& context) {
  return json_page(
      json::object{{"object", "list"}, {"data", model_cards(*context.server->models)}});
}

HttpResponse model_by_id(const HttpRequest& request, const PrepareContext& context) {
  const std::string name = request.path.substr(std::string_view("/v1/models/").size());
  for (json::value& card : model_cards(*context.server->models)) {
    if (card.at("id").as_string() == name) return json_page(card);
  }
  return error_response(*check_model(name, context.model));
}

// Reads {"model": NAME}.
ApiResult<std::string> named_model(const HttpRequest& request, const PrepareContext& context) {
  ApiResult<json::object> body = parse_body(request, context.options.limits);
  if (!body.ok()) return body.error();
  const json::value* const name = body.value().if_contains("model");
  if (name != nullptr && name->is_string()) return std::string(name->get_string());
  return field_error(
      "model", fmt::format("expected a name, got {}", name != nullptr ? describe(*name) : "none"));
}

// Answers when the model is loaded, as llama.cpp's server does.
HttpResponse load_model(const HttpRequest&, const PrepareContext& context) {
  return json_page(json::object{{"success", true}, {"model", context.model.names.front()}});
}

HttpResponse unload_model(const HttpRequest& request, const PrepareContext& context) {
  const ApiResult<std::string> name = named_model(request, context);
  if (!name.ok()) return error_response(name.error());
  if (ApiCheck error = context.server->models->unload(name.value())) return error_response(*error);
  return json_page(json::object{{"success", true}});
}

constexpr Door kModels = page_door(&models);
constexpr Door kModel = page_door(&model_by_id);
constexpr Door kLoad = page_door(&load_model);
constexpr Door kUnload = page_door(&unload_model);

using M = RouteMode;
using K = RouteKind;
using S = RouteSwitch;

const Route kModelRoutes[] = {
    {"/v1/models", "GET", K::kGuarded, M::kInline, kModels, "The served models.", S::kNone,
     RouteModel::kNone},
    {"/v1/models/*", "GET", K::kGuarded, M::kInline, kModel, "One served model.", S::kNone,
     RouteModel::kNone},
    {"/models/load", "POST", K::kGuarded, M::kBySize, kLoad,
     "Load a model of the folder; answers when it is there (--models-dir).", S::kModelsDir},
    {"/models/unload", "POST", K::kGuarded, M::kBySize, kUnload,
     "Give a model's memory back when nobody uses it any more (--models-dir).", S::kModelsDir,
     RouteModel::kNone},
};

}  // namespace

std::span<const Route> model_routes() { return kModelRoutes; }

}  // namespace quire::server
