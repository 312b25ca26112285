#include "server/models/shelf_items.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/nearest_name.h"

namespace quire::server {
namespace {

// Returns the names that stand for `model`.
std::vector<std::string> names_for(const std::string& model, const ModelAliases& names) {
  std::vector<std::string> found;
  for (const auto& [name, meant] : names) {
    if (meant == model) found.push_back(name);
  }
  return found;
}

}  // namespace

ApiError unavailable_error(std::string message, int64_t retry_after_s) {
  ApiError error = api_error(503, std::move(message));
  error.retry_after_s = retry_after_s;
  return error;
}

ApiError ShelfItem::cannot_load() const {
  return api_error(500,
                   fmt::format("the model {} cannot be loaded: {}", in_quotes(found.name), error));
}

Status ShelfItems::read(const std::string& directory, const ModelAliases& aliases,
                        const ModelAliases& adapters) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<FoundModel> found, find_models(directory));
  const auto is = [](const std::string& wanted) {
    return [&wanted](const FoundModel& model) { return model.name == wanted; };
  };
  for (const auto& [adapter, name] : adapters) {
    if (std::any_of(found.begin(), found.end(), is(adapter)) || aliases.contains(adapter))
      return invalid_argument(
          "--models-config: the adapter {} of {} has the name of a model or an alias", adapter,
          name);
    if (std::none_of(found.begin(), found.end(), is(name)))
      log_warn("--models-config: there is no model {} in {}", name, directory);
  }
  for (const auto& [alias, name] : aliases) {
    if (std::none_of(found.begin(), found.end(), is(name)))
      return invalid_argument("--model-alias: expected a model of {}, got {}", directory, name);
    if (std::any_of(found.begin(), found.end(), is(alias)))
      return invalid_argument("--model-alias: {} is the name of a model already", alias);
  }
  aliases_ = aliases;
  adapters_ = adapters;
  for (auto& [name, item] : items_) item.is_removed = true;
  for (const FoundModel& model : found) {
    ShelfItem& item = items_[model.name];
    const bool is_same = item.found.path == model.path && item.found.file_bytes == model.file_bytes;
    if (item.state == ModelState::kLoaded && !is_same) item.begin_unload();
    if (item.state == ModelState::kFailed) item.state = ModelState::kUnloaded;
    item.found = model;
    item.is_removed = false;
    item.aliases = names_for(model.name, aliases);
    item.adapters = names_for(model.name, adapters);
  }
  for (auto& [name, item] : items_) {
    if (item.is_removed && item.state == ModelState::kLoaded) item.begin_unload();
  }
  return {};
}

std::vector<ModelStatus> ShelfItems::list(const ShelfBook& book) const {
  std::vector<ModelStatus> all;
  for (const auto& [name, item] : items_) {
    ModelStatus status{.name = name,
                       .aliases = item.aliases,
                       .adapters = item.adapters,
                       .path = item.found.path,
                       .state = item.state,
                       .error = item.state == ModelState::kFailed ? item.error : std::string(),
                       .progress = item.progress,
                       .file_bytes = item.found.file_bytes,
                       .created_s = item.created_s,
                       .num_requests = std::ssize(item.waiters)};
    if (const ShelfBook::Row* const row = book.find(name)) {
      status.bytes = row->bytes;
      status.num_requests += row->num_uses;
      status.expires_us = row->expires_us();
      status.last_use_us = row->last_use_us;
    }
    if (item.state == ModelState::kLoaded) status.loaded = item.hosted;
    all.push_back(std::move(status));
  }
  return all;
}

ShelfItem* ShelfItems::find(std::string_view name) {
  auto item = items_.find(name);
  if (item != items_.end()) return &item->second;
  for (const ModelAliases* const names : {&aliases_, &adapters_}) {
    const auto meant = names->find(name);
    if (meant == names->end()) continue;
    item = items_.find(meant->second);
    return item == items_.end() ? nullptr : &item->second;
  }
  return nullptr;
}

ApiError ShelfItems::unknown(std::string_view name) const {
  constexpr size_t kEnough = 400;  // characters of names
  std::string names;
  for (const auto& [known, item] : items_) {
    names += (names.empty() ? "" : ", ") + (names.size() > kEnough ? "…" : known);
    if (names.size() > kEnough) break;
  }
  if (name.empty()) return field_error("model", fmt::format("expected one of {}, got none", names));
  std::vector<std::string> known;
  for (const auto& [model, item] : items_) known.push_back(model);
  for (const auto& [alias, model] : aliases_) known.push_back(alias);
  for (const auto& [adapter, model] : adapters_) known.push_back(adapter);
  const std::optional<std::string> meant = nearest_name(std::string(name), known);
  ApiError error =
      api_error(404, fmt::format("the model {} does not exist; {}there are {}", in_quotes(name),
                                 meant ? fmt::format("did you mean {}? ", *meant) : "", names));
  error.param = "model";
  return error;
}

size_t ShelfItems::num_waiting() const {
  size_t sum = 0;
  for (const auto& [name, item] : items_) sum += item.waiters.size();
  return sum;
}

std::optional<int64_t> ShelfItems::next_deadline_us() const {
  std::optional<int64_t> next_us;
  for (const auto& [name, item] : items_) {
    if (item.waiters.empty()) continue;
    const int64_t deadline_us = item.waiters.front().deadline_us;  // the earliest one
    next_us = std::min(next_us.value_or(deadline_us), deadline_us);
  }
  return next_us;
}

void ShelfItems::refuse_expired(int64_t now_us, ShelfCalls& calls) {
  for (auto& [name, item] : items_) {
    const ApiError error = unavailable_error(
        fmt::format("the model {} is not loaded: others are in use, and the time for its turn "
                    "(--model-load-timeout) is over",
                    in_quotes(name)),
        10);
    while (!item.waiters.empty() && item.waiters.front().deadline_us <= now_us) {
      calls.push_back(
          [on_model = std::move(item.waiters.front().on_model), error] { on_model(error); });
      item.waiters.pop_front();
    }
  }
}

void ShelfItems::refuse_waiters(ShelfItem& item, const ApiError& error, ShelfCalls& calls) {
  for (ShelfItem::Waiter& waiter : item.waiters) {
    calls.push_back([on_model = std::move(waiter.on_model), error] { on_model(error); });
  }
  item.waiters.clear();
}

}  // namespace quire::server
