// The filter tojson: json.dumps() as transformers calls it.
#include <cmath>

#include "base/strings.h"
#include "base/utf8.h"
#include "text/jinja/filters.h"
#include "text/jinja/print.h"

namespace lamina::jinja {
namespace {

struct Options {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<Text> indent;  // of one level; none: everything on one line
  Text item_separator = plain_text(", "), key_separator = plain_text(": ");
};

class Writer {
 public:
  Writer(Runtime& runtime, const Options& options) : runtime_(runtime), options_(options) {}

  Status write(const Value& value) {
    runtime_.work(1);
    switch (value.kind()) {
      case Value::Kind::kNone:
        out_.add("null");
        return {};
      case Value::Kind::kBool:
        out_.add(value.as<bool>() ? "true" : "false");
        return {};
      case Value::Kind::kInteger:
      case Value::Kind::kFloat:
        out_.add(number_text(value));
        return {};
      case Value::Kind::kText:
        write_text(*value.text());
        return {};
      case Value::Kind::kList:
        if (value.list()->type <= List::Type::kTuple || value.list()->type == List::Type::kGroup) return write_list(*value.list());
        break;
      case Value::Kind::kDict:
        return write_dict(*value.dict());
      default:
        break;
    }
    return error("a ", type_name(value), " has no JSON");
  }
  const TextBuilder& out() const { return out_; }

 private:
  static std::string number_text(const Value& value) {
    if (value.is_integral()) return integer_text(value.integer());
    const double number = value.number();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
    return float_text(number);
  }

  Status write_list(const List& list) {
    out_.add("[");
    ++depth_;
    for (size_t i = 0; i < list.items.size() && !runtime_.exhausted(); ++i) {
      begin_item(i);
      LAMINA_TRY(write(list.items[i]));
    }
    --depth_;
    if (!list.items.empty()) new_line();
    out_.add("]");
    return {};
  }

  Status write_dict(const Dict& dict) {
    LAMINA_ASSIGN(const std::vector<size_t> places, order_of(dict));
    out_.add("{");
    ++depth_;
    for (size_t i = 0; i < places.size() && !runtime_.exhausted(); ++i) {
      const Dict::Entry& entry = dict.entries[places[i]];
      begin_item(i);
      LAMINA_TRY(write_key(entry.key));
      out_.add(options_.key_separator);
      LAMINA_TRY(write(entry.value));
    }
    --depth_;
    if (!places.empty()) new_line();
    out_.add("}");
    return {};
  }

  Result<std::vector<size_t>> order_of(const Dict& dict) {
    std::vector<Value> keys;
    std::vector<size_t> places;
    for (const Dict::Entry& entry : dict.entries) {
      places.push_back(keys.size());
      keys.push_back(entry.key);
    }
    if (!options_.sort_keys) return places;
    return sorted_places(runtime_, keys, false);
  }

  /// Keys are text in JSON; Python writes numbers, bools and None as such.
  Status write_key(const Value& key) {
    if (const Text* text = key.text()) {
      write_text(*text);
      return {};
    }
    if (!key.is_none() && !key.is_number()) return error("a ", type_name(key), " cannot be a key in JSON");
    out_.add("\"");
    LAMINA_TRY(write(key));
    out_.add("\"");
    return {};
  }

  void begin_item(size_t i) {
    if (i > 0) out_.add(options_.item_separator);
    new_line();
  }

  void new_line() {
    if (!options_.indent) return;
    out_.add("\n");
    for (int i = 0; i < depth_; ++i) out_.add(*options_.indent);
    runtime_.work_bytes(static_cast<size_t>(depth_) * options_.indent->bytes.size());
  }

  void write_text(const Text& text) {
    runtime_.work_bytes(2 * text.bytes.size());
    out_.add("\"");
    size_t shown = 0;
    for (size_t next = 0; next < text.bytes.size();) {
      const size_t at = next;
      const char32_t c = next_code_point(text.bytes, next);
      if (c >= 0x20 && c != '"' && c != '\\' && (c < 0x7F || !options_.ensure_ascii)) continue;
      out_.add(text, shown, at);
      out_.add_instead(text, at, escape(c));
      shown = next;
    }
    out_.add(text, shown, text.bytes.size());
    out_.add("\"");
  }

  static std::string escape(char32_t c) {
    constexpr std::string_view kCharacters = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
    const size_t found = c < 0x80 ? kCharacters.find(static_cast<char>(c)) : kCharacters.npos;
    if (found != kCharacters.npos) return {'\\', kLetters[found]};
    if (c < 0x10000) return unit(c);
    return unit(0xD800 + ((c - 0x10000) >> 10)) + unit(0xDC00 + ((c - 0x10000) & 0x3FF));
  }

  static std::string unit(char32_t u) {
    constexpr char kHex[] = "0123456789abcdef";
    return {'\\', 'u', kHex[u >> 12 & 15], kHex[u >> 8 & 15], kHex[u >> 4 & 15], kHex[u & 15]};
  }

  Runtime& runtime_;
  const Options& options_;
  TextBuilder out_;
  int depth_ = 0;
};

Status read_indent(const Value& given, Runtime& runtime, Options& options) {
  if (given.text() != nullptr) {
    options.indent = *given.text();
  } else {
    LAMINA_ASSIGN(const int64_t width, integer_of(given));
    if (width > kMaxFormatWidth) return error("tojson indents by ", width, "; at most ", kMaxFormatWidth, " are allowed");
    options.indent = *runtime.copied(std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ')).text();
  }
  options.item_separator = plain_text(",");
  return {};
}

Status read_separators(const Value& given, Options& options) {
  const List* pair = given.list();
  if (pair == nullptr || pair->items.size() != 2) return error("the separators of tojson must be two texts");
  LAMINA_ASSIGN(const Text* item, text_of(pair->items[0]));
  LAMINA_ASSIGN(const Text* key, text_of(pair->items[1]));
  options.item_separator = *item;
  options.key_separator = *key;
  return {};
}

}  // namespace

Result<Value> filter_tojson(Runtime& runtime, const Value& self, const Bound& arguments) {
  Options options{.ensure_ascii = flag_or(arguments, 0, false), .sort_keys = flag_or(arguments, 3, false)};
  if (arguments.set(1)) LAMINA_TRY(read_indent(arguments.value(1), runtime, options));
  if (arguments.set(2)) LAMINA_TRY(read_separators(arguments.value(2), options));
  Writer writer(runtime, options);
  LAMINA_TRY(writer.write(self));
  LAMINA_TRY(runtime.room(static_cast<double>(writer.out().size())));
  return runtime.text(writer.out());
}

}  // namespace lamina::jinja
