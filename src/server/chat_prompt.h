#pragma once
// From the messages of a chat to a prompt.

#include <string_view>

#include "base/json.h"
#include "server/generation.h"

namespace lamina::server {

struct ChatInput {
  Json messages = Json::array();
  Json variables = Json::object();  // what the template gets besides
  bool add_generation_prompt = true;
};

/// Checks the messages: known roles, contents of text. Text parts are joined by line breaks, because most templates take one string.
Fault read_messages(const Json& value, std::string_view name, Json& out);
/// Adds the members of an object to `variables`.
Fault read_template_variables(const Json& value, std::string_view name, Json& variables);
/// Adds one variable of this name.
Fault read_template_variable(const Json& value, std::string_view name, Json& variables);

/// Renders the checkpoint's template and encodes it; what users wrote never becomes a control token.
Fault render_chat(const ServerContext& context, const ChatInput& input, Prompt& out);

}  // namespace lamina::server
