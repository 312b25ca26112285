#include "chat/mistral_template.h"

#include <fmt/format.h>

#include <charconv>

namespace quire {
namespace {

constexpr int kOldestVersion = 3;

// `version` is set in front of this text. The versions differ as follows:
//   v3   the system prompt is put before the last text of the user; calls are a JSON list
//   v7   system prompts are messages of their own; results of tools name their call
//   v11  each call is written separately: name, id, arguments
//   v13  tools are listed at the first message of the user; calls have no ids
//   v15  settings follow the tools
constexpr std::string_view kSource = R"jinja(
{%- macro text_of(content) -%}
  {%- if content is string -%}
    {{- content -}}
  {%- elif content -%}
    {%- for part in content -%}
      {%- if part.type == 'text' -%}
        {{- part.text -}}
      {%- elif part.type == 'thinking' -%}
        {{- '[THINK]' + text_of(part.thinking) + '[/THINK]' -}}
      {%- else -%}
        {{- '[IMG]' -}}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
{%- endmacro -%}
{%- macro json_of(value) -%}
  {{- value if value is string else value | tojson -}}
{%- endmacro -%}

{%- set found = namespace(system='', first_user=none, last_user=none, chat=[]) -%}
{%- for message in messages -%}
  {%- if message.role == 'system' and version < 7 -%}
    {%- set found.system = found.system + text_of(message.content) + '\n\n' -%}
  {%- else -%}
    {%- set found.chat = found.chat + [message] -%}
  {%- endif -%}
{%- endfor -%}
{%- for message in found.chat -%}
  {%- if message.role == 'user' and (loop.first or loop.previtem.role != 'user') -%}
    {%- set found.last_user = loop.index -%}
    {%- if found.first_user is none -%}
      {%- set found.first_user = loop.index -%}
    {%- endif -%}
  {%- endif -%}
{%- endfor -%}
{%- set tools_at = found.last_user if version < 13 else found.first_user -%}

{{- bos_token -}}
{%- for message in found.chat -%}
  {%- set begins = loop.first or loop.previtem.role != message.role -%}
  {%- set ends = loop.last or loop.nextitem.role != message.role -%}
  {%- if message.role == 'system' -%}
    {{- '[SYSTEM_PROMPT]' + text_of(message.content) + '[/SYSTEM_PROMPT]' -}}
  {%- elif message.role == 'user' -%}
    {%- if loop.index == tools_at -%}
      {%- if tools -%}
        {{- '[AVAILABLE_TOOLS]' + (tools | tojson) + '[/AVAILABLE_TOOLS]' -}}
      {%- endif -%}
      {%- if version >= 15 -%}
        {{- '[MODEL_SETTINGS]' + ({'reasoning_effort': reasoning_effort or 'none'} | tojson) -}}
        {{- '[/MODEL_SETTINGS]' -}}
      {%- endif -%}
    {%- endif -%}
    {{- '[INST]' if begins else '\n\n' -}}
    {%- if loop.index == found.last_user -%}
      {{- found.system -}}
    {%- endif -%}
    {{- text_of(message.content) -}}
    {%- if ends -%}
      {{- '[/INST]' -}}
    {%- endif -%}
  {%- elif message.role == 'assistant' -%}
    {%- if not begins and message.content -%}
      {{- '\n\n' -}}
    {%- endif -%}
    {%- if message.reasoning_content and version >= 11 -%}
      {{- '[THINK]' + message.reasoning_content + '[/THINK]' -}}
    {%- endif -%}
    {{- text_of(message.content) -}}
    {%- if message.tool_calls and version < 11 -%}
      {{- '[TOOL_CALLS][' -}}
      {%- for call in message.tool_calls -%}
        {{- '{"name": ' + (call.function.name | tojson) + ', "arguments": ' -}}
        {{- json_of(call.function.arguments) -}}
        {%- if call.id -%}
          {{- ', "id": ' + (call.id | tojson) -}}
        {%- endif -%}
        {{- '}' if loop.last else '}, ' -}}
      {%- endfor -%}
      {{- ']' -}}
    {%- elif message.tool_calls -%}
      {%- for call in message.tool_calls -%}
        {{- '[TOOL_CALLS]' + call.function.name -}}
        {%- if call.id and version < 13 -%}
          {{- '[CALL_ID]' + call.id -}}
        {%- endif -%}
        {{- '[ARGS]' + json_of(call.function.arguments) -}}
      {%- endfor -%}
    {%- endif -%}
    {%- if ends -%}
      {{- eos_token -}}
    {%- endif -%}
  {%- elif message.role == 'tool' -%}
    {%- set content = text_of(message.content) -%}
    {%- if version < 7 -%}
      {%- if content | int | string == content -%}
        {%- set content = content | int -%}
      {%- endif -%}
      {{- '[TOOL_RESULTS]' + ({'content': content, 'call_id': message.tool_call_id} | tojson) -}}
    {%- elif version < 13 -%}
      {{- '[TOOL_RESULTS]' + message.tool_call_id + '[TOOL_CONTENT]' + content -}}
    {%- else -%}
      {{- '[TOOL_RESULTS]' + content -}}
    {%- endif -%}
    {{- '[/TOOL_RESULTS]' -}}
  {%- else -%}
    {{- raise_exception('expected the role system, user, assistant or tool, got ' + message.role) -}}
  {%- endif -%}
{%- endfor -%}
)jinja";

}  // namespace

std::optional<std::string> mistral_chat_template(std::string_view version) {
  int number = 0;
  const char* const end = version.data() + version.size();
  if (!version.starts_with('v')) return std::nullopt;
  const auto parsed = std::from_chars(version.data() + 1, end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number < kOldestVersion) return std::nullopt;
  return fmt::format("{{%- set version = {} -%}}{}", number, kSource);
}

}  // namespace quire
