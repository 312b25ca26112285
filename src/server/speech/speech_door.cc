#include "server/speech/speech_door.h"

#include "server/speech/speech_request.h"

namespace quire::server {
namespace {

using M = RouteMode;
using K = RouteKind;

template <bool translates>
ApiResult<PreparedCall> prepare(const HttpRequest& request, const PrepareContext& context) {
  return prepare_speech(request, translates, context);
}

constexpr Door kTranscriptions{&prepare<false>, nullptr, nullptr, &error_response};
constexpr Door kTranslations{&prepare<true>, nullptr, nullptr, &error_response};

const Route kSpeechRoutes[] = {
    {"/v1/audio/transcriptions", "POST", K::kWork, M::kSpeech, kTranscriptions,
     "Write a recording down, which comes as a form."},
    {"/v1/audio/translations", "POST", K::kWork, M::kSpeech, kTranslations,
     "Write a recording down in English, which comes as a form."},
};

}  // namespace

std::span<const Route> speech_routes() { return kSpeechRoutes; }

}  // namespace quire::server
