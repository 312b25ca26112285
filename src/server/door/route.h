// A route is a path, who may call it, and the door that answers. Each room of the server lists its
// own; routes/route_table.h puts them together.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/door/door.h"

namespace quire::server {

enum class RouteKind : uint8_t {
  kOpen,  // needs no key
  kGuarded,
  kWork,  // guarded, and refused while draining or when the engine is dead
};

// How a route is answered: by its door's answer() at once on the strand, on a worker when the body
// is large, or always on a worker, because it waits for the engine; by a stream of the engine, which
// kSpeech prepares on a worker, whatever the body's size; or by its door's serve().
enum class RouteMode : uint8_t { kInline, kBySize, kWorker, kGeneration, kSpeech, kPooling, kDoor };

// What must be switched on for a route to be there.
enum class RouteSwitch : uint8_t {
  kNone,
  kDevEndpoints,
  kTokenizerInfo,
  kLoraDir,
  kFilesDir,
  kModelsDir,
  kWebPage
};

// Which model a route is about.
enum class RouteModel : uint8_t {
  kRequested,  // the model that the request names, or the default one
  kNone,  // it is about the server: its context has no engine where there is a folder of models
};

struct Route {
  std::string_view path;     // a trailing * takes any rest
  std::string_view methods;  // "GET", "GET POST"; HEAD comes with GET
  RouteKind kind;
  RouteMode mode;
  const Door& door;
  std::string_view summary;
  RouteSwitch needs = RouteSwitch::kNone;
  RouteModel model = RouteModel::kRequested;

  bool matches(std::string_view asked) const;
  bool has_method(std::string_view method) const;
  // Returns the value of the Allow header.
  std::string allow() const;
};

}  // namespace quire::server
