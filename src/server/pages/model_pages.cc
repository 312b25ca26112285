#include "server/pages/model_pages.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "engine/adapters/adapter_registry.h"
#include "server/pages/page.h"

namespace quire::server {
namespace {

namespace json = boost::json;

// Of the model, or of one of its adapters.
json::object model_card(const ServedModel& model, const std::string& name, const std::string& root,
                        const json::value& parent) {
  const std::string id = fmt::format("modelperm-{}", name);
  json::object permission{{"id", id},
                          {"object", "model_permission"},
                          {"created", model.created_s},
                          {"allow_create_engine", false},
                          {"allow_sampling", true},
                          {"allow_logprobs", true},
                          {"allow_search_indices", false},
                          {"allow_view", true},
                          {"allow_fine_tuning", false},
                          {"organization", "*"},
                          {"group", nullptr},
                          {"is_blocking", false}};
  return {{"id", name},
          {"object", "model"},
          {"created", model.created_s},
          {"owned_by", "quire"},
          {"root", root},
          {"parent", parent},
          {"max_model_len", model.max_model_len},
          {"permission", json::array{std::move(permission)}}};
}

// The model under all of its names, then its adapters.
json::array model_cards(const ServedModel& model) {
  json::array cards;
  for (const std::string& name : model.names) {
    cards.emplace_back(model_card(model, name, model.root.empty() ? name : model.root, nullptr));
  }
  if (model.adapters == nullptr) return cards;
  for (const LoadedAdapterInfo& loaded : model.adapters->list()) {
    cards.emplace_back(model_card(model, loaded.source.name, loaded.source.path,
                                  json::value(model.names.front())));
  }
  return cards;
}

HttpResponse models(const HttpRequest&, const PrepareContext& context) {
  return json_page(json::object{{"object", "list"}, {"data", model_cards(context.model)}});
}

HttpResponse model_by_id(const HttpRequest& request, const PrepareContext& context) {
  const std::string name = request.path.substr(std::string_view("/v1/models/").size());
  for (json::value& card : model_cards(context.model)) {
    if (card.at("id").as_string() == name) return json_page(card);
  }
  return error_response(*check_model(name, context.model));
}

constexpr Door kModels = page_door(&models);
constexpr Door kModel = page_door(&model_by_id);

using M = RouteMode;
using K = RouteKind;

const Route kRoutes[] = {
    {"/v1/models", "GET", K::kGuarded, M::kInline, kModels, "The served models."},
    {"/v1/models/*", "GET", K::kGuarded, M::kInline, kModel, "One served model."},
};

}  // namespace

std::span<const Route> model_routes() { return kRoutes; }

}  // namespace quire::server
