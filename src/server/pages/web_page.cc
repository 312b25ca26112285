#include "server/pages/web_page.h"

#include <string>
#include <utility>

#include "server/http/static_files.h"
#include "server/pages/docs_page.h"

namespace quire::server {
namespace {

HttpResponse web(const HttpRequest& request, const PrepareContext&) {
  const std::string_view name =
      request.path == "/" ? "index.html"
                          : std::string_view(request.path).substr(std::string_view("/web/").size());
  for (const StaticFile& file : static_files()) {
    if (file.name != name) continue;
    return {200,
            std::string(content_type_of(name)),
            std::string(file.data),
            {{"Cache-Control", "no-cache"},
             {"X-Content-Type-Options", "nosniff"},
             {"Content-Security-Policy",
              "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"}}};
  }
  if (request.path == "/")
    return HttpResponse{200,
                        "text/html; charset=utf-8",
                        std::string(docs_page()),
                        {}};  // the program was built without the web page
  return error_response(api_error(404, "there is no such file"));
}

constexpr Door kWeb = page_door(&web);

using M = RouteMode;
using K = RouteKind;
using S = RouteSwitch;

const Route kWebRoutes[] = {
    {"/", "GET", K::kOpen, M::kInline, kWeb,
     "The web page; it asks for the key that its requests need.", S::kWebPage, RouteModel::kNone},
    {"/web/*", "GET", K::kOpen, M::kInline, kWeb, "Parts of the web page.", S::kWebPage,
     RouteModel::kNone},
};

}  // namespace

std::span<const Route> web_routes() { return kWebRoutes; }

std::string_view content_type_of(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {".html", "text/html; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".svg", "image/svg+xml"},
      {".json", "application/json"},
      {".png", "image/png"},
      {".ico", "image/x-icon"},
      {".woff2", "font/woff2"},
      {".txt", "text/plain; charset=utf-8"}};
  for (const auto& [ending, type] : kTypes) {
    if (name.size() >= ending.size() && name.substr(name.size() - ending.size()) == ending)
      return type;
  }
  return "application/octet-stream";
}

}  // namespace quire::server
