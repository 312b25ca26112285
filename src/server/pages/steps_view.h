// GET /quire/steps returns the last engine steps with their bounds, for the roofline plot of the
// web page.
#pragma once

#include "server/openai/prepare.h"

namespace quire::server {

HttpResponse steps_view(const HttpRequest& request, const PrepareContext& context);

}  // namespace quire::server
