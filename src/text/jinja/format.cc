#include "text/jinja/format.h"

#include <algorithm>

#include "base/strings.h"
#include "base/utf8.h"
#include "text/jinja/format_spec.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace lamina::jinja {
namespace {

constexpr size_t kNone = std::string_view::npos;

/// str(value) or repr(value) as text.
Result<Value> converted(Runtime& runtime, const Value& value, char conversion) {
  TextBuilder out;
  LAMINA_TRY(conversion == 's' ? print(runtime, value, out) : print_repr(runtime, value, out));
  const bool keeps_markup = conversion == 's' && value.text() != nullptr && value.text()->markup;
  return runtime.text(out, keeps_markup);
}

/// Adds a field; of markup the fields are escaped.
Status add_field(Runtime& runtime, const FormatSpec& spec, const Value& value, bool markup, TextBuilder& out) {
  if (!markup) return add_formatted(runtime, spec, value, out);
  TextBuilder field;
  LAMINA_TRY(add_formatted(runtime, spec, value, field));
  Text text = field.finish(runtime.heap());
  text.markup = value.text() != nullptr && value.text()->markup;
  out.add(escaped(runtime.heap(), text));
  return {};
}

// ---- "%s" % x ------------------------------------------------------------------------------------------------------------------

class PercentFormat {
 public:
  PercentFormat(Runtime& runtime, const Text& format, const Value& arguments)
      : runtime_(runtime), format_(format), text_(format.bytes), arguments_(arguments) {}

  Result<Value> run() {
    size_t shown = 0;
    while ((at_ = text_.find('%', at_)) != kNone) {
      out_.add(format_, shown, at_);
      ++at_;
      LAMINA_TRY(field());
      shown = at_;
    }
    out_.add(format_, shown, text_.size());
    // What Python takes for a mapping may be left over.
    const bool list = arguments_.list() != nullptr && arguments_.list()->type != List::Type::kTuple;
    const bool mapping = list || arguments_.range() != nullptr || arguments_.is_undefined();
    if (next_ < positional().size() && !by_name_ && !mapping) return error("more values than fields in a format");
    return runtime_.text(out_, format_.markup);
  }

 private:
  /// The values that fields take in order.
  std::span<const Value> positional() const {
    const List* list = arguments_.list();
    if (list != nullptr && list->type == List::Type::kTuple) return list->items;
    if (arguments_.dict() != nullptr && next_ == 0) return {};
    return {&arguments_, 1};
  }
  Result<Value> next_value() {
    if (next_ >= positional().size()) return error("fewer values than fields in a format");
    return positional()[next_++];
  }
  Result<Value> named_value() {
    const size_t end = text_.find(')', at_);
    if (end == kNone || arguments_.dict() == nullptr) return error("a named field in a format needs ')' and a dict");
    const std::string_view name = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    by_name_ = true;
    const Value* value = find(*arguments_.dict(), name);
    return value == nullptr ? Result<Value>(error("the dict of a format has no '", name, "'")) : *value;
  }
  Result<int> size() {
    if (at_ >= text_.size() || text_[at_] != '*') return format_number(text_, at_);
    ++at_;
    LAMINA_ASSIGN(const Value given, next_value());
    LAMINA_ASSIGN(const int64_t number, integer_of(given));
    if (number < 0 || number > kMaxFormatWidth) return error("a width or precision in a format is not from 0 to ", kMaxFormatWidth);
    return static_cast<int>(number);
  }

  Status field() {
    if (at_ < text_.size() && text_[at_] == '%') {
      out_.add(format_, at_, at_ + 1);
      ++at_;
      return {};
    }
    std::optional<Value> named;
    if (at_ < text_.size() && text_[at_] == '(') {
      LAMINA_ASSIGN(named, named_value());
    }
    FormatSpec spec;
    LAMINA_TRY(options(spec));
    if (at_ >= text_.size()) return error("a format ends inside a field");
    const char type = text_[at_++];
    Value value;
    if (named) {
      value = *named;
    } else {
      LAMINA_ASSIGN(value, next_value());
    }
    return add(spec, type, value);
  }

  Status options(FormatSpec& spec) {
    constexpr std::string_view kFlags = "-+ #0";
    bool left = false, zero = false;
    for (; at_ < text_.size() && kFlags.find(text_[at_]) != kNone; ++at_) {
      left |= text_[at_] == '-';
      zero |= text_[at_] == '0';
      spec.alternate |= text_[at_] == '#';
      if (text_[at_] == '+' || (text_[at_] == ' ' && spec.sign != '+')) spec.sign = text_[at_];
    }
    spec.align = left ? '<' : zero ? '=' : '>';
    if (zero && !left) spec.fill = "0";
    LAMINA_ASSIGN(const int width, size());
    spec.width = std::max(width, 0);
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      LAMINA_ASSIGN(const int precision, size());
      spec.precision = std::max(precision, 0);
    }
    while (at_ < text_.size() && (text_[at_] == 'l' || text_[at_] == 'h' || text_[at_] == 'L')) ++at_;
    return {};
  }

  Status add(FormatSpec spec, char type, const Value& value) {
    if (type == 's' || type == 'r' || type == 'a') {
      if (spec.align == '=') spec.align = '>', spec.fill = " ";
      LAMINA_ASSIGN(const Value text, converted(runtime_, value, type));
      return add_field(runtime_, spec, text, format_.markup, out_);
    }
    if (!value.is_number()) return error("the format type '", type, "' needs a number, not a ", type_name(value));
    spec.type = type == 'i' || type == 'u' ? 'd' : type;
    const bool whole = spec.type == 'd' && value.kind() == Value::Kind::kFloat && std::abs(value.number()) < 1e36;
    return add_field(runtime_, spec, whole ? Value(static_cast<Integer>(value.number())) : value, false, out_);
  }

  Runtime& runtime_;
  const Text& format_;
  const std::string_view text_;
  const Value& arguments_;
  TextBuilder out_;
  size_t at_ = 0;
  size_t next_ = 0;  // of the values in order
  bool by_name_ = false;
};

// ---- "{}".format(x) ------------------------------------------------------------------------------------------------------------

class BraceFormat {
 public:
  BraceFormat(Runtime& runtime, const Text& format, const Arguments& arguments)
      : runtime_(runtime), format_(format), text_(format.bytes), arguments_(arguments) {}

  Result<Value> run() {
    size_t shown = 0;
    for (size_t at = 0; (at = text_.find_first_of("{}", at)) != kNone;) {
      if (at + 1 < text_.size() && text_[at + 1] == text_[at]) {  // {{ or }}: one brace
        out_.add(format_, shown, at + 1);
        shown = at += 2;
        continue;
      }
      if (text_[at] == '}') return error("a single '}' in a format");
      const size_t end = text_.find_first_of("{}", at + 1);
      if (end == kNone || text_[end] == '{') return error("fields inside fields of a format, or a '}' too few");
      out_.add(format_, shown, at);
      LAMINA_TRY(field(text_.substr(at + 1, end - at - 1)));
      shown = at = end + 1;
    }
    out_.add(format_, shown, text_.size());
    return runtime_.text(out_, format_.markup);
  }

 private:
  /// "name.attribute[key]!conversion:spec".
  Status field(std::string_view text) {
    const size_t colon = std::min(text.find(':'), text.size());
    std::string_view path = text.substr(0, colon);
    const std::string_view spec_text = colon < text.size() ? text.substr(colon + 1) : std::string_view();
    char conversion = '\0';
    if (const size_t mark = path.find('!'); mark != kNone) {
      if (mark + 2 != path.size() || (path[mark + 1] != 's' && path[mark + 1] != 'r'))
        return error("a field of a format has a wrong conversion");
      conversion = path[mark + 1];
      path = path.substr(0, mark);
    }
    LAMINA_ASSIGN(const FormatSpec spec, parse_format_spec(spec_text));
    LAMINA_ASSIGN(Value value, value_at(path));
    if (conversion != '\0' || spec_text.empty()) {
      LAMINA_ASSIGN(value, converted(runtime_, value, conversion == '\0' ? 's' : conversion));
    }
    return add_field(runtime_, spec, value, format_.markup, out_);
  }

  Result<Value> value_at(std::string_view path) {
    size_t at = std::min(path.find_first_of(".["), path.size());
    LAMINA_ASSIGN(Value value, argument(path.substr(0, at)));
    while (at < path.size()) {
      const bool bracket = path[at] == '[';
      const size_t end = bracket ? path.find(']', at) : std::min(path.find_first_of(".[", at + 1), path.size());
      if (end == kNone || end == at + 1) return error("a field of a format has an empty or open part");
      const std::string_view part = path.substr(at + 1, end - at - 1);
      LAMINA_ASSIGN(value, bracket ? item(runtime_, value, key(part)) : attribute(runtime_, value, part));
      at = bracket ? end + 1 : end;
    }
    return value;
  }

  /// Digits are an index, all else a name.
  Value key(std::string_view part) {
    size_t at = 0;
    const Result<int> number = format_number(part, at);
    return number.ok() && at == part.size() ? Value(Integer{*number}) : runtime_.text(part);
  }

  Result<Value> argument(std::string_view name) {
    size_t at = 0;
    LAMINA_ASSIGN(const int given, format_number(name, at));
    if (name.empty() || (given >= 0 && at == name.size())) {
      const size_t index = name.empty() ? next_++ : static_cast<size_t>(given);
      if (index >= arguments_.positional.size()) return error("fewer values than fields in a format");
      return arguments_.positional[index];
    }
    const auto named = std::ranges::find(arguments_.named, name, &NamedArgument::name);
    if (named == arguments_.named.end()) return error("a format has no value for '", name, "'");
    return named->value;
  }

  Runtime& runtime_;
  const Text& format_;
  const std::string_view text_;
  const Arguments& arguments_;
  TextBuilder out_;
  size_t next_ = 0;
};

}  // namespace

Result<Value> percent_format(Runtime& runtime, const Text& format, const Value& arguments) {
  return PercentFormat(runtime, format, arguments).run();
}

Result<Value> brace_format(Runtime& runtime, const Text& format, const Arguments& arguments) {
  return BraceFormat(runtime, format, arguments).run();
}

}  // namespace lamina::jinja
