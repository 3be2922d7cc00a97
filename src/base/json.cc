#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "base/utf8.h"

namespace lamina {

Json::Json(size_t v) {
  if (v <= static_cast<size_t>(INT64_MAX))
    value_ = static_cast<int64_t>(v);
  else
    value_ = Number{static_cast<double>(v), v};
}

const char* Json::kind_name() const {
  constexpr const char* kNames[] = {"null", "a boolean", "an integer", "a number", "a string", "an array", "an object"};
  return kNames[value_.index()];
}

bool Json::as_bool() const {
  LAMINA_CHECK(is_bool(), "JSON value is no boolean");
  return std::get<bool>(value_);
}

int64_t Json::as_integer() const {
  LAMINA_CHECK(is_integer(), "JSON value is no integer");
  return std::get<int64_t>(value_);
}

double Json::as_double() const {
  LAMINA_CHECK(is_number(), "JSON value is no number");
  return is_integer() ? static_cast<double>(std::get<int64_t>(value_)) : std::get<Number>(value_).value;
}

uint64_t Json::wide_integer() const {
  const Number* number = std::get_if<Number>(&value_);
  return number == nullptr ? 0 : number->exact;
}

const std::string& Json::as_string() const {
  LAMINA_CHECK(is_string(), "JSON value is no string");
  return std::get<std::string>(value_);
}

const Json::Array& Json::as_array() const {
  LAMINA_CHECK(is_array(), "JSON value is no array");
  return std::get<Array>(value_);
}

Json::Array& Json::as_array() {
  LAMINA_CHECK(is_array(), "JSON value is no array");
  return std::get<Array>(value_);
}

const Json::Object& Json::as_object() const {
  LAMINA_CHECK(is_object(), "JSON value is no object");
  return std::get<Object>(value_);
}

Json::Object& Json::as_object() {
  LAMINA_CHECK(is_object(), "JSON value is no object");
  return std::get<Object>(value_);
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const auto& [name, value] : std::get<Object>(value_)) {
    if (name == key) return &value;
  }
  return nullptr;
}

void Json::set(std::string_view key, Json value) {
  if (is_null()) value_ = Object{};
  for (auto& [name, old] : as_object()) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  as_object().emplace_back(key, std::move(value));
}

void Json::push(Json value) {
  if (is_null()) value_ = Array{};
  as_array().push_back(std::move(value));
}

namespace {

void write_string(std::string& out, std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (c == '"' || c == '\\') {
      out += '\\', out += c;
    } else if (byte >= 0x20) {
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      out += "\\u00", out += kHex[byte >> 4], out += kHex[byte & 15];
    }
  }
  out += '"';
}

void write_double(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char text[32];
  const std::string_view digits(text, static_cast<size_t>(std::to_chars(text, text + sizeof text, value).ptr - text));
  out += digits;
  if (digits.find_first_of(".e") == digits.npos) out += ".0";
}

class Writer {
 public:
  Writer(std::string& out, int indent) : out_(out), indent_(indent) {}

  void write(const Json& value) {
    switch (value.kind()) {
      case Json::Kind::kNull:
        out_ += "null";
        break;
      case Json::Kind::kBool:
        out_ += value.as_bool() ? "true" : "false";
        break;
      case Json::Kind::kInteger:
        out_ += cat(value.as_integer());
        break;
      case Json::Kind::kDouble:
        if (value.wide_integer() != 0)
          out_ += cat(value.wide_integer());
        else
          write_double(out_, value.as_double());
        break;
      case Json::Kind::kString:
        write_text(value.as_string());
        break;
      case Json::Kind::kArray:
        write_items('[', value.as_array(), ']', [&](const Json& item) { write(item); });
        break;
      case Json::Kind::kObject:
        write_items('{', value.as_object(), '}', [&](const Json::Member& member) {
          write_text(member.first);
          out_ += indent_ < 0 ? ":" : ": ";
          write(member.second);
        });
        break;
    }
  }

 private:
  void write_text(std::string_view text) { write_string(out_, is_valid_utf8(text) ? text : std::string_view(to_valid_utf8(text))); }

  template <class Items, class WriteItem>
  void write_items(char open, const Items& items, char close, WriteItem write_item) {
    out_ += open;
    ++depth_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += ',';
      new_line();
      write_item(items[i]);
    }
    --depth_;
    if (!items.empty()) new_line();
    out_ += close;
  }

  void new_line() {
    if (indent_ < 0) return;
    out_ += '\n';
    out_.append(static_cast<size_t>(depth_) * static_cast<size_t>(indent_), ' ');
  }

  std::string& out_;
  const int indent_;
  int depth_ = 0;
};

// Feeds the SAX parser and leaves behind how far it has read.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** seen;

  reference operator*() const { return *at; }
  Cursor& operator++() {
    *seen = ++at;
    return *this;
  }
  bool operator==(const Cursor& other) const { return at == other.at; }
  bool operator!=(const Cursor& other) const { return at != other.at; }
};

// The parser's text without its own name and position; a token that it quotes may be as long as the input.
std::string shorten(std::string_view message) {
  const auto drop_up_to = [&](std::string_view mark) {
    if (const size_t at = message.find(mark); at != message.npos) message.remove_prefix(at + mark.size());
  };
  if (message.starts_with("[json.")) drop_up_to("] ");
  if (message.starts_with("parse error at")) drop_up_to(": ");
  constexpr size_t kHead = 120, kTail = 120;
  if (message.size() <= kHead + kTail) return to_valid_utf8(message);
  return to_valid_utf8(cat(message.substr(0, kHead), " ... ", message.substr(message.size() - kTail)));
}

const std::string* duplicate_key(const Json::Object& members) {
  constexpr size_t kFew = 16;
  if (members.size() <= kFew) {
    for (size_t i = 1; i < members.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (members[i].first == members[j].first) return &members[i].first;
      }
    }
    return nullptr;
  }
  // Sorted rather than hashed: no choice of keys makes it quadratic.
  std::vector<const std::string*> keys;
  keys.reserve(members.size());
  for (const Json::Member& member : members) keys.push_back(&member.first);
  std::sort(keys.begin(), keys.end(), [](const auto* a, const auto* b) { return *a < *b; });
  const auto twin = std::adjacent_find(keys.begin(), keys.end(), [](const auto* a, const auto* b) { return *a == *b; });
  return twin == keys.end() ? nullptr : *twin;
}

// Builds a Json from the parser's events. A container that is open does not move: its parent grows only after it closed.
class Builder {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  explicit Builder(int max_depth) : max_depth_(static_cast<size_t>(max_depth)) {}

  bool null() { return add({}); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(number_integer_t value) { return add(int64_t{value}); }
  bool number_unsigned(number_unsigned_t value) { return add(size_t{value}); }
  bool number_float(number_float_t value, const string_t&) { return add(value); }
  bool string(string_t& value) { return add(std::move(value)); }
  bool binary(binary_t&) { return false; }
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool key(string_t& name) {
    key_ = std::move(name);
    return true;
  }
  bool end_object() {
    const std::string* twin = duplicate_key(open_.back()->as_object());
    if (twin != nullptr) return fail(cat("duplicate key \"", shorten(*twin), "\" in the object that ends here"));
    return close();
  }
  bool end_array() { return close(); }
  template <class Exception>
  bool parse_error(size_t, const std::string&, const Exception& exception) {
    return fail(shorten(exception.what()));
  }

  Json take() { return std::move(root_); }
  const std::string& problem() const { return problem_; }

 private:
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  Json& place(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    Json& parent = *open_.back();
    if (parent.is_array()) return parent.as_array().emplace_back(std::move(value));
    return parent.as_object().emplace_back(std::move(key_), std::move(value)).second;
  }
  bool open(Json container) {
    if (open_.size() == max_depth_) return fail(cat("more than ", max_depth_, " levels of arrays and objects"));
    open_.push_back(&place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  bool fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  const size_t max_depth_;
  Json root_;
  std::vector<Json*> open_;
  std::string key_;
  std::string problem_;
};

}  // namespace

std::string Json::dump(int indent) const {
  std::string out;
  Writer(out, indent).write(*this);
  return out;
}

Result<Json> parse_json(std::string_view text, std::string_view what, JsonLimits limits) {
  if (text.size() > limits.max_bytes) return error(what, ": ", text.size(), " bytes of JSON; at most ", limits.max_bytes, " are allowed");
  const char* seen = text.data();
  Builder builder(std::clamp(limits.max_depth, 0, 1000));
  const Cursor begin{text.data(), &seen}, end{text.data() + text.size(), &seen};
  if (!nlohmann::json::sax_parse(begin, end, &builder)) {
    return error(what, ": invalid JSON at byte ", static_cast<int64_t>(seen - text.data()), ": ", builder.problem());
  }
  return builder.take();
}

}  // namespace lamina
