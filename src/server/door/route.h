// A Route is a path, who may call it, and the door that answers. Each API and each group of pages
// lists its own routes; routes/route_table.h collects them.
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

// RouteMode says how a route is answered. kInline, kBySize and kWorker call its door's answer(): on
// the strand, on a worker when the body is large, or always on a worker because it waits for the
// engine. kGeneration, kPooling and kSpeech answer from streams of the engine; kSpeech is always
// prepared on a worker, whatever the size of its body. kDoor calls its door's serve().
enum class RouteMode : uint8_t { kInline, kBySize, kWorker, kGeneration, kSpeech, kPooling, kDoor };

// The option that must be set for a route to exist.
enum class RouteSwitch : uint8_t {
  kNone,
  kDevEndpoints,
  kTokenizerInfo,
  kLoraDir,
  kFilesDir,
  kModelsDir,
  kWebPage
};

// Which model a route uses.
enum class RouteModel : uint8_t {
  kRequested,  // the model that the request names, or the default one
  // The route is about the server; its context has no engine when there is a folder of models.
  kNone,
};

struct Route {
  std::string_view path;     // a trailing * matches any rest
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
