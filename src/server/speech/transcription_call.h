// A TranscriptionCall transcribes one recording. It asks the engine one query of its Transcriber
// after the other, and answers with the transcript, at once or window by window. It lives on its
// connection's strand; the engine only rings its bell.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/async_engine.h"
#include "server/generation/generation_call.h"
#include "server/http/api_error.h"
#include "server/http/http_types.h"
#include "server/speech/speech_request.h"

namespace quire::server {

class TranscriptionCall final : public OngoingCall,
                                public std::enable_shared_from_this<TranscriptionCall> {
 public:
  // Answers on `reply`. It must be called on the strand. The engine must outlive the call.
  static void run(std::shared_ptr<ReplyChannel> reply, std::shared_ptr<PreparedSpeech> prepared,
                  AsyncEngine& engine, GenerationCall::Options options);

  TranscriptionCall(std::shared_ptr<ReplyChannel> reply, std::shared_ptr<PreparedSpeech> prepared,
                    AsyncEngine& engine, GenerationCall::Options options);
  void on_writable() override { pump(); }
  void on_disconnect() override { end(); }

 private:
  ApiCheck ask(SpeechQuery query);
  void ask_next();
  void pump();
  bool pop_one();
  void begin_stream();
  void send_new_text();
  void finish();
  void fail(ApiError error);
  void end();

  std::shared_ptr<ReplyChannel> reply_;
  std::shared_ptr<PreparedSpeech> prepared_;  // null when the call has ended
  AsyncEngine& engine_;
  GenerationCall::Options options_;
  std::unique_ptr<OutputStream> stream_;  // of the running query
  SpeechAnswer answer_;                   // so far
  size_t num_sent_segments_ = 0;
  bool began_ = false;  // the head of a stream has been sent
  bool ended_ = false;
};

}  // namespace quire::server
