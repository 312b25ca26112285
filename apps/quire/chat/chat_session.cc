#include "quire/chat/chat_session.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/nearest_name.h"
#include "base/text_fields.h"
#include "chat/reply/reasoning_splitter.h"
#include "facade/chat/conversation_file.h"
#include "facade/running_llm.h"
#include "media/decode/image.h"
#include "quire/commands.h"
#include "quire/lora_flags.h"
#include "quire/terminal.h"

namespace quire::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Returns an empty text when the hardware's limit is not known.
std::string share_of_limit(uint64_t bound_us, uint64_t step_us) {
  if (bound_us == 0 || step_us == 0) return {};
  return fmt::format(", {:.0f} % of the machine's limit",
                     100 * static_cast<double>(bound_us) / static_cast<double>(step_us));
}

std::string turns_text(size_t num_turns) {
  return num_turns == 1 ? "1 turn" : fmt::format("{} turns", num_turns);
}

}  // namespace

const char* ChatSession::help() {
  return "/reset (or /clear) forgets the conversation, /system TEXT sets the system message\n/save "
         "FILE and /load FILE keep a conversation, /model MODEL switches the model\n/image FILE "
         "shows a picture with the next question, if the model reads images\n/stats shows tokens "
         "and speed, /exit leaves; Ctrl-C stops an answer, Ctrl-D leaves\n";
}

Result<std::unique_ptr<ChatSession>> ChatSession::open(EngineArgs args,
                                                       const SamplingFlags& sampling,
                                                       std::string system, bool is_interactive) {
  auto session =
      std::make_unique<ChatSession>(std::move(args), sampling, std::move(system), is_interactive);
  QUIRE_RETURN_IF_ERROR(session->load());
  return session;
}

Status ChatSession::load() {
  QUIRE_ASSIGN_OR_RETURN(llm_, load_llm(args_));
  params_ = sampling_.apply(llm_->default_params());
  const int32_t max_model_len = llm_->info().max_model_len;
  // A quarter of the context is left for the answer, so that a long conversation can still be
  // answered in full.
  room_ = {.max_model_len = max_model_len,
           .answer_tokens = std::max(1, std::min(params_.max_tokens, max_model_len / 4))};
  return {};
}

Result<RequestOutput> ChatSession::stream(const std::vector<ChatMessage>& messages) {
  const auto quiet = is_interactive_ ? std::make_unique<QuietTerminal>() : nullptr;
  const bool dims = isatty(STDOUT_FILENO) != 0;
  ReasoningSplitter splitter(dims ? find_reasoning_style(llm_->info().reasoning_style) : nullptr);
  const auto write = [](const std::vector<ReasoningSplitter::Piece>& pieces) {
    for (const auto& [text, is_reasoning] : pieces) {
      const std::string shown = is_reasoning ? fmt::format("\x1b[2m{}\x1b[22m", text) : text;
      std::fwrite(shown.data(), 1, shown.size(), stdout);
    }
    std::fflush(stdout);
  };
  const auto print = [&](std::string_view piece) {
    write(splitter.add(piece));
    return !interrupted();
  };
  Result<RequestOutput> output =
      llm_->stream_chat(messages, params_, print, /*rule=*/{}, only_adapter(*llm_));
  write(splitter.finish());
  write({{"\n", false}});
  take_interrupt();
  return output;
}

void ChatSession::say_how_it_ended(const RequestOutput& output) const {
  const ChoiceOutput& choice = output.choices[0];
  const auto answer_tokens = static_cast<int64_t>(choice.token_ids.size());
  const int64_t num_tokens = static_cast<int64_t>(output.prompt_token_ids.size()) + answer_tokens;
  if (choice.finish_reason == "abort") note("stopped");
  if (choice.finish_reason == "length" && num_tokens >= room_.max_model_len) {
    note("the answer was cut: the context of {} tokens (--max-model-len) is full",
         room_.max_model_len);
  } else if (choice.finish_reason == "length") {
    note("the answer was cut after {} tokens, the limit of one answer (--max-tokens)",
         answer_tokens);
  }
  if (is_interactive_) {
    note("context: {} of {} tokens, {} %", num_tokens, room_.max_model_len,
         100 * num_tokens / room_.max_model_len);
  }
}

void ChatSession::say_how_fast(const RequestOutput& output, const LLMStats& before,
                               double seconds) const {
  if (!is_interactive_) return;
  const LLMStats now = llm_->stats();
  const auto num_tokens = static_cast<double>(output.choices[0].token_ids.size());
  note("{} tokens in {:.1f} s, {:.0f} per second{}", num_tokens, seconds,
       num_tokens / std::max(seconds, 1e-6),
       share_of_limit(now.step_bound_us - before.step_bound_us, now.step_us - before.step_us));
}

Status ChatSession::answer(const std::string& question) {
  const auto count_tokens = [this](const std::vector<ChatMessage>& messages) -> Result<int64_t> {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, llm_->encode_chat(messages));
    return static_cast<int64_t>(ids.size());
  };
  QUIRE_ASSIGN_OR_RETURN(const ChatPrompt prompt, history_.ask(question, room_, count_tokens));
  if (prompt.num_dropped_turns > 0) {
    note("the conversation no longer fits the context of {} tokens; its oldest {} dropped",
         room_.max_model_len,
         prompt.num_dropped_turns == 1 ? "turn was"
                                       : fmt::format("{} turns were", prompt.num_dropped_turns));
  }
  const LLMStats before = llm_->stats();
  const Clock::time_point begin = Clock::now();
  QUIRE_ASSIGN_OR_RETURN(const RequestOutput output, stream(prompt.messages));
  const double seconds = seconds_since(begin);
  const std::string& text = output.choices[0].text;
  if (!text.empty()) history_.add(question, text);
  ++num_answers_;
  answer_s_ += seconds;
  say_how_fast(output, before, seconds);
  say_how_it_ended(output);
  return {};
}

void ChatSession::say_stats() const {
  const LLMStats stats = llm_->stats();
  const double share = stats.prefix_cache_queries == 0
                           ? 0
                           : 100 * static_cast<double>(stats.prefix_cache_hits) /
                                 static_cast<double>(stats.prefix_cache_queries);
  note("{}: {} answers in {:.1f} s, {} in the conversation", llm_->info().name, num_answers_,
       answer_s_, turns_text(history_.num_turns()));
  note("{} prompt tokens, {:.0f} % of them from the cache; {} tokens generated{}",
       stats.prompt_tokens, share, stats.generation_tokens,
       share_of_limit(stats.step_bound_us, stats.step_us));
}

Status ChatSession::save(const std::string& path) const {
  std::ofstream file(path, std::ios::binary);
  file << conversation_text(history_.messages()) << std::flush;
  if (!file) return unavailable("{}: cannot be written", path);
  note("saved {} to {}", turns_text(history_.num_turns()), path);
  return {};
}

Status ChatSession::load_conversation(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return not_found("{}: cannot be read", path);
  Result<std::vector<ChatMessage>> messages = parse_conversation(text.view());
  if (!messages.ok()) return messages.status().with_context(path);
  history_.restore(std::move(messages).value());
  note("loaded {} from {}", turns_text(history_.num_turns()), path);
  return {};
}

// Checks the file at once, so that a file that is no image is refused here and not with the next
// question.
Status ChatSession::attach_image(const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(std::string bytes, read_text(path, ImageLimits().max_bytes));
  const ChatMessage alone{"user", {}, {bytes}};
  const Result<std::vector<TokenId>> tokens = llm_->encode_chat({alone});
  if (!tokens.ok()) return tokens.status().with_context(path);
  history_.attach_image(std::move(bytes));
  note("{} goes with the next question", path);
  return {};
}

// Both models together may not fit into memory, so the old one is released first, and loaded again
// when the new one cannot be loaded.
Status ChatSession::change_model(const std::string& path) {
  const std::string before = std::exchange(args_.model, path);
  llm_.reset();
  const Status status = load();
  if (!status.ok()) {
    args_.model = before;
    QUIRE_RETURN_IF_ERROR(load());
    return status;
  }
  note("the model is now {}, with a context of {} tokens", llm_->info().name, room_.max_model_len);
  return {};
}

void ChatSession::run_command(const std::string& name, const std::string& argument) {
  if (name == "/reset" || name == "/clear") return history_.forget_turns();
  if (name == "/system") return history_.set_system(argument);
  if (name == "/stats") return say_stats();
  if (argument.empty())
    return note("{}: expected {}, got none", name,
                name == "/model" ? "a model" : "the name of a file");
  report(name == "/save"    ? save(argument)
         : name == "/load"  ? load_conversation(argument)
         : name == "/image" ? attach_image(argument)
                            : change_model(argument));
}

void ChatSession::handle_command(const std::string& command) {
  const std::vector<std::string> commands{"/reset", "/clear", "/system", "/save", "/load", "/image",
                                          "/model", "/stats", "/exit",   "/quit", "/help"};
  const size_t space = std::min(command.find(' '), command.size());
  const std::string name = command.substr(0, space);
  const size_t begin = std::min(command.find_first_not_of(' ', space), command.size());
  const bool is_known = std::find(commands.begin(), commands.end(), name) != commands.end();
  if (is_known && name != "/help") return run_command(name, command.substr(begin));
  const auto meant = nearest_name(name, commands);
  if (!is_known && meant) note("{}: no such command; did you mean {}?", name, *meant);
  fmt::print(stderr, "{}", help());
}

bool ChatSession::handle(const std::string& message) {
  if (message == "/exit" || message == "/quit") return false;
  if (message.find_first_not_of(" \t\r\n") == message.npos) return true;
  if (message.starts_with("/") && message.find('\n') == message.npos) {
    handle_command(message);
    return llm_ != nullptr;  // neither the new model nor the old one could be loaded
  }
  const Status status = answer(message);
  report(status);
  if (failure_.ok()) failure_ = status;
  return true;
}

}  // namespace quire::cli
