#include "engine/adapters/adapter_registry.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace quire {
namespace {

template <typename List>
auto find_name(List& list, std::string_view name) {
  return std::find_if(list.begin(), list.end(), [name](const LoadedAdapterInfo& loaded) {
    return loaded.source.name == name;
  });
}

}  // namespace

Status check_adapter_name(std::string_view name) {
  constexpr size_t kMaxBytes = 256;
  const auto is_bad = [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == ',';
  };
  const std::string expected = fmt::format(
      "adapter name: expected 1 to {} bytes of UTF-8 without commas and control characters",
      kMaxBytes);
  if (name.empty() || name.size() > kMaxBytes) {
    return invalid_argument("{}, got {} bytes", expected, name.size());
  }
  if (!is_valid_utf8(name)) return invalid_argument("{}, got other bytes", expected);
  if (std::none_of(name.begin(), name.end(), is_bad)) return {};
  std::string shown(name);
  std::replace_if(
      shown.begin(), shown.end(), [&](char c) { return c != ',' && is_bad(c); }, '?');
  return invalid_argument("{}, got '{}'", expected, shown);
}

Status AdapterRegistry::load(const NamedAdapter& source, IfLoaded if_loaded) {
  QUIRE_RETURN_IF_ERROR(check_adapter_name(source.name));
  std::shared_ptr<const Adapter> last;  // destroyed without the lock, as its memory may be freed
  const std::lock_guard one_at_a_time(loading_);
  QUIRE_RETURN_IF_ERROR(check_room(source, if_loaded));
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<const Adapter> adapter, load_(source.name, source.path));
  const std::lock_guard lock(mutex_);
  const auto found = find_name(loaded_, source.name);
  if (found == loaded_.end()) {
    loaded_.push_back({source, std::move(adapter)});
  } else {
    last = std::exchange(found->adapter, std::move(adapter));
    found->source = source;
  }
  return {};
}

Status AdapterRegistry::check_room(const NamedAdapter& source, IfLoaded if_loaded) const {
  const std::lock_guard lock(mutex_);
  const bool is_loaded = find_name(loaded_, source.name) != loaded_.end();
  if (is_loaded && if_loaded == IfLoaded::kRefuse)
    return invalid_argument("the adapter '{}' is loaded already", source.name);
  if (is_loaded || std::ssize(loaded_) < max_loaded_) return {};
  return resource_exhausted(
      "the adapter '{}': {} are loaded, as many as there may be (--max-cpu-loras); unload one "
      "first",
      source.name, max_loaded_);
}

Status AdapterRegistry::unload(std::string_view name) {
  std::shared_ptr<const Adapter> last;  // destroyed without the lock, as its memory may be freed
  const std::lock_guard one_at_a_time(loading_);
  const std::lock_guard lock(mutex_);
  const auto found = find_name(loaded_, name);
  if (found == loaded_.end()) return not_found("there is no adapter '{}'", name);
  last = std::move(found->adapter);
  loaded_.erase(found);
  return {};
}

std::shared_ptr<const Adapter> AdapterRegistry::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = find_name(loaded_, name);
  return found == loaded_.end() ? nullptr : found->adapter;
}

std::vector<NamedAdapter> AdapterRegistry::tasks() const {
  std::vector<NamedAdapter> tasks;
  for (LoadedAdapterInfo& loaded : list()) {
    if (loaded.source.instruction) tasks.push_back(std::move(loaded.source));
  }
  return tasks;
}

std::vector<LoadedAdapterInfo> AdapterRegistry::list() const {
  const std::lock_guard lock(mutex_);
  return loaded_;
}

int32_t AdapterRegistry::num_loaded() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int32_t>(loaded_.size());
}

}  // namespace quire
