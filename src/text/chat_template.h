#pragma once
// Chat templates: from messages to the text a model was trained on, as transformers' apply_chat_template makes it, with the origin of each
// piece, so that what a user wrote never becomes a control token.

#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace lamina {

namespace jinja {
struct Template;
}

/// A piece of a rendered prompt.
struct TemplateSpan {
  std::string text;
  bool from_user = false;  // it came from messages, tools, documents or extra

  friend bool operator==(const TemplateSpan&, const TemplateSpan&) = default;
};

/// "bos_token" and its kin with their texts, as templates see them.
using SpecialTokens = std::vector<std::pair<std::string, std::string>>;

/// One compiled template. A cheap value; const members may be called by several threads at once.
///
/// Jinja 3.1 in the environment that transformers sets up (trim_blocks, lstrip_blocks, loop controls, the generation tag, tojson,
/// strftime_now, raise_exception, immutable sandbox). Not supported, and refused when compiled: other files (include, import, extends) and
/// autoescape. Steps, memory and nesting of a render are bounded (text/jinja/limits.h).
class ChatTemplate {
 public:
  struct Inputs {
    const Json& messages;
    const Json* tools = nullptr;      // absent: None
    const Json* documents = nullptr;  // absent: None
    bool add_generation_prompt = true;
    const Json* extra = nullptr;  // an object: further variables; they win over all others
    std::span<const std::pair<std::string, std::string>> special_tokens = {};
    std::tm now = {};  // what strftime_now tells
  };

  /// `source` is the template, `what` names it in errors, which give line and column.
  static Result<ChatTemplate> compile(std::string_view source, std::string_view what);

  /// The prompt in pieces; joined they are what Jinja2 renders. The message of raise_exception is the error as it is; other errors name the
  /// template and the line, or the limit that is exceeded. Roles of a known name count as the template's own text, because templates build
  /// control tokens of them.
  Result<std::vector<TemplateSpan>> render(const Inputs& inputs) const;

 private:
  explicit ChatTemplate(std::shared_ptr<const jinja::Template> parsed) : parsed_(std::move(parsed)) {}

  std::shared_ptr<const jinja::Template> parsed_;  // shared by the copies
};

/// The templates of one checkpoint and the special tokens they print.
class ChatTemplates {
 public:
  /// Reads `folder`: chat_template.jinja, else "chat_template" of tokenizer_config.json (a template, or a list of named ones); special
  /// tokens from tokenizer_config.json, given as text or as an object with "content". With `template_file` the one template is that file.
  /// A folder without templates gives none; one that does not compile is an error that names its file.
  static Result<ChatTemplates> load(const std::string& folder, const std::string& template_file = {});

  bool empty() const { return templates_.empty(); }
  /// The template for a request: "tool_use" when there are tools and it exists, else "default", else the only one. Fails, with the names
  /// there are, when none fits.
  Result<const ChatTemplate*> choose(bool with_tools) const;
  const SpecialTokens& special_tokens() const { return special_tokens_; }

 private:
  std::vector<std::pair<std::string, ChatTemplate>> templates_;  // by name; a single one is "default"
  SpecialTokens special_tokens_;
};

/// The ids of the joined text, special tokens matched only where no byte of them came from a user. No tokens are added: the template writes
/// its own BOS.
Result<std::vector<TokenId>> encode_spans(const Tokenizer& tokenizer, std::span<const TemplateSpan> spans);

/// The spans' texts in a row.
std::string joined_text(std::span<const TemplateSpan> spans);

/// The local time.
std::tm local_time();
/// "2025-07-04T09:08:07".
Result<std::tm> parse_time(std::string_view text);

}  // namespace lamina
